"""Variables of one definition: names in scope, and the slots that hold their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanister_py.gotemplate.evaluator.frames import UNDEFINED, Eval, Frame, Part, Setter
from kanister_py.gotemplate.nodes import Pipe, Variable
from kanister_py.gotemplate.values import Value

if TYPE_CHECKING:
    from kanister_py.gotemplate.evaluator.definition import Definition


class Scope(Part):
    """The names that are known at one place of a definition."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        # Innermost last, with their slots.
        self.names: list[tuple[str, int]] = [("$", 0)]
        self.size = 1
        # Slots that are only filled if a parenthesis is reached: see `variable`.
        self.doubtful: set[int] = set()
        self.in_parentheses = 0

    def declare(self, name: str) -> int:
        slot = self.size
        self.size += 1
        self.names.append((name, slot))
        if self.in_parentheses:
            self.doubtful.add(slot)
        return slot

    def slots(self, name: str) -> list[int]:
        """Give the slots where a name's value may be; the first that is filled has it.

        More than one only if a declaration in parentheses may never be reached.
        """
        found = []
        for known, slot in reversed(self.names):
            if known == name:
                found.append(slot)
                if slot not in self.doubtful:
                    break
        return found

    def setter(self, variable: Variable, pipe: Pipe, *, is_loop: bool = False) -> Setter:
        name = variable.names[0]
        # Those of a loop are declared by the pipeline itself, just before.
        is_known = pipe.is_assignment or is_loop
        slots = self.slots(name) if is_known else [self.declare(name)]

        if len(slots) == 1 and slots[0] not in self.doubtful:
            only = slots[0]

            def put(frame: Frame, value: Value, is_boxed: bool) -> None:
                frame.variables[only] = value
                if is_boxed:
                    frame.boxed.add(only)
                elif frame.boxed:
                    frame.boxed.discard(only)

            return put
        is_declaration = not pipe.is_assignment

        def put_first(frame: Frame, value: Value, is_boxed: bool) -> None:
            for slot in slots:
                if is_declaration or frame.variables[slot] is not UNDEFINED:
                    frame.variables[slot] = value
                    (frame.boxed.add if is_boxed else frame.boxed.discard)(slot)
                    return
            raise self.error(
                self.definition.origins.last_of(pipe, frame), f"undefined variable: {name}"
            )

        return put_first

    def variable(self, node: Variable) -> Eval:
        name = node.names[0]
        slots = self.slots(name)
        if len(slots) == 1 and slots[0] not in self.doubtful:
            only = slots[0]
            return lambda frame: frame.variables[only]

        def first(frame: Frame) -> Value:
            for slot in slots:
                value = frame.variables[slot]
                if value is not UNDEFINED:
                    return value
            raise self.error(node, f"undefined variable: {name}")

        return first
