"""Random expressions in CEL over hostile data."""

from __future__ import annotations

import random
from typing import Any, Final

from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.cel.expression import compile_cel
from kanister_py.core.kube.cel.functions import FUNCTIONS, METHODS

_WORK: Final = 200_000

_DATA: Final[dict[str, Any]] = {
    "s": "x" * 100_000,
    "u": "é" * 1_000,
    "l": list(range(2_000)),
    "m": {"a": 1, "b": [1, {"c": None}], "": "", "1": True},
    "d": {str(number): number for number in range(300)},
    "big": 10**400,
    "neg": -(10**400),
    "wide": 1.7976931348623157e308,
    "n": None,
    "t": True,
    "digits": "9" * 5_000,
}
_ATOMS: Final = (
    *_DATA,
    "0",
    "1",
    "-1",
    "2u",
    "0.0",
    "-0.5",
    "1e308",
    "9223372036854775807",
    "18446744073709551615u",
    "''",
    "'a'",
    "'+23:59'",
    "'-23:59'",
    "'UTC'",
    "'1h'",
    "'0001-01-01T00:00:00Z'",
    "b''",
    "b'\\xff'",
    "b'abc'",
    "'(a|b)*'",
    "'('",
    "[]",
    "{}",
    "[1, 2.0, 'a']",
    "{'a': 1}",
    "'0001-01-01T00:00:00+23:59'",
    "timestamp('0001-01-01T00:00:00Z')",
    "timestamp('9999-12-31T23:59:59Z')",
    "duration('2562047h')",
    "duration('-2562047h')",
    "double('inf')",
    "double('nan')",
    "optional.none()",
    "optional.of(1)",
    "type(1)",
    "x",
    "missing",
)
_OPERATORS: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||")
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")


def _expression(choose: random.Random, depth: int) -> str:
    def inner() -> str:
        return _expression(choose, depth - 1)

    if depth == 0 or choose.random() < 0.15:
        return choose.choice(_ATOMS)
    form = choose.randrange(9)
    if form <= 1:
        return f"({inner()} {choose.choice(_OPERATORS)} {inner()})"
    if form == 2:
        name = choose.choice([*FUNCTIONS])
        return f"{name}({_arguments(inner, choose.choice(FUNCTIONS[name].counts[:3]))})"
    if form <= 5:
        name = choose.choice([*METHODS])
        return f"{inner()}.{name}({_arguments(inner, choose.choice(METHODS[name].counts) - 1)})"
    if form == 6:
        return f"{inner()}.{choose.choice(_MACROS)}(x, {inner()})"
    if form == 7:
        return f"cel.bind(x, {inner()}, {inner()})"
    optional = choose.choice(("", "?"))
    return choose.choice((f"{inner()}[{optional}{inner()}]", f"(t ? {inner()} : -{inner()})"))


def _arguments(make: Any, count: int) -> str:
    return ", ".join(make() for _ in range(count))


def cel(choose: random.Random) -> bool:
    """Evaluate an expression over hostile data: it returns a value or raises `CelError`."""
    try:
        compile_cel(_expression(choose, 4)).evaluate(_DATA, max_work=_WORK)
    except CelError:
        return False
    return True
