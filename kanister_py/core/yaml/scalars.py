"""YAML scalars: the values of plain text, as in Kubernetes' tools.

The tools read YAML 1.1 and convert it to JSON: `on` is true, numbers that do not fit into
64 bits are floats, and float keys are formatted as 32-bit floats.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from decimal import Decimal
from math import inf, isfinite
from typing import Any

from kanister_py.gotemplate.numbers import format_float

WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
NUMBER_STARTS = "+-.0123456789"
_PLAIN_NUMBER = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_FLOAT_FROM_POINT = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?\Z")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)"
    r"|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))\Z"
)
_BASES = (("hex", 16), ("bin", 2), ("oct", 8), ("dec", 10))
_MOST_DIGITS = 64  # of an unsigned 64-bit number in base two
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

TAG = "tag:yaml.org,2002:"
_TIMESTAMP = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}"
    r"([Tt ]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?(Z|[-+]\d{2}:\d{2})?)?\Z",
    re.ASCII,
)


def resolved_scalar(tag: str | None, text: str, is_plain: bool) -> Any:
    """Return the YAML value of a scalar, before its conversion to JSON."""
    if tag is None:
        return plain_value_of(text) if is_plain else text
    kind = tag.removeprefix(TAG)
    if kind == "binary":
        return _binary_of(text)
    if kind not in ("int", "float", "bool", "null", "timestamp"):
        return text
    value = plain_value_of(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "int": is_number and not isinstance(value, float),
        "float": is_number,
        "bool": isinstance(value, bool),
        "null": value is None,
        "timestamp": _TIMESTAMP.match(text) is not None,
    }
    if not fits[kind]:
        raise ValueError(f"The tag !!{kind} does not fit {text!r}")
    return value


def _binary_of(text: str) -> str:
    try:
        data = b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (Base64Error, ValueError):
        raise ValueError("The tag !!binary requires base64") from None
    # JSON has no bytes: invalid UTF-8 becomes the replacement character.
    decoded = data.decode("utf-8", "surrogateescape")
    return "".join(
        "\ufffd" if "\udc80" <= character <= "\udcff" else character for character in decoded
    )


def value_of_plain(text: str) -> Any:
    """Return the value of plain text. Raises ValueError if JSON cannot represent it."""
    value = plain_value_of(text)
    return value if type(value) is str else as_json(value, text)


def key_of_plain(text: str) -> str | None:
    """Return the key for plain text, or None for a null."""
    key = plain_value_of(text)
    return key if key is None or type(key) is str else str(as_key(key))


def plain_value_of(text: str) -> Any:
    first = text[:1]
    if first in NUMBER_STARTS and first:
        return _number_of(text)
    return WORDS.get(text, text)


def _number_of(text: str) -> Any:
    if _PLAIN_NUMBER.match(text):
        return int(text)
    if _NOT_FINITE.match(text):
        return float(text.replace(".", "").lower())
    bare = text.replace("_", "")
    if text.startswith("."):
        return float(bare) if _FLOAT_FROM_POINT.match(text) else text
    match = _INTEGER.match(bare)
    if match:
        for name, base in _BASES:
            digits = match[name]
            if digits is not None and len(digits) <= _MOST_DIGITS:
                integer = int(match["sign"] + digits, base)
                if _INT64_MIN <= integer <= _UINT64_MAX:
                    return integer
    if _FLOAT.match(bare):
        number = float(bare)
        if isfinite(number):
            return number
    return text


def as_json(value: Any, text: str) -> Any:
    """Return a value after its conversion to JSON."""
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{text} is not a number in JSON; quote it if it is text")
        if not value.is_integer() or abs(value) >= 1e19:
            return value
        # JSON has no decimal point for whole numbers, and only the shortest digits.
        integer = int(Decimal(repr(value)))
        return integer if _INT64_MIN <= integer <= _INT64_MAX else value
    if isinstance(value, int) and value > _INT64_MAX:
        return float(value)
    return value


def as_key(value: Any) -> Any:
    """Return the text of a scalar as a key. None stays None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value > _INT64_MAX:
            raise ValueError(f"{value} is too large for a key; quote it")
        return str(value)
    return _short_float(value) if isinstance(value, float) else value


def _short_float(number: float) -> str:
    """Format a number with the fewest digits that identify it as a 32-bit float."""
    try:
        short = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        short = inf if number > 0 else -inf
    text = format_float(short, bits=32)
    return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(text, text)
