"""Reader: plain data becomes values with types, or every problem in it is noted.

By hand: every command that reads a resource waits for this module, and a library
for models takes longer to load than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.models import UnknownKey
from kanister_py.core.yaml.documents import Document, Path, shown

_TIMES = frozenset({"timeout", "backoff", "maxBackoff", "ttl"})


class Reader:
    """Reader of plain data that keeps every problem, so that all are raised at once.

    What all resources and files of our own are read with. A field that is null is one
    that is left out.
    """

    def __init__(self) -> None:
        self.problems: list[tuple[Path, str]] = []
        self.unknown: list[UnknownKey] = []

    def refuse(self, path: Path, wanted: str, found: object) -> None:
        """Note that something else was wanted at a path."""
        is_bare = wanted == "text" and isinstance(found, bool | int | float)
        hint = "; put it in quotes if that is what it says" if is_bare else ""
        self.note(path, f"Must be {wanted}, found {shown(found)}{hint}")

    def note(self, path: Path, problem: str) -> None:
        """Note what is wrong at a path."""
        self.problems.append((path, problem))

    def problems_in(self, document: Document, path: Path = ()) -> list[Problem]:
        """Give the problems with their places, `path` leading to what was read."""
        return [document.problem((*path, *inside), problem) for inside, problem in self.problems]

    def refuse_problems(self, document: Document, path: Path = ()) -> None:
        """Refuse a document with every problem that was noted, if there is any."""
        if self.problems:
            problems = self.problems_in(document, path)
            raise InvalidDocument(sorted(problems, key=lambda each: each.line))

    def mapping(
        self,
        value: Any,
        path: Path,
        known: tuple[str, ...] | None = None,
        *,
        keeps_nulls: bool = False,
    ) -> dict[str, Any]:
        """Read a map; with `known`, keys beside those are noted."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse(path, "a map", value)
            return {}
        if known is not None and not value.keys() <= {*known}:
            self.unknown += [UnknownKey((*path, key), known) for key in value if key not in known]
        if keeps_nulls or None not in value.values():
            return value
        return {key: each for key, each in value.items() if each is not None}

    def member(
        self, data: Mapping[str, Any], key: str, path: Path, known: tuple[str, ...] | None = None
    ) -> tuple[dict[str, Any], Path]:
        """Read a map under a key, and give it with its path."""
        inside = (*path, key)
        return self.mapping(data.get(key), inside, known), inside

    def members(
        self, data: Mapping[str, Any], key: str, path: Path, known: tuple[str, ...]
    ) -> Iterator[tuple[dict[str, Any], Path]]:
        """Read a list of maps under a key, and give each with its path."""
        for index, each in enumerate(self.items(data, key, path)):
            inside = (*path, key, index)
            yield self.mapping(each, inside, known), inside

    def flag(self, data: Mapping[str, Any], key: str, path: Path) -> bool:
        """Read true or false under a key; nothing is false."""
        value = data.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.refuse((*path, key), "true or false", value)
        return False

    def items(self, data: Mapping[str, Any], key: str, path: Path) -> list[Any]:
        """Read a list under a key."""
        value = data.get(key)
        if value is None or isinstance(value, list):
            return value or []
        self.refuse((*path, key), "a list", value)
        return []

    def text(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        """Read a text under a key; none is an empty one."""
        value = data.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        if key in _TIMES and type(value) in (int, float):
            advice = f"; write {value}s" if value > 0 else ""
            self.note((*path, key), f"Must be a time with its unit, found {value}{advice}")
        else:
            self.refuse((*path, key), "text", value)
        return ""

    def all_texts(self, data: Mapping[str, Any], keys: Sequence[str], path: Path) -> list[str]:
        """Read texts under keys."""
        found = [*map(data.get, keys, repeat(""))]
        if {*map(type, found)} <= {str}:
            return found
        return [self.text(data, key, path) for key in keys]

    def wanted(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        """Read a text that must not be empty."""
        count = len(self.problems)
        text = self.text(data, key, path)
        if not text and len(self.problems) == count:
            self.note((*path, key), "Must be given")
        return text

    def texts(self, data: Mapping[str, Any], key: str, path: Path) -> dict[str, str]:
        """Read a map of texts under a key."""
        value = data.get(key)
        if value is None:
            return {}
        found = self.mapping(value, (*path, key))
        return {name: self.text(found, name, (*path, key)) for name in found}

    def names(self, data: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
        """Read a list of texts under a key."""
        found = []
        for index, each in enumerate(self.items(data, key, path)):
            if isinstance(each, str):
                found.append(each)
            else:
                self.refuse((*path, key, index), "text", each)
        return tuple(found)

    def number(
        self,
        data: Mapping[str, Any],
        key: str,
        path: Path,
        default: float,
        *,
        least: int,
        whole: bool = False,
    ) -> float:
        """Read a number under a key that is no less than `least`."""
        value = data.get(key)
        if value is None:
            return default
        wanted = "a whole number" if whole else "a number"
        kinds = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            self.refuse((*path, key), wanted, value)
            return default
        if value < least:
            self.refuse((*path, key), f"at least {least}", value)
        return value
