"""Expressions in the Common Expression Language: is this resource ready, shall this step run?

    compile_cel("object.status.replicas == object.spec.replicas").evaluate({"object": obj})

Values are plain data, with `Uint`, `datetime`, `timedelta` and bytes where CEL has more
types than JSON. Besides the standard functions there are those for strings, optional
values and `cel.bind`. One thing is friendlier than elsewhere: a whole number and a double
may be added and so on, since data from JSON does not say which of them it means.

Nothing an expression says can crash the process or keep it busy: nesting, length and
work are bounded, and regular expressions are RE2's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kanister_py.core.errors import UsageError
from kanister_py.core.objects.cel.compiling import compile_node
from kanister_py.core.objects.cel.parser import parse
from kanister_py.core.objects.cel.values import Failure, Limit, Scope, Uint


class CelError(UsageError):
    """A CEL expression cannot be read, or says nothing about what it was given.

    `position` is the offset of the character where reading stopped, -1 for an
    expression that was read and failed later.
    """

    reason = "CelInvalid"

    def __init__(self, expression: str, why: str, position: int = -1) -> None:
        where = f" at character {position + 1}" if position >= 0 else ""
        shown = expression if len(expression) <= 200 else f"{expression[:199]}…"
        super().__init__(f"CEL expression {shown!r}: {why}{where}")
        self.expression = expression
        self.why = why
        self.position = position


class CelLimitExceeded(CelError):
    """A CEL expression does more than anybody wants to wait for."""

    reason = "CelLimitExceeded"


MAX_LENGTH = 16_384
MAX_WORK = 2_000_000
"""How much one evaluation may do: about an operation, or a character that is written, each."""


class Expression:
    """An expression, read once and evaluated many times, from any thread."""

    __slots__ = ("_run", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_LENGTH:
            raise CelLimitExceeded(text, f"it is longer than {MAX_LENGTH} characters")
        try:
            self._run = compile_node(parse(text))
        except Failure as failure:
            raise CelError(text, str(failure), failure.position) from None
        except (Limit, RecursionError):
            raise CelLimitExceeded(text, "it nests too deep") from None

    def evaluate(self, variables: Mapping[str, Any], *, max_work: int = MAX_WORK) -> Any:
        """Say what the expression means for these variables. CelError: it means nothing."""
        try:
            return self._run(Scope(variables, max_work))
        except Failure as failure:
            raise CelError(self.text, str(failure)) from None
        except Limit:
            raise CelLimitExceeded(self.text, "it takes too much work") from None
        except RecursionError:
            raise CelLimitExceeded(self.text, "it nests too deep") from None


@lru_cache(maxsize=1024)
def compile_cel(text: str) -> Expression:
    """Read an expression, or take what an earlier call made of it. CelError: it is none."""
    return Expression(text)


__all__ = ["Expression", "Uint", "compile_cel"]
