"""Costs of function calls, in steps, estimated from the arguments before the call.

A step is about a microsecond. An estimate only has to be right within a factor of ten: it
decides whether a template runs in this process or in a separate, limited one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kanister_py.gotemplate.values import Struct

Price = Callable[[Sequence[Any], int], int]
"""Number of steps of a call with these arguments; counting may end beyond the second argument."""

LONG: Final = 64
"""Shorter texts cost no more than the node of the call."""
CHEAP: Final = frozenset((bool, int, float, type(None)))
_CHARACTERS_A_STEP: Final = 4


def size_of(values: Iterable[Any], most: int) -> int:
    """Estimate the number of steps for traversing all values.

    A value that is referenced several times counts each time. Counting ends beyond `most`.
    """
    total = 0
    left = list(values)
    while left and total <= most:
        value = left.pop()
        total += 1
        if isinstance(value, str | bytes):
            total += len(value) // _CHARACTERS_A_STEP
        elif isinstance(value, Struct):
            if value.memo:
                total += sum(map(len, value.memo.values())) // _CHARACTERS_A_STEP
            else:
                left += [value[name] for name in value.struct.fields]
        elif isinstance(value, Mapping):
            total += len(value)
            if total <= most:
                left += value.values()
                left += (key for key in value if isinstance(key, str) and len(key) > LONG)
        elif isinstance(value, list | tuple):
            total += len(value)
            if total <= most:
                left += value
    return total


def _through(factor: int) -> Price:
    """Build the price of traversing all arguments and creating a result of the same size."""
    return lambda values, most: factor * size_of(values, most)


def _shallow(values: Sequence[Any], _most: int) -> int:
    """Price of copying lists and maps, but not their members."""
    return 1 + sum(len(value) for value in values if isinstance(value, list | dict)) // 8


def _scaled(values: Sequence[Any], most: int) -> int:
    """Price of a function whose output grows with its integer arguments."""
    product = size_of(values, most)
    for value in values:
        if isinstance(value, int):
            product *= 1 + min(abs(value), 1 << 40)
    return product // _CHARACTERS_A_STEP


_WIDTH: Final = re.compile(r"%[-+# ]*[0-9.*\[]")


def _printf(values: Sequence[Any], most: int) -> int:
    layout = next((value for value in values if isinstance(value, str)), "")
    if _WIDTH.search(layout) is None:
        is_short = all(
            type(value) in CHEAP or (type(value) is str and len(value) <= LONG)
            for value in values[1:]
        )
        return 0 if is_short else size_of(values, most)
    if "*" in layout:
        return _scaled(values, most)
    digits = "".join(sign if "0" <= sign <= "9" else " " for sign in layout[:most])
    widths = sum(int(width[:12]) for width in digits.split())
    return size_of(values, most) + widths // _CHARACTERS_A_STEP


def _matching_once(values: Sequence[Any], _most: int) -> int:
    """Price of the first match of a regular expression."""
    pattern, text = (*(len(value) for value in values if isinstance(value, str)), 0, 0)[:2]
    return 200 + 8 * pattern + text // _CHARACTERS_A_STEP


def _matching(values: Sequence[Any], most: int) -> int:
    """Price of all matches of a regular expression; each match may scan all remaining text."""
    texts = [len(value) for value in values if isinstance(value, str)]
    pattern, text, replacement = (*texts, 0, 0, 0)[:3]
    return min(200 + 8 * pattern + text + text * (text + replacement) // 1024, most + 1)


def _replacing(values: Sequence[Any], most: int) -> int:
    texts = [len(value) for value in values if isinstance(value, str)]
    _, new, text = (*texts, 0, 0, 0)[:3]
    return size_of(values, most) + text * new // _CHARACTERS_A_STEP


def _joining(values: Sequence[Any], most: int) -> int:
    separator = max((len(value) for value in values if isinstance(value, str)), default=0)
    items = max((len(value) for value in values if isinstance(value, list)), default=0)
    return size_of(values, most) + separator * items // _CHARACTERS_A_STEP


def _pairing(values: Sequence[Any], most: int) -> int:
    """Price of comparing all members with each other."""
    size = size_of(values, most)
    return size + size * size // 64


def _flat(steps: int) -> Price:
    return lambda _values, _most: steps


def _free(_values: Sequence[Any], _most: int) -> int:
    return 0


FREE: Final[Price] = _free
_LINEAR: Final = _through(1)
_DENSE: Final = _through(8)
_MATCHING: Final = ("FindAll", "ReplaceAll", "ReplaceAllLiteral", "Split")
_MATCHING_ONCE: Final = ("regexFind", "regexMatch", "mustRegexFind", "mustRegexMatch")
_PRICES: Final[Mapping[str, Price]] = {
    **dict.fromkeys(
        (
            *("default", "dict", "empty", "fail", "first", "get", "hasKey", "index", "kindIs"),
            *("kindOf", "last", "len", "list", "mustFirst", "mustLast", "not", "now", "set"),
            *("ternary", "tuple", "typeIs", "typeOf", "unset"),
        ),
        FREE,
    ),
    **dict.fromkeys(
        (
            *("append", "concat", "compact", "chunk", "initial", "keys", "mustAppend"),
            *("mustChunk", "mustCompact", "mustInitial", "mustPrepend", "mustPush", "mustRest"),
            *("mustReverse", "mustSlice", "omit", "pick", "pluck", "prepend", "push", "rest"),
            *("reverse", "slice", "values"),
        ),
        _shallow,
    ),
    **dict.fromkeys(
        (
            *("repeat", "indent", "nindent", "wrap", "wrapWith", "until", "untilStep", "seq"),
            *("randAlpha", "randAlphaNum", "randAscii", "randNumeric", "randBytes"),
        ),
        _scaled,
    ),
    **dict.fromkeys(
        (
            *("camelcase", "fromJson", "fromYaml", "kebabcase", "mustFromJson", "semver"),
            *("semverCompare", "shuffle", "snakecase", "split", "splitList", "splitn"),
            *("toYaml", "js", "html", "urlquery", "urlParse", "urlJoin", "encryptAES"),
        ),
        _DENSE,
    ),
    **dict.fromkeys(_MATCHING_ONCE, _matching_once),
    **{f"regex{name}": _matching for name in _MATCHING},
    **{f"mustRegex{name}": _matching for name in _MATCHING},
    **dict.fromkeys(
        ("uniq", "mustUniq", "without", "mustWithout", "toDate", "mustToDate"), _pairing
    ),
    **dict.fromkeys(("bcrypt", "htpasswd"), _flat(50_000)),
    **dict.fromkeys(
        (
            *("buildCustomCert", "decryptAES", "derivePassword", "genCA", "genCAWithKey"),
            *("genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey"),
            *("genSignedCert", "genSignedCertWithKey"),
        ),
        _flat(100_000),
    ),
    "join": _joining,
    "printf": _printf,
    "replace": _replacing,
}
_BY_SIZE: Final = frozenset((_LINEAR, _DENSE, _shallow, _joining, _replacing))


def price_of(name: str) -> tuple[Price, bool]:
    """Return the price of a function, and whether short arguments make it negligible.

    A function that is not listed costs as much as traversing its arguments.
    """
    price = _PRICES.get(name, _LINEAR)
    return price, price in _BY_SIZE
