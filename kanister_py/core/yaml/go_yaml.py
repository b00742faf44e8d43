"""YAML in the layout of Go's tools, such as kubectl and Crossplane's CLI.

Keys are in natural order, lists are not indented, lines are folded after 80 columns, and
text that would be read as another type has double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from types import SimpleNamespace
from typing import Any, Final

from yaml.emitter import Emitter
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from kanister_py.core.yaml.scalars import NUMBER_STARTS, WORDS
from kanister_py.gotemplate.numbers import format_float

_WIDTH: Final = 80
_LONGEST_KEY_BYTES: Final = 128
# Numbers of YAML 1.1 and 1.2. For most texts the first character rules them out.
_NUMBER: Final = re.compile(
    r"""(?:
    [-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)
    |[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)
    |[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    |[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}
     (?:[Tt ]\ *[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?
    )\Z""",
    re.VERBOSE,
)
# Characters of more than three bytes are always escaped.
_UNPRINTABLE_CHARACTERS: Final = "[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe-\U0010ffff]"
_UNPRINTABLE: Final = re.compile(_UNPRINTABLE_CHARACTERS)
_ESCAPED: Final = re.compile('["\\\\\n\u2028\u2029]|' + _UNPRINTABLE_CHARACTERS)


def dump_go_yaml(value: Any) -> str:
    """Format plain data as one document, without a document marker."""
    written: list[str] = []
    stream = SimpleNamespace(write=written.append)
    emitter = _Emitter(stream, allow_unicode=True, width=_WIDTH)
    for event in (
        StreamStartEvent(),
        DocumentStartEvent(explicit=False),
        *_events_of(value),
        DocumentEndEvent(explicit=False),
        StreamEndEvent(),
    ):
        emitter.emit(event)
    return "".join(written)


def _events_of(value: Any) -> Iterator[Event]:
    if isinstance(value, dict):
        yield MappingStartEvent(None, None, True, flow_style=False)
        for key in in_go_order(value):
            yield _scalar(key)
            yield from _events_of(value[key])
        yield MappingEndEvent()
    elif isinstance(value, list | tuple):
        yield SequenceStartEvent(None, None, True, flow_style=False)
        for item in value:
            yield from _events_of(item)
        yield SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: Any) -> ScalarEvent:
    style = None
    if isinstance(value, str):
        if "\n" in value:
            style = "|"
        elif value in WORDS or (value[0] in NUMBER_STARTS and _NUMBER.match(value)):
            style = '"'
        if not (value.isascii() and value.isprintable()) and _UNPRINTABLE.search(value):
            style = '"'
        text = value
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = _number(value)
    return ScalarEvent(None, None, (True, True), text, style=style)


def _number(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return str(value)
    text = format_float(float(value), "g", -1)
    return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(text, text)


def in_go_order(keys: Iterable[Any], *, is_version_3: bool = False) -> list[Any]:
    """Sort keys in natural order: `a2` before `a10`, and punctuation before letters.

    Version 3 of Go's library has letters before punctuation after a digit.
    """
    listed = list(keys)
    if all(isinstance(key, str) and key.isalpha() for key in listed):
        return sorted(listed)

    def compare(one: Any, other: Any) -> int:
        return _compare(str(one), str(other), is_version_3=is_version_3)

    return sorted(listed, key=cmp_to_key(compare))


def _compare(one: str, other: str, *, is_version_3: bool) -> int:
    follows_digit = False
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a == b:
            follows_digit = is_version_3 and a.isdecimal()
            continue
        if a.isalpha() and b.isalpha():
            return -1 if a < b else 1
        if a.isalpha() or b.isalpha():
            return -1 if a.isalpha() is follows_digit else 1
        return _compare_counts(one, other, at)
    return len(one) - len(other)


def _compare_counts(one: str, other: str, at: int) -> int:
    """Compare two texts at a difference where neither has a letter."""
    counts = [_DIGITS.match(text, at) for text in (one, other)]
    lead = ""
    if "0" in (one[at], other[at]):
        before = one[:at]
        digits = before[len(before.rstrip("0123456789")) :]
        # After another digit, a zero is part of the number and not a leading zero.
        lead = "1" if digits.strip("0") else ""
    texts = [lead + (count.group() if count else "") for count in counts]
    numbers = [int(text or "0") for text in texts]
    if numbers[0] != numbers[1]:
        return numbers[0] - numbers[1]
    if len(texts[0]) != len(texts[1]):
        return len(texts[0]) - len(texts[1])
    return -1 if one[at] < other[at] else 1


_DIGITS = re.compile(r"[0-9]+")


class _Emitter(Emitter):
    """PyYAML's emitter with the differences of Go's. Both are ports of libyaml."""

    @property
    def open_ended(self) -> bool:
        """Whether the document needs an end marker. Go never writes one."""
        return False

    @open_ended.setter
    def open_ended(self, value: bool) -> None:
        pass

    def check_simple_key(self) -> bool:
        if isinstance(self.event, ScalarEvent):
            length = len(self.event.value.encode("utf-8", "surrogatepass"))
            return "\n" not in self.event.value and length <= _LONGEST_KEY_BYTES
        return bool(super().check_simple_key())

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        self.write_indicator('"', True)
        has_spaces = False
        is_plain = text.isascii() and text.isprintable()
        for at, character in enumerate(text):
            if character in '"\\' if is_plain else _ESCAPED.match(character):
                self._write(_escape(character))
                has_spaces = False
            elif character == " ":
                is_inside = 0 < at < len(text) - 1
                if split and not has_spaces and self.column > self.best_width and is_inside:
                    self.write_indent()
                    if text[at + 1] == " ":
                        self._write("\\")
                else:
                    self._write(character)
                has_spaces = True
            else:
                self._write(character)
                has_spaces = False
        self.write_indicator('"', False)

    def _write(self, text: str) -> None:
        self.column += len(text)
        self.stream.write(text)


def _escape(character: str) -> str:
    if character in Emitter.ESCAPE_REPLACEMENTS:
        return f"\\{Emitter.ESCAPE_REPLACEMENTS[character]}"
    number = ord(character)
    if number <= 0xFF:
        return f"\\x{number:02X}"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"
