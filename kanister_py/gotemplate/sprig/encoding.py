"""Base64, base32 and checksums."""

from __future__ import annotations

import base64
import hashlib
import zlib

from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.values import from_bytes, to_bytes

_BASE64 = {
    char: value
    for value, char in enumerate(
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    )
}
_BASE32 = {char: value for value, char in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}
_PAD = ord("=")
_LINE_ENDS = b"\r\n"


def decode_base64(text: str) -> bytes:
    """Decode base64, ignoring line ends. Errors count bytes as Go does."""
    data = to_bytes(text)
    decoded = bytearray()
    at = 0
    while at < len(data):
        at, group, has_ended = _group_of_four(data, at)
        if not group:
            break
        number = 0
        for value in group:
            number = number << 6 | value
        number <<= 6 * (4 - len(group))
        decoded += number.to_bytes(3, "big")[: len(group) - 1]
        if has_ended:
            break
    return bytes(decoded)


def _group_of_four(data: bytes, at: int) -> tuple[int, list[int], bool]:
    """Return the values of the next four letters, and whether padding has ended the text."""
    group: list[int] = []
    while len(group) < 4:
        if at == len(data):
            if not group:
                return at, group, True
            raise _corrupt(64, at - len(group))
        char = data[at]
        at += 1
        if char in _BASE64:
            group.append(_BASE64[char])
        elif char not in _LINE_ENDS:
            _check_padding(data, at, char, len(group))
            return at, group, True
    return at, group, False


def _check_padding(data: bytes, at: int, char: int, letters: int) -> None:
    if char != _PAD or letters < 2:
        raise _corrupt(64, at - 1)
    if letters == 2:
        at = _past_line_ends(data, at)
        if at == len(data):
            raise _corrupt(64, at)
        if data[at] != _PAD:
            raise _corrupt(64, at - 1)
        at += 1
    at = _past_line_ends(data, at)
    if at < len(data):
        raise _corrupt(64, at)


def _past_line_ends(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _LINE_ENDS:
        at += 1
    return at


def _corrupt(base: int, at: int) -> GoError:
    return GoError(f"illegal base{base} data at input byte {at}")


def decode_base32(text: str) -> bytes:
    """Decode padded base32. Errors count bytes without line ends."""
    data = to_bytes(text).translate(None, _LINE_ENDS)
    decoded = bytearray()
    for start in range(0, len(data), 8):
        group = data[start : start + 8]
        values = _group_of_eight(group, start, len(data))
        number = 0
        for value in values:
            number = number << 5 | value
        number <<= 5 * (8 - len(values))
        decoded += number.to_bytes(5, "big")[: len(values) * 5 // 8]
        if len(values) < 8:
            break
    return bytes(decoded)


def _group_of_eight(group: bytes, start: int, length: int) -> list[int]:
    values: list[int] = []
    for position, char in enumerate(group):
        remaining = length - start - position - 1
        if char == _PAD and position >= 2 and remaining < 8:
            if remaining + position < 7:
                raise _corrupt(32, length)
            for offset, following in enumerate(group[position + 1 : 8]):
                if following != _PAD:
                    raise _corrupt(32, length - remaining + offset - 1)
            if position in (3, 6):
                raise _corrupt(32, length - remaining - 1)
            return values
        if char not in _BASE32:
            raise _corrupt(32, start + position)
        values.append(_BASE32[char])
    if len(values) < 8:
        raise _corrupt(32, start)
    return values


def _text_or_complaint(text: str, base: int) -> str:
    # As in sprig, an invalid text does not fail: the result is the error message.
    try:
        return from_bytes(decode_base64(text) if base == 64 else decode_base32(text))
    except GoError as error:
        return error.text


def _hexadecimal(algorithm: str, text: str) -> str:
    return hashlib.new(algorithm, to_bytes(text), usedforsecurity=False).hexdigest()


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_text = go_function("func(string) string")

OF_BLUEPRINTS = {
    "adler32sum": _text(lambda text: str(zlib.adler32(to_bytes(text)))),
    "b32dec": _text(lambda text: _text_or_complaint(text, 32)),
    "b32enc": _text(lambda text: base64.b32encode(to_bytes(text)).decode("ascii")),
    "b64dec": _text(lambda text: _text_or_complaint(text, 64)),
    "b64enc": _text(lambda text: encode_base64(to_bytes(text))),
    "sha1sum": _text(lambda text: _hexadecimal("sha1", text)),
    "sha256sum": _text(lambda text: _hexadecimal("sha256", text)),
}

NEWER = {"sha512sum": _text(lambda text: _hexadecimal("sha512", text))}
