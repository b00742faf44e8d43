"""YAML output in the layout of Go's library.

Four spaces per level, lists inside maps are indented, and items of lists are two spaces
after the dash. Keys are in natural order, and lines are not folded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kanister_py.core.templates.param_types import KubeTime
from kanister_py.core.yaml.go_yaml import in_go_order
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.layouts import format_time
from kanister_py.gotemplate.numbers import format_float
from kanister_py.gotemplate.times import Duration, Time
from kanister_py.gotemplate.values import Struct

_INDENT = 4
_MOST_DEPTH = 100
_LONGEST_KEY = 128

# Texts that would be parsed as another type without quotes.
_RESERVED_WORDS = (
    "null|Null|NULL|true|True|TRUE|false|False|FALSE"
    "|y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF"
)
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?"
_NOT_TEXT = re.compile(
    rf"""(?:
    ~|{_RESERVED_WORDS}
  | [-+]?(?:0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9][0-9_]*)
  | [-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?
  | [-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)
  | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
  | [0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}
    (?:[ ]{_CLOCK}|[Tt]{_CLOCK}(?:Z|[-+][0-9]{{2}}:[0-9]{{2}}))?
    )?""",
    re.VERBOSE,
)

# Most texts are words without special characters, and need no further checks.
_WORDS = re.compile(
    rf"(?!(?:{_RESERVED_WORDS})\Z)[A-Za-z_/][A-Za-z0-9_./-]*(?:[ :][A-Za-z0-9_./-]+)*"
)

# Line breaks, and characters that are always escaped.
_BREAKS = "\n\u2028\u2029"
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe-\U0010ffff"

_ESCAPED = re.compile(rf'["\\\t{_BREAKS}{_UNSEEN}]')
_NO_BLOCK = re.compile(rf"[{_UNSEEN}]|[ ](?:[{_BREAKS}]|\Z)")
_NO_SINGLE_QUOTES = re.compile(rf"[\t{_UNSEEN}]|[ ][{_BREAKS}]|[{_BREAKS}][ ]")
_NOT_PLAIN = re.compile(
    rf"""\A(?:[ #,\[\]{{}}&*!|>'"%@`]|---|\.\.\.|[-?](?:[ ]|\Z))"""
    rf"|[{_BREAKS}]|[ ]\#|:(?:[ ]|\Z)|[ ]\Z"
)
_LINE = re.compile(rf"[^{_BREAKS}]+")
_LINE_ENDS = re.compile(rf"[{_BREAKS}]+")

_ESCAPES = {
    sign: f"\\{letter}"
    for sign, letter in zip(
        '\0\a\b\t\n\v\f\r\x1b"\\\x85\u2028\u2029', '0abtnvfre"\\NLP', strict=True
    )
}


class Bareword(str):
    """Text that is written without quotes, even if it is parsed as another type."""

    __slots__ = ()


def to_yaml(value: Any, spend: Callable[[int], None]) -> str:
    """Format a value as YAML. `spend` counts values before they are written."""
    return written(_plain(value, spend, 0))


def _plain(value: Any, spend: Callable[[int], None], depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise GoError(f"yaml: nested deeper than {_MOST_DEPTH} levels")
    spend(1)
    if isinstance(value, str):
        spend(len(value) // 8)
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Struct):
        if isinstance(value, KubeTime):
            return _rfc3339(value.moment)  # a `str`, so that it is quoted
        return {name.lower(): _plain(value[name], spend, depth + 1) for name in value.struct.fields}
    if isinstance(value, Mapping):
        return {
            Bareword(_rfc3339(key)) if isinstance(key, Time) else key: _plain(
                value[key], spend, depth + 1
            )
            for key in _in_order(value)
        }
    if isinstance(value, list | tuple):
        return [_plain(element, spend, depth + 1) for element in value]
    if isinstance(value, bytes):
        return [int(byte) for byte in value]
    return _atom(value)


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Sort keys like Go's library: numbers and booleans by value, then texts, then dates."""
    listed = list(keys)
    texts = [key for key in listed if isinstance(key, str)]
    ordered = in_go_order(texts, is_version_3=True)
    if len(texts) == len(listed):
        return ordered
    numbers = [key for key in listed if isinstance(key, int | float)]
    # Of equal values, a boolean is before an int, and an int before a float.
    numbers.sort(key=lambda key: (key, not isinstance(key, bool), isinstance(key, float)))
    others = [key for key in listed if not isinstance(key, str | int | float)]
    empty = [key for key in others if key is None]
    return [*numbers, *empty, *ordered, *(key for key in others if key is not None)]


def _atom(value: Any) -> Any:
    """Convert numbers to Python's types, and values that Go writes as texts to texts."""
    if isinstance(value, Time):
        return Bareword(_rfc3339(value))
    if isinstance(value, Duration) or not isinstance(value, int | float):
        return value.go_string() if hasattr(value, "go_string") else str(value)
    return int(value) if isinstance(value, int) else float(value)


def _rfc3339(moment: Time) -> str:
    return format_time(moment, "2006-01-02T15:04:05.999999999Z07:00")


def written(value: Any) -> str:
    """Writer of maps, lists, texts, numbers, booleans and nulls; maps keep their order."""
    if not _has_members(value):
        return _scalar(value, _INDENT)
    lines: list[str] = []
    _write_members(value, 0, "", lines)
    return "".join(lines)


def _has_members(value: Any) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _write_members(value: Any, indent: int, lead: str, lines: list[str]) -> None:
    """Write a non-empty map or list; `lead` is the margin of its first line.

    `lead` may contain the dash or the colon before the value.
    """
    if isinstance(value, dict):
        _write_map(value, indent, lead, lines)
        return
    margin = " " * indent
    for element in value:
        if _has_members(element):
            _write_members(element, indent + 2, f"{lead}- ", lines)
        else:
            lines.append(f"{lead}- {_scalar(element, indent + 2)}")
        lead = margin


def _write_map(value: dict[Any, Any], indent: int, lead: str, lines: list[str]) -> None:
    margin = " " * indent
    inner = (indent // _INDENT + 1) * _INDENT
    inner_margin = " " * inner
    for key, member in value.items():
        is_simple = _is_simple(key)
        if is_simple:
            start = f"{lead}{_line(key, None)}:"
        else:
            lines.append(f"{lead}? {_scalar(key, inner)}")
            start = f"{margin}:"
        if not _has_members(member):
            lines.append(f"{start} {_scalar(member, inner)}")
        elif is_simple:
            lines.append(f"{start}\n")
            _write_members(member, inner, inner_margin, lines)
        else:
            _write_members(member, inner, start.ljust(inner), lines)
        lead = margin


def _is_simple(key: Any) -> bool:
    """Return True if a key needs no question mark: it has one line and is short enough."""
    if not isinstance(key, str):
        return True
    if "\n" in key:
        return False
    # A character has at most four bytes.
    short = len(key) * 4 <= _LONGEST_KEY
    return short or len(key.encode("utf-8", "surrogatepass")) <= _LONGEST_KEY


def _scalar(value: Any, indent: int) -> str:
    """Write a scalar or an empty collection, with the end of its line."""
    if isinstance(value, str) and "\n" in value and not _NO_BLOCK.search(value):
        return _block(value, indent)
    return f"{_line(value, indent)}\n"


def _line(value: Any, indent: int | None) -> str:
    """Write a scalar that is not a block, or an empty collection.

    Only quoted texts with other line breaks have an indent; without one, these are escaped.
    """
    if isinstance(value, str):
        return value if isinstance(value, Bareword) else _text(value, indent)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = format_float(value, "g", -1)
        return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(text, text)
    if isinstance(value, dict):
        return "{}"
    return "[]" if isinstance(value, list) else str(value)


def _text(text: str, indent: int | None) -> str:
    if _WORDS.fullmatch(text):
        return text
    if "\n" in text or _NOT_TEXT.fullmatch(text) or _NO_SINGLE_QUOTES.search(text):
        return _double_quoted(text)
    if not _NOT_PLAIN.search(text):
        return text
    quoted = text.replace("'", "''")
    if _LINE_ENDS.search(text):
        if indent is None:
            return _double_quoted(text)
        margin = " " * indent
        quoted = _LINE_ENDS.sub(lambda ends: ends.group() + margin, quoted)
    return f"'{quoted}'"


def _double_quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    sign = match.group()
    number = ord(sign)
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if number <= 0xFF:
        return f"\\x{number:02X}"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"


def _block(text: str, indent: int) -> str:
    """Write a text line by line, unchanged."""
    hints = str(_INDENT) if text[0] in f" {_BREAKS}" else ""
    end = ""
    if text[-1] not in _BREAKS:
        hints += "-"
        end = "\n"
    elif len(text) == 1 or text[-2] in _BREAKS:
        hints += "+"
    margin = " " * indent
    return f"|{hints}\n{_LINE.sub(lambda line: margin + line.group(), text)}{end}"
