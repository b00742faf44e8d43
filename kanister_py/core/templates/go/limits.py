"""How much may a template do before it is stopped?"""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.core.errors import TemplateLimitExceeded
from kanister_py.core.templates.go.effects import NO_EFFECTS, Effects


class Limits(NamedTuple):
    """The bounds of one execution; none of them is near what a real template needs.

    A step is about one node of a template, carried out once. `size` bounds the
    output, in bytes, and every single value on the way to it: the length of a text,
    a list or a map. `depth` bounds templates that invoke templates.
    """

    steps: int = 1_000_000
    size: int = 16 * 1024 * 1024
    depth: int = 100


DEFAULT = Limits()

# How deep parentheses, blocks and `if`s may be nested in a text. Go has room for
# more, but no text that a person wrote comes near.
MAX_NESTING = 100


class Context:
    """What one execution may still spend, and what it sees of the world."""

    __slots__ = ("_counted", "_written", "depth", "effects", "size", "steps_left")

    def __init__(self, effects: Effects = NO_EFFECTS, limits: Limits = DEFAULT) -> None:
        self.effects = effects
        self.size = limits.size
        self.steps_left = limits.steps
        self.depth = limits.depth
        self._counted = 0
        self._written = 0

    def spend(self, steps: int) -> None:
        """Count work before it is done; stops the execution when it was too much."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise TemplateLimitExceeded("steps", "it takes too many steps")

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
            raise TemplateLimitExceeded("size", f"it makes more than {self.size} bytes")
