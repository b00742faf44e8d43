"""Errors of CEL expressions, in a module that is cheap to import."""

from __future__ import annotations

from kanister_py.core.errors import UsageError


class CelError(UsageError, reason="CelInvalid"):
    """A CEL expression cannot be parsed, or its evaluation failed.

    `position` is the offset of the character where parsing stopped, -1 for an error
    during evaluation.
    """

    def __init__(self, expression: str, why: str, position: int = -1) -> None:
        where = f" at character {position + 1}" if position >= 0 else ""
        shown = expression if len(expression) <= 200 else f"{expression[:199]}…"
        super().__init__(f"CEL expression {shown!r}: {why}{where}")
        self.expression = expression
        self.why = why
        self.position = position


class CelLimitExceeded(CelError, reason="CelLimitExceeded"):
    """A CEL expression exceeds a limit."""
