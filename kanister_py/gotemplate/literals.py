"""Numbers as templates write them: which of Go's kinds each could be."""

from __future__ import annotations

import re

from kanister_py.gotemplate.lexer import CHARACTER, COMPLEX
from kanister_py.gotemplate.nodes import Number
from kanister_py.gotemplate.numbers import MAX_INT64, MAX_UINT64, MIN_INT64, read_float, read_int
from kanister_py.gotemplate.quoting import quote, unquote_rune


def number_of(kind: int, written: str, at: int) -> Number:
    """A numeric constant as every sort of number it can be; raises ValueError with Go's text."""
    number = Number(at, written)
    if kind == CHARACTER:
        code, rest = unquote_rune(written)
        if rest != "'":
            raise ValueError(f"malformed character constant: {written}")
        number.as_int = number.as_uint = code
        number.as_float = float(code)
    elif kind == COMPLEX:
        _settle_complex(number, _read_complex(written))
    elif written.endswith("i") and (imaginary := read_float(written[:-1])) is not None:
        _settle_complex(number, complex(0.0, imaginary))
    else:
        _settle_real(number)
    return number


def _settle_real(number: Number) -> None:
    written = number.written
    value = int(written) if written.isdigit() and written[0] != "0" else read_int(written)
    if value is not None:
        if MIN_INT64 <= value <= MAX_INT64:
            number.as_int = value
        if 0 <= value <= MAX_UINT64 and (written[0] not in "+-" or value == 0):
            number.as_uint = value
    if number.as_int is not None:
        number.as_float = float(number.as_int)
    elif number.as_uint is not None:
        number.as_float = float(number.as_uint)
    else:
        _settle_float(number)


def _settle_float(number: Number) -> None:
    value = read_float(number.written)
    if value is None:
        raise ValueError(f"illegal number syntax: {quote(number.written)}")
    if not any(char in number.written for char in ".eEpP"):
        raise ValueError(f"integer overflow: {quote(number.written)}")
    number.as_float = value
    _settle_whole(number, value)


def _settle_whole(number: Number, value: float) -> None:
    if value == int(value):
        if MIN_INT64 <= value <= MAX_INT64:
            number.as_int = int(value)
        if 0 <= value <= MAX_UINT64:
            number.as_uint = int(value)


def _settle_complex(number: Number, value: complex) -> None:
    number.as_complex = value
    if value.imag == 0:
        number.as_float = value.real
        _settle_whole(number, value.real)


_SIGN_BETWEEN = re.compile(r"(?<=[^eEpP+-])[+-]")


def _read_complex(written: str) -> complex:
    found = _SIGN_BETWEEN.search(written)
    if found is not None:
        real = read_float(written[: found.start()])
        imaginary = read_float(written[found.start() : -1])
        if real is not None and imaginary is not None:
            return complex(real, imaginary)
    raise ValueError("syntax error scanning complex number")
