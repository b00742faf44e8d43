"""Manifests: the objects in a rendered text.

Most templates render a plain tree of keys and short values, one per line. These are parsed
here line by line, several times as fast as by a YAML parser; all other documents are passed
to the YAML parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.core.yaml.scalars import key_of_plain, value_of_plain
from kanister_py.functions.composition.answering import Data, Refused


def read_manifests(text: str) -> list[Data]:
    """Parse all objects of a text; empty documents are skipped."""
    manifests: list[Data] = []
    seen: dict[str, _Line] = {}
    for part in _parts(text):
        plain = parse_simple(part, seen)
        for value in _parse_fully(part) if plain is None else (plain,):
            _check(value)
            manifests.append(value)
    return manifests


def _parts(text: str) -> list[str]:
    """Split a text at lines that only separate documents."""
    if text.startswith("%") or "\n%" in text:
        return [text]  # a directive belongs to the document after the separator
    return [part for part in _PARTING.split(text) if part and not part.isspace()]


# The pattern starts with the dashes and then looks back for the start of the line, because
# fixed text is found fastest.
_PARTING = re.compile(r"---(?<![^\n]---)[ ]*(?:\n|\Z)")


def _parse_fully(text: str) -> list[Any]:
    try:
        return [document.root.value for document in parse_documents(text, repeated_keys_win=True)]
    except InvalidDocument as error:
        first = error.problems[0]
        raise Refused(
            "cannot decode manifest: error converting YAML to JSON: "
            f"yaml: line {first.line}: {first.message}"
        ) from None


def _check(value: Any) -> None:
    if not isinstance(value, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        raise Refused(
            "cannot decode manifest: error unmarshaling JSON: while decoding JSON: json: "
            f"cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(value.get("kind"), str) or not value["kind"]:
        shown = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        raise Refused(
            "cannot decode manifest: error unmarshaling JSON: while decoding JSON: "
            f"Object 'Kind' is missing in '{shown[:1000]}'"
        )


# A key, a colon and optionally a value, optionally after the dash of a list item. Quoted
# text contains no escapes. Plain text has only one reading: it contains no quotes, brackets,
# special characters of YAML, repeated blanks, or colons and number signs that could end it.
# Character classes are positive, because excluding all characters beyond ASCII takes
# milliseconds to compile.
_SIGNS = "[A-Za-z0-9_./@+=,()*%;<>$^~-]*"
_WORD = rf"[A-Za-z0-9_./]{_SIGNS}(?::(?=[A-Za-z0-9_./@+=,()*-]){_SIGNS})*"
_SCALAR = (
    r'"(?P<double>[ !#-\[\]-~]*)"'
    r"|'(?P<single>[ -&(-~]*)'"
    rf"|(?P<plain>-{{0,2}}{_WORD}(?: {_WORD})*)"
    r"|(?P<empty>\{\}|\[\])"
)
_LINE = re.compile(
    r"( *)(- )?"
    rf"(?:([A-Za-z_][A-Za-z0-9_./-]*):(?: +(?:{_SCALAR}))?|(?P<item>-{{0,2}}{_WORD}))[ ]*"
)
_NOTHING = re.compile(r"[ ]*(?:#[ -~]*)?")


class _Line(NamedTuple):
    """Parsed line: its indentation and its content."""

    indent: int
    is_element: bool
    key: str | None
    value: Any
    """Value, or the class of a container that is created for every use of the line."""
    has_value: bool


_SKIPPED = _Line(-1, False, None, None, False)
_EMPTY: Mapping[str, type] = {"{}": dict, "[]": list}


def _line(text: str) -> _Line | None:
    """Parse a line. Returns None if it is not part of a plain tree."""
    match = _LINE.fullmatch(text)
    if match is None:
        return _SKIPPED if _NOTHING.fullmatch(text) else None
    spaces, dash, key = match.group(1, 2, 3)
    name = None
    if key is not None:
        name = key_of_plain(key)
        if name is None:
            return None
    elif dash is None:
        return None
    kind = match.lastgroup  # None if the line ends with the key
    value: Any = None if kind is None else match[kind]
    if kind in ("plain", "item"):
        try:
            value = value_of_plain(value)
        except ValueError:
            return None
    elif kind == "empty":
        value = _EMPTY[value]
    return _Line(len(spaces), dash is not None, name, value, kind is not None)


def parse_simple(text: str, seen: dict[str, _Line] | None = None) -> Data | None:  # noqa: C901 - one iteration per line, on a hot path
    """Parse a document that is a plain tree. Returns None for any other document.

    `seen` caches lines, because documents of one template share most of them.
    """
    seen = {} if seen is None else seen
    root: Data = {}
    # The current container, its indentation, and the containers around it.
    target: Any = root
    at, is_list = 0, False
    around: list[tuple[Any, int, bool]] = []
    waiting: str | None = None  # the last key of the map, if it has no value yet
    for line_text in text.split("\n"):
        line = seen.get(line_text)
        if line is None:
            line = _line(line_text)
            if line is None:
                return None
            seen[line_text] = line
        indent, is_element, name, value, has_value = line
        if indent < 0:
            continue
        if waiting is not None:
            if indent > at or (is_element and indent == at):
                around.append((target, at, is_list))
                inner: Any = [] if is_element else {}
                target[waiting] = inner
                target, at, is_list = inner, indent, is_element
            waiting = None
        while indent < at or (indent == at and is_list and not is_element):
            target, at, is_list = around.pop()
        if indent != at or is_list is not is_element:
            return None
        if value is dict or value is list:
            value = value()
        if is_element:
            if name is None:
                target.append(value)
                continue
            element: Data = {}
            target.append(element)
            around.append((target, at, True))
            target, at, is_list = element, indent + 2, False
        target[name] = value
        if not has_value:
            waiting = name
    # The YAML parser distinguishes an empty document from an empty map.
    return root or None
