"""Quoting of strings and characters in Go's syntax."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = {char: f"\\{letter}" for char, letter in zip("\a\b\f\n\r\t\v", "abfnrtv", strict=True)}
_NEEDS_CARE = re.compile(r'[^ -~]|["\\]')
_PRINTABLE = frozenset("LMNPS")
_MAX_RUNE = 0x10FFFF


def is_print(char: str) -> bool:
    """Return True if Go considers the character printable; of all spaces only the plain one."""
    if char <= "~":
        return char >= " "
    return unicodedata.category(char)[0] in _PRINTABLE


def quote(text: str, *, ascii_only: bool = False) -> str:
    """Quote a text with double quotes, as `%q` does."""
    if _NEEDS_CARE.search(text) is None:
        return f'"{text}"'
    return '"' + "".join(_escaped(char, '"', ascii_only=ascii_only) for char in text) + '"'


def quote_rune(code: int, *, ascii_only: bool = False) -> str:
    """Quote a character with single quotes, as `%q` does for an integer."""
    if code > _MAX_RUNE or code < 0 or 0xD800 <= code <= 0xDFFF:
        code = 0xFFFD
    return "'" + _escaped(chr(code), "'", ascii_only=ascii_only) + "'"


def _escaped(char: str, mark: str, *, ascii_only: bool) -> str:
    if char in (mark, "\\"):
        return "\\" + char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if is_print(char) and not (ascii_only and code >= 0x80):
        return char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def can_backquote(text: str) -> bool:
    """Return True if the text can be written unchanged between backquotes."""
    return not any(
        char == "`"
        or char in ("\x7f", "\ufeff")
        or (char < " " and char != "\t")
        or "\ud800" <= char <= "\udfff"
        for char in text
    )


def describe_rune(char: str) -> str:
    """Format a character as `%#U` does: its number, and the character if it is printable."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        code, char = 0xFFFD, "\ufffd"
    shown = f" '{char}'" if is_print(char) else ""
    return f"U+{code:04X}{shown}"


# Parsing

_SIMPLE = {escape[1]: char for char, escape in _ESCAPES.items()} | {char: char for char in "\\'\""}
_HEX_WIDTHS = {"x": 2, "u": 4, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")


class InvalidSyntax(ValueError):
    """The quoted text is no valid Go literal."""

    def __init__(self) -> None:
        super().__init__("invalid syntax")


def unquote(literal: str) -> str:
    """Return the value of a Go string literal, double-quoted or raw."""
    inside = literal[1:-1]
    if literal[0] == "`":
        return inside.replace("\r", "") if "\r" in inside else inside
    if "\\" not in inside:
        return inside
    read: list[str] = []
    at = 0
    has_bytes = False
    while at < len(inside):
        if inside[at] != "\\":
            end = inside.find("\\", at)
            end = len(inside) if end < 0 else end
            read.append(inside[at:end])
            at = end
            continue
        code, is_byte, at = _read_escape(inside, at, '"')
        if is_byte and code >= 0x80:
            has_bytes = True
            read.append(chr(0xDC00 + code))
        else:
            read.append(chr(code))
    text = "".join(read)
    # Escaped bytes may form a valid UTF-8 character.
    if has_bytes:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return text


def unquote_rune(literal: str) -> tuple[int, str]:
    """Parse a character literal; return the character's number and the text after it."""
    inside = literal[1:]
    if not inside or inside[0] in "'\n":
        raise InvalidSyntax
    if inside[0] != "\\":
        code = ord(inside[0])
        return (0xFFFD if 0xDC80 <= code <= 0xDCFF else code), inside[1:]
    code, _, end = _read_escape(inside, 0, "'")
    return code, inside[end:]


def _read_escape(text: str, at: int, mark: str) -> tuple[int, bool, int]:
    """Parse the escape at `at`: its number, whether it is a byte, and its end."""
    char = text[at + 1 : at + 2]
    at += 2
    width = _HEX_WIDTHS.get(char)
    if width is not None:
        digits = text[at : at + width]
        if len(digits) < width or not _HEX.issuperset(digits):
            raise InvalidSyntax
        code = int(digits, 16)
        if char != "x" and (code > _MAX_RUNE or 0xD800 <= code <= 0xDFFF):
            raise InvalidSyntax
        return code, char == "x", at + width
    if char and char in "01234567":
        digits = text[at - 1 : at + 2]
        if len(digits) < 3 or any(digit not in "01234567" for digit in digits):
            raise InvalidSyntax
        code = int(digits, 8)
        if code > 255:
            raise InvalidSyntax
        return code, True, at + 2
    if char not in _SIMPLE or (char in "'\"" and char != mark):
        raise InvalidSyntax
    return ord(_SIMPLE[char]), False, at
