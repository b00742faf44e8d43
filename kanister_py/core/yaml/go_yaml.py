"""YAML in the layout of Go's tools: what kubectl and the CLI of Crossplane write.

Keys in the order of numbers inside of names, lists as far out as their key, lines that are
folded behind 80 columns, and double quotes around what would not be read as text.
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
# Numbers of two versions of YAML. For most texts the first character decides.
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
# Signs of more than three bytes are never written as they are.
_UNSEEN_SIGNS: Final = "[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe-\U0010ffff]"
_UNSEEN: Final = re.compile(_UNSEEN_SIGNS)
_ESCAPED: Final = re.compile('["\\\\\n\u2028\u2029]|' + _UNSEEN_SIGNS)


def dump_go_yaml(value: Any) -> str:
    """Write plain data as one document, without a mark at its start."""
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
        for each in value:
            yield from _events_of(each)
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
        if not (value.isascii() and value.isprintable()) and _UNSEEN.search(value):
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


def in_go_order(keys: Iterable[Any], *, is_third: bool = False) -> list[Any]:
    """Order keys as people count: `a2` comes before `a10`, and signs before letters.

    The third version of Go's library has letters before signs behind a digit.
    """
    listed = list(keys)
    if all(isinstance(each, str) and each.isalpha() for each in listed):
        return sorted(listed)

    def compare(one: Any, other: Any) -> int:
        return _compare(str(one), str(other), is_third=is_third)

    return sorted(listed, key=cmp_to_key(compare))


def _compare(one: str, other: str, *, is_third: bool) -> int:
    follows_digit = False
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a == b:
            follows_digit = is_third and a.isdecimal()
            continue
        if a.isalpha() and b.isalpha():
            return -1 if a < b else 1
        if a.isalpha() or b.isalpha():
            return -1 if a.isalpha() is follows_digit else 1
        return _compare_counts(one, other, at)
    return len(one) - len(other)


def _compare_counts(one: str, other: str, at: int) -> int:
    """Compare two texts that differ at a place where neither has a letter."""
    counts = [_DIGITS.match(text, at) for text in (one, other)]
    lead = ""
    if "0" in (one[at], other[at]):
        before = one[:at]
        digits = before[len(before.rstrip("0123456789")) :]
        # Behind another digit a nought is a digit of a number, not the first.
        lead = "1" if digits.strip("0") else ""
    texts = [lead + (found.group() if found else "") for found in counts]
    numbers = [int(each or "0") for each in texts]
    if numbers[0] != numbers[1]:
        return numbers[0] - numbers[1]
    if len(texts[0]) != len(texts[1]):
        return len(texts[0]) - len(texts[1])
    return -1 if one[at] < other[at] else 1


_DIGITS = re.compile(r"[0-9]+")


class _Emitter(Emitter):
    """The emitter of PyYAML, which is libyaml's as Go's is, where those two differ."""

    @property
    def open_ended(self) -> bool:
        """Whether a mark has to say where the document ends: Go never writes one."""
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
        for at, sign in enumerate(text):
            if sign in '"\\' if is_plain else _ESCAPED.match(sign):
                self._write(_escape(sign))
                has_spaces = False
            elif sign == " ":
                is_inside = 0 < at < len(text) - 1
                if split and not has_spaces and self.column > self.best_width and is_inside:
                    self.write_indent()
                    if text[at + 1] == " ":
                        self._write("\\")
                else:
                    self._write(sign)
                has_spaces = True
            else:
                self._write(sign)
                has_spaces = False
        self.write_indicator('"', False)

    def _write(self, text: str) -> None:
        self.column += len(text)
        self.stream.write(text)


def _escape(sign: str) -> str:
    if sign in Emitter.ESCAPE_REPLACEMENTS:
        return f"\\{Emitter.ESCAPE_REPLACEMENTS[sign]}"
    number = ord(sign)
    if number <= 0xFF:
        return f"\\x{number:02X}"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"
