"""Problems of an input: the field and the message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kanister_py.gotemplate.quoting import quote


class Problem(NamedTuple):
    """Problem of one field; for an unknown value also that value and the allowed ones."""

    field: str
    what: str
    word: str = ""
    allowed: tuple[str, ...] = ()

    def inside(self, parent: str) -> Problem:
        """Return the problem with the path relative to an outer field."""
        return self._replace(field=f"{parent}.{self.field}")

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


class InvalidInput(Exception):
    """Error for an invalid input."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


def first_problem(
    name: str,
    members: Iterable[Mapping[str, Any]],
    check: Callable[[Mapping[str, Any]], Problem | None],
) -> Problem | None:
    """Check the members of a list, and return the first problem."""
    for at, member in enumerate(members):
        problem = check(member)
        if problem is not None:
            return problem.inside(f"{name}[{at}]")
    return None


def required(field: str, detail: str) -> Problem:
    return Problem(field, f"Required value: {detail}")


def invalid(field: str, value: str, detail: str, allowed: Iterable[str] = ()) -> Problem:
    return Problem(field, f"Invalid value: {quoted(value)}: {detail}", value, tuple(allowed))


def check_operand(
    config: Mapping[str, Any], what: str, operands: Mapping[str, tuple[str, str]]
) -> Problem | None:
    """Check that a part has a known type and the operand of that type."""
    kind = config.get("type", "")
    if not kind:
        return required("type", f"{what} type is required")
    if kind not in operands:
        return invalid("type", kind, f"unknown {what} type", operands)
    operand, lacking = operands[kind]
    return None if operand in config else required(operand, lacking)


def quoted(text: str) -> str:
    """Quote a text like `%q`."""
    return quote(text)
