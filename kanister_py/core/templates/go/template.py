"""A text, parsed once and carried out many times."""

from __future__ import annotations

from typing import Literal

from kanister_py.core.templates.go.effects import NO_EFFECTS, Effects
from kanister_py.core.templates.go.functions import NO_FUNCTIONS, FunctionTable
from kanister_py.core.templates.go.limits import DEFAULT, Limits
from kanister_py.core.templates.go.values import Value

MissingKey = Literal["error", "zero", "default", "invalid"]


class Template:
    """A parsed template, ready to be carried out over any data."""

    __slots__ = ()

    def execute(self, data: Value, effects: Effects = NO_EFFECTS, limits: Limits = DEFAULT) -> str:
        """What does the template say about `data`?"""
        raise NotImplementedError


def compile_template(
    text: str,
    functions: FunctionTable = NO_FUNCTIONS,
    *,
    name: str = "config",
    missing_key: MissingKey = "error",
) -> Template:
    """Parse a text, or take what an earlier call made of it."""
    raise NotImplementedError
