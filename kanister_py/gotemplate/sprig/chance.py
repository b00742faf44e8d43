"""Random values: identifiers, passwords, permutations."""

from __future__ import annotations

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.encoding import encode_base64
from kanister_py.gotemplate.sprig.words import runes

_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PRINTABLE = "".join(map(chr, range(32, 127)))


def random_below(context: Context, bound: int) -> int:
    """Return a uniformly distributed number from 0 up to but not including `bound`."""
    size = (bound.bit_length() + 7) // 8 or 1
    # Discard values beyond the last complete multiple, otherwise small numbers are more frequent.
    limit = (1 << (8 * size)) // bound * bound
    while True:
        number = int.from_bytes(context.effects.random_bytes(size), "big")
        if number < limit:
            return number % bound


def _text_of(alphabet: str) -> Function:
    """Build a function that returns random characters of an alphabet."""

    def text(context: Context, length: int) -> str:
        if length <= 0:
            return ""
        return "".join(alphabet[random_below(context, len(alphabet))] for _ in range(length))

    return go_function("func(int) string", context=True)(text)


@go_function("func(string) string", context=True)
def shuffle(context: Context, text: str) -> str:
    chars = list(runes(text))
    for last in range(len(chars) - 1, 0, -1):
        other = random_below(context, last + 1)
        chars[last], chars[other] = chars[other], chars[last]
    return "".join(chars)


@go_function("func() string", context=True)
def uuid_of_version_4(context: Context) -> str:
    data = bytearray(context.effects.random_bytes(16))
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@go_function("func(int, int) int", context=True)
def random_int(context: Context, start: int, end: int) -> int:
    if end <= start:
        raise GoError("invalid argument to Intn")
    return start + random_below(context, end - start)


@go_function("func(int) (string, error)", context=True)
def random_bytes(context: Context, size: int) -> str:
    if size < 0:
        raise GoError("runtime error: makeslice: len out of range")
    return encode_base64(context.effects.random_bytes(size))


OF_BLUEPRINTS = {
    "randAlpha": _text_of(_LETTERS),
    "randAlphaNum": _text_of(_LETTERS + _DIGITS),
    "randAscii": _text_of(_PRINTABLE),
    "randNumeric": _text_of(_DIGITS),
    "shuffle": shuffle,
    "uuidv4": uuid_of_version_4,
}
NEWER = {"randBytes": random_bytes, "randInt": random_int}
