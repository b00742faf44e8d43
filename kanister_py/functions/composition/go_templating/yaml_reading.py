"""YAML parsing for `fromYaml`: one document, with the errors and types of Go's yaml.v3."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

import yaml

from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.layouts import parse_time
from kanister_py.gotemplate.numbers import read_float
from kanister_py.gotemplate.printing import sprintf
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.times import Time
from kanister_py.gotemplate.types import ANY, map_of
from kanister_py.gotemplate.values import GoMap, Uint64, any_key, from_bytes, to_bytes

_MOST_DEPTH: Final = 100
_MAX_DUPLICATES: Final = 20
_ANY_KEYS: Final = map_of(ANY, ANY)
# Go's library is a port of the C library that PyYAML can use.
_EVENTS: Final[Any] = getattr(yaml, "CLoader", yaml.Loader)
_LONG_TAG: Final = "tag:yaml.org,2002:"
_RESOLVED_TAGS: Final = frozenset(
    ("", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp")
)
_WORDS: Final[Mapping[str, tuple[str, Any]]] = {
    **dict.fromkeys(("true", "True", "TRUE"), ("!!bool", True)),
    **dict.fromkeys(("false", "False", "FALSE"), ("!!bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("!!null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("!!float", float("nan"))),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("!!float", float("inf"))),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("!!float", float("-inf"))),
}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WHOLE: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII
)
_BASES: Final = (16, 2, 8, 10)
_DATE: Final = re.compile(r"[0-9]{4}-", re.ASCII)
_MOMENTS: Final = (
    "2006-1-2T15:4:5.999999999Z07:00",
    "2006-1-2t15:4:5.999999999Z07:00",
    "2006-1-2 15:4:5.999999999",
    "2006-1-2",
)


class _Node:
    """Scalar value in the source text."""

    __slots__ = ("alias_of", "is_quoted", "kind", "line", "members", "tag", "text")

    def __init__(self, kind: str, event: Any) -> None:
        self.kind = kind
        tag = getattr(event, "tag", None) or ""
        self.tag = f"!!{tag[len(_LONG_TAG) :]}" if tag.startswith(_LONG_TAG) else tag
        self.tag = "" if tag == "!" else self.tag
        self.text: str = getattr(event, "value", "")
        self.is_quoted = bool(getattr(event, "style", None))
        self.line: int = event.start_mark.line + 1
        self.members: list[_Node] = []
        self.alias_of: _Node | None = None

    @property
    def is_merge(self) -> bool:
        return self.kind == "scalar" and self.text == "<<" and self._resolved_tag() == "!!merge"

    def _resolved_tag(self) -> str:
        if self.tag or self.kind != "scalar":
            return self.tag or {"map": "!!map", "list": "!!seq"}.get(self.kind, "")
        if self.is_quoted:
            return "!!str"
        return "!!merge" if self.text == "<<" else _resolved("", self.text)[0]

    @property
    def is_text_key(self) -> bool:
        node = self.alias_of if self.alias_of is not None else self
        return node._resolved_tag() in ("!!str", "!!merge")  # noqa: SLF001 - a node of the same kind

    @property
    def is_map(self) -> bool:
        return (self.alias_of if self.alias_of is not None else self).kind == "map"


def from_yaml(text: str, spend: Callable[[int], None]) -> Any:
    """Parse the first document. `spend` counts values, including aliases, before creating them."""
    try:
        node = _Composer(text).document()
    except yaml.MarkedYAMLError as error:
        raise GoError(f"yaml: {_where(error)}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise GoError(f"yaml: {error.reason}") from None
    return None if node is None else _Reading(spend).document(node)


def _where(error: yaml.MarkedYAMLError) -> str:
    """Return the line as in Go's errors, which omit the first one; the scanner is one behind."""
    lines = (mark.line for mark in (error.context_mark, error.problem_mark) if mark is not None)
    line = next((line_number for line_number in lines if line_number), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: " if line else ""


class _Composer:
    """Composer of the nodes of the first document; later ones are not read."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(to_bytes(text), Loader=_EVENTS)
        self._anchors: dict[str, _Node] = {}

    def document(self) -> _Node | None:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version not in (None, (1, 1)):
                    raise GoError("yaml: found incompatible YAML document")
                node = self._node(next(self._events), 0)
                # The rest of the document, after the value, can still contain errors.
                next(self._events)
                return node
        return None

    def _node(self, event: Any, depth: int) -> _Node:
        if depth > _MOST_DEPTH:
            raise GoError(f"yaml: nested deeper than {_MOST_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        is_map = isinstance(event, yaml.MappingStartEvent)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        node = _Node("map" if is_map else "list" if is_list else "scalar", event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if is_map or is_list:
            for item in self._events:
                if isinstance(item, yaml.CollectionEndEvent):
                    break
                node.members.append(self._node(item, depth + 1))
        return node

    def _alias(self, event: Any) -> _Node:
        node = _Node("alias", event)
        node.text = event.anchor
        node.alias_of = self._anchors.get(node.text)
        if node.alias_of is None:
            raise GoError(f"yaml: unknown anchor '{node.text}' referenced")
        return node


class _Reading:
    """Values of nodes; duplicate keys are collected and rejected at the end."""

    def __init__(self, spend: Callable[[int], None]) -> None:
        self._spend = spend
        self._problems: list[str] = []
        self._open: set[int] = set()
        self._depth = 0

    def document(self, node: _Node) -> Any:
        value = self._value(node)
        if self._problems:
            raise GoError("yaml: unmarshal errors:\n  " + "\n  ".join(self._problems))
        return value

    def _value(self, node: _Node) -> Any:
        self._spend(1 + len(node.text) // 8)
        if node.kind == "scalar":
            return _scalar(node)
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise GoError(f"yaml: nested deeper than {_MOST_DEPTH} levels")
        if node.kind == "list":
            value: Any = [self._value(member) for member in node.members]
        elif node.kind == "map":
            are_texts = all(member.is_text_key for member in node.members[::2])
            value = {} if are_texts else GoMap(_ANY_KEYS)
            self._fill(value, node, None)
        else:
            value = self._aliased(node)
        self._depth -= 1
        return value

    def _aliased(self, node: _Node) -> Any:
        assert node.alias_of is not None
        if id(node.alias_of) in self._open:
            raise GoError(f"yaml: anchor '{node.text}' value contains itself")
        self._open.add(id(node.alias_of))
        value = self._value(node.alias_of)
        self._open.discard(id(node.alias_of))
        return value

    def _fill(self, members: dict[Any, Any], node: _Node, own_keys: set[Any] | None) -> None:
        """Add a map's members to `members`; of a merged map, only keys not in `own_keys`."""
        if self._has_duplicate_keys(node):
            return
        merged: _Node | None = None
        for key_node, value_node in zip(node.members[::2], node.members[1::2], strict=True):
            if key_node.is_merge:
                merged = value_node
                continue
            key = self._key(key_node, are_texts=not isinstance(members, GoMap))
            if own_keys is not None:
                if key in own_keys:
                    continue
                own_keys.add(key)
            members[key] = self._value(value_node)
        if merged is not None:
            self._merge(members, merged, set(members) if own_keys is None else own_keys)

    def _has_duplicate_keys(self, node: _Node) -> bool:
        keys: dict[tuple[str, str], list[_Node]] = {}
        for key in node.members[::2]:
            keys.setdefault((key.kind, key.text), []).append(key)
        duplicates = [
            pair for group in keys.values() for pair in combinations(group[:_MAX_DUPLICATES], 2)
        ]
        self._problems += [
            f"line {later.line}: mapping key {quote(later.text)} "
            f"already defined at line {first.line}"
            for first, later in duplicates
        ]
        return bool(duplicates)

    def _key(self, node: _Node, *, are_texts: bool) -> Any:
        if are_texts and node.kind == "scalar":
            return node.text
        key = self._value(node)
        if isinstance(key, dict | list):
            raise GoError(f"yaml: invalid map key: {sprintf('%#v', key)}")
        return any_key(key)

    def _merge(self, members: dict[Any, Any], merged: _Node, own_keys: set[Any]) -> None:
        several = merged.members if merged.kind == "list" else [merged]
        for pair in several:
            if not pair.is_map:
                raise GoError("yaml: map merge requires map or sequence of maps as the value")
            source = pair if pair.alias_of is None else pair.alias_of
            if id(source) in self._open:
                raise GoError(f"yaml: anchor '{pair.text}' value contains itself")
            self._open.add(id(source))
            self._spend(1)
            self._fill(members, source, own_keys)
            self._open.discard(id(source))


def _scalar(node: _Node) -> Any:
    if node.tag == "!!str" or (not node.tag and node.is_quoted):
        return node.text
    tag, value = _resolved(node.tag, node.text)
    if tag == "!!binary":
        try:
            return from_bytes(base64.b64decode(value.replace("\n", ""), validate=True))
        except (binascii.Error, ValueError):
            raise GoError("yaml: !!binary value contains invalid base64 data") from None
    return value


def _resolved(tag: str, text: str) -> tuple[str, Any]:
    """Resolve the type of a plain scalar. Raises an error if it does not match the tag."""
    if tag not in _RESOLVED_TAGS:
        return tag, text
    detected_tag, value = ("!!str", text) if tag == "!!str" else _guessed(tag, text)
    if tag in ("", detected_tag, "!!str"):
        return detected_tag, value
    if tag == "!!float" and detected_tag == "!!int" and not isinstance(value, Uint64):
        return tag, float(value)
    raise GoError(f"yaml: cannot decode {detected_tag} `{text}` as a {tag}")


def _guessed(tag: str, text: str) -> tuple[str, Any]:
    constant = _WORDS.get(text)
    if constant is not None:
        return constant
    if text == "<<":
        return "!!str", text
    if text[0] == ".":
        number = read_float(text)
        return ("!!str", text) if number is None else ("!!float", number)
    if text[0] not in "+-0123456789":
        return "!!str", text
    if tag in ("", "!!timestamp") and _DATE.match(text):
        moment = _moment(text)
        if moment is not None:
            return "!!timestamp", moment
    return _number(text)


def _moment(text: str) -> Time | None:
    for layout in _MOMENTS:
        try:
            return parse_time(layout, text)
        except GoError:
            continue
    return None


def _number(text: str) -> tuple[str, Any]:
    plain = text.replace("_", "")
    match = _WHOLE.fullmatch(plain)
    if match:
        sign, *digits = match.groups()
        base, written = next((b, d) for b, d in zip(_BASES, digits, strict=True) if d is not None)
        # Go's integers have at most this many digits, without leading zeros.
        number = int(written.lstrip("0")[:65] or "0", base)
        number = -number if sign == "-" else number
        if -(1 << 63) <= number < 1 << 63:
            return "!!int", number
        if not sign and 0 < number < 1 << 64:
            return "!!int", Uint64(number)
    if _FLOAT.fullmatch(plain):
        real = read_float(plain)
        if real is not None:
            return "!!float", real
    return "!!str", text
