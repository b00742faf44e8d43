"""Limits of one execution: steps, size, depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kanister_py.gotemplate.costs import Price
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import LimitExceeded


class Limits(NamedTuple):
    """Bounds of one execution, far above the needs of real templates.

    A step is about a microsecond: a node of the template, or a call by its estimated cost
    (see `costs`). `size` bounds the output, in bytes. `depth` bounds templates that invoke
    templates.
    """

    steps: float = 500_000
    size: int = 16 * 1024 * 1024
    depth: int = 100


DEFAULT = Limits()
UNLIMITED = Limits(steps=math.inf)
"""For processes whose time and memory are limited by the operating system."""


class Budget:
    """Steps shared by several executions, such as all templates of one document."""

    __slots__ = ("steps_left",)

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.steps_left = limits.steps


# Maximum nesting of parentheses, blocks and `if`s in a text. Go allows more, but texts that
# people write are far below.
MAX_NESTING = 100
# Maximum length of a text. An object of the API server cannot contain a longer one.
MAX_CHARACTERS = 1024 * 1024


class Context:
    """State of one execution: effects, limits and the remaining budget."""

    __slots__ = (
        "_budget",
        "_counted",
        "_written",
        "depth",
        "effects",
        "execute_definition",
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
        # Executes another definition of the running template.
        self.execute_definition: Callable[[str, Any, list[str], Context, int], None] | None = None
        self.included = 0
        self._counted = 0
        self._written = 0

    def spend(self, steps: int) -> None:
        """Count work before it is done. Raises LimitExceeded if it is too much."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise LimitExceeded("steps", "it needs too many steps")

    def charge(self, price: Price, values: Sequence[Any]) -> None:
        """Count a call before it is made, unless steps are unlimited."""
        if self.steps_left != math.inf:
            self.spend(price(values, int(self.steps_left)))

    def close(self) -> None:
        """Return the unspent steps to the shared budget."""
        if self._budget is not None:
            self._budget.steps_left = self.steps_left

    def include(self, name: str, data: Any) -> str:
        """Render another definition of the same template with `data`."""
        assert self.execute_definition is not None
        if self.included >= self.depth:
            raise LimitExceeded(
                "depth", f"templates include each other more than {self.depth} deep"
            )
        out: list[str] = []
        counted, self._counted = self._counted, 0
        self.included += 1
        try:
            self.execute_definition(name, data, out, self, self.included)
            self.count_output(out)
        finally:
            self.included -= 1
            self._counted = counted
        return "".join(out)

    def count_output(self, out: list[str]) -> None:
        """Count the output that was written since the last call."""
        pieces = len(out)
        self._written += sum(map(len, out[self._counted : pieces]))
        self._counted = pieces
        if self._written > self.size:
            self.check_size(self._written)

    def check_size(self, size: int) -> None:
        """Stop the execution if a value of this length (bytes, items) is too large.

        Call this before the value is created.
        """
        if size > self.size:
            raise LimitExceeded("size", f"its output or a value exceeds {self.size} bytes")
