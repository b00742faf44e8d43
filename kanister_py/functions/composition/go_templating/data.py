"""Template data: the request in the form for Go templates, and delimiters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.gotemplate.values import Int64

_LIMIT = 2**63


def template_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a request in the form of its message's JSON, which omits empty fields.

    Whole numbers are int64. Fetched resources are available under both of their names.
    """
    data = {key: _value(member) for key, member in request.items() if member or key in _KEPT}
    for old, new in (
        ("extraResources", "requiredResources"),
        ("requiredResources", "extraResources"),
    ):
        if new not in data and old in data:
            data[new] = data[old]
    return data


_KEPT = frozenset({"meta", "observed", "desired", "input"})


def _value(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        for key, inside in value.items():
            if type(inside) not in _AS_THEY_ARE:
                copied[key] = _value(inside)
        return copied
    if kind is list:
        return [element if type(element) in _AS_THEY_ARE else _value(element) for element in value]
    if kind in _AS_THEY_ARE:
        return value
    if kind is int or kind is float:
        is_whole = -_LIMIT <= value < _LIMIT and (kind is int or value == int(value))
        return Int64(value) if is_whole else float(value)
    if isinstance(value, Mapping):
        return {key: _value(member) for key, member in value.items()}
    return [_value(element) for element in value]


_AS_THEY_ARE = frozenset({str, bool, type(None)})


def with_delimiters(text: str, left: str, right: str) -> str:
    """Convert a template with custom delimiters to the default ones.

    Line numbers do not change. Columns change if the delimiters have another length, or if
    the text contains the default ones.
    """
    pieces: list[str] = []
    at = 0
    while True:
        start = text.find(left, at)
        if start < 0:
            pieces.append(_literal(text[at:]))
            return "".join(pieces)
        pieces.append(_literal(text[at:start]))
        end = _end_of_action(text, start + len(left), right)
        if end < 0:
            pieces.append("{{" + text[start + len(left) :])
            return "".join(pieces)
        pieces.append("{{" + text[start + len(left) : end] + "}}")
        at = end + len(right)


def _literal(text: str) -> str:
    return text.replace("{{", '{{"{{"}}') if "{{" in text else text


def _end_of_action(text: str, at: int, right: str) -> int:
    """Return the position of an action's end, ignoring quoted text, or -1 if it has none."""
    comment = at + 2 if text.startswith("- ", at) else at
    if text.startswith("/*", comment):
        end = text.find("*/", comment)
        return text.find(right, end) if end >= 0 else -1
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\" and quote != "`":
                at += 1
            elif char == quote:
                quote = ""
        elif text.startswith(right, at):
            return at
        elif char in "\"'`":
            quote = char
        at += 1
    return -1
