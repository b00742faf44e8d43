"""Limits of one execution: its steps, its size, its depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kanister_py.gotemplate.costs import Price
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import LimitExceeded


class Limits(NamedTuple):
    """The bounds of one execution; none of them is near what a real template needs.

    A step is about a microsecond: a node of the template, or a call by its estimated cost
    (see `costs`). `size` bounds the output, in bytes. `depth` bounds templates that invoke
    templates.
    """

    steps: float = 500_000
    size: int = 16 * 1024 * 1024
    depth: int = 100


DEFAULT = Limits()
UNLIMITED = Limits(steps=math.inf)
"""Where the operating system limits time and memory."""


class Budget:
    """The steps that several executions have together, such as those of one document's texts."""

    __slots__ = ("steps_left",)

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.steps_left = limits.steps


# How deep parentheses, blocks and `if`s may be nested in a text. Go has room for
# more, but no text that a person wrote comes near.
MAX_NESTING = 100
# The longest text that is parsed. An object of the API server cannot hold a longer one.
MAX_CHARACTERS = 1024 * 1024


class Context:
    """What one execution may still spend, and what it sees of the world."""

    __slots__ = (
        "_budget",
        "_counted",
        "_written",
        "carry_out",
        "depth",
        "effects",
        "included",
        "size",
        "steps_left",
    )

    def __init__(
        self,
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        budget: Budget | None = None,
    ) -> None:
        self.effects = effects
        self.size = limits.size
        self._budget = budget
        self.steps_left = limits.steps if budget is None else budget.steps_left
        self.depth = limits.depth
        # Carries out a definition of the template that is being carried out.
        self.carry_out: Callable[[str, Any, list[str], Context, int], None] | None = None
        self.included = 0
        self._counted = 0
        self._written = 0

    def spend(self, steps: int) -> None:
        """Count work before it is done; raises LimitExceeded when it is too much."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise LimitExceeded("steps", "it takes too many steps")

    def charge(self, price: Price, values: Sequence[Any]) -> None:
        """Count a call before it is made; free of charge where nothing limits the steps."""
        if self.steps_left != math.inf:
            self.spend(price(values, int(self.steps_left)))

    def close(self) -> None:
        """Leave what was not spent to the next execution on the same budget."""
        if self._budget is not None:
            self._budget.steps_left = self.steps_left

    def include(self, name: str, data: Any) -> str:
        """Give what a definition of the same template says about `data`."""
        assert self.carry_out is not None
        if self.included >= self.depth:
            raise LimitExceeded(
                "depth", f"templates include each other more than {self.depth} deep"
            )
        out: list[str] = []
        counted, self._counted = self._counted, 0
        self.included += 1
        try:
            self.carry_out(name, data, out, self, self.included)
            self.count_output(out)
        finally:
            self.included -= 1
            self._counted = counted
        return "".join(out)

    def count_output(self, out: list[str]) -> None:
        """Count what was written since the last time."""
        pieces = len(out)
        self._written += sum(map(len, out[self._counted : pieces]))
        self._counted = pieces
        if self._written > self.size:
            self.check_size(self._written)

    def check_size(self, size: int) -> None:
        """Stop the execution if a value of this length (bytes, items) is too large.

        To be asked before the value is made.
        """
        if size > self.size:
            raise LimitExceeded("size", f"it makes more than {self.size} bytes")
