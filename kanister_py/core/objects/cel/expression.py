"""CEL expressions: read once, evaluated many times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kanister_py.core.objects.cel.compiling import compile_node
from kanister_py.core.objects.cel.errors import CelError, CelLimitExceeded
from kanister_py.core.objects.cel.parser import parse
from kanister_py.core.objects.cel.values import Failure, Limit, Meter, Scope, Uint

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
            return self._run(Scope(variables, Meter(max_work)))
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
