"""What is wrong with an input, and where in it?"""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One field of an input and what it lacks."""

    field: str
    what: str

    def inside(self, parent: str) -> Problem:
        """Say the same, seen from further out."""
        return Problem(f"{parent}.{self.field}", self.what)

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


class InvalidInput(Exception):
    """An input is refused; nothing is done."""


def required(field: str, detail: str) -> Problem:
    return Problem(field, f"Required value: {detail}")


def invalid(field: str, value: str, detail: str) -> Problem:
    return Problem(field, f"Invalid value: {quoted(value)}: {detail}")


def quoted(text: str) -> str:
    """Put a text in quotes as `%q` does."""
    # Loaded where it is needed: most calls have nothing to complain about.
    from kanister_py.gotemplate.quoting import quote

    return quote(text)
