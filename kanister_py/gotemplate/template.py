"""Templates: a text that is parsed once and can be executed many times."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from kanister_py.gotemplate.builtins import BUILTINS
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import LimitExceeded, ParseError
from kanister_py.gotemplate.evaluator.program import Program
from kanister_py.gotemplate.functions import NO_FUNCTIONS, FunctionTable, GoError
from kanister_py.gotemplate.limits import DEFAULT, MAX_CHARACTERS, Budget, Context, Limits
from kanister_py.gotemplate.nodes import Tree
from kanister_py.gotemplate.parser import parse
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.values import Value

MissingKey = Literal["error", "zero", "default", "invalid"]

# Blueprints of a cluster contain a few thousand strings.
_CACHE_SIZE = 4096
# A longer text is parsed each time, because the cache is bounded by entries, not by memory.
_LONGEST_KEPT = 65_536


class Template:
    """A parsed template that can be executed with any data."""

    __slots__ = ("_literal", "_name", "_program", "_text")

    def __init__(
        self, text: str, functions: FunctionTable, name: str, missing_key: MissingKey
    ) -> None:
        self._text = text
        self._name = name
        self._literal = "{{" not in text
        if not self._literal:
            if len(text) > MAX_CHARACTERS:
                why = f"the text has {len(text)} characters, more than {MAX_CHARACTERS}"
                raise ParseError(f"template: {name}: {why}", name)
            tree = parse(text, _names_of(functions), name)
            self._program = Program(tree, functions, missing_key)

    @property
    def tree(self) -> Tree:
        """The syntax tree of the text, for analysis."""
        if self._literal:
            return parse(self._text, frozenset(), self._name)
        return self._program.tree

    def execute(
        self,
        data: Value,
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        budget: Budget | None = None,
    ) -> str:
        """Execute the template with `data`.

        Bytes that are not UTF-8 appear as lone surrogates (`surrogateescape`).
        """
        if self._literal:
            return self._text
        out: list[str] = []
        context = Context(effects, limits, budget)
        context.execute_definition = self._execute_definition
        try:
            routine = self._program.routine(self._name)
            assert routine is not None
            routine.run(data, out, context, 0)
        except RecursionError:
            raise LimitExceeded("depth", "it is nested too deeply") from None
        finally:
            context.close()
        if len(out) == 1:
            text = out[0]
        else:
            context.count_output(out)
            text = "".join(out)
        if text.isascii():
            return text
        # Two halves of a character may have been joined.
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")

    def _execute_definition(
        self, name: str, data: Value, out: list[str], context: Context, depth: int
    ) -> None:
        routine = self._program.routine(name)
        if routine is None:
            raise GoError(
                f"template: no template {quote(name)} associated with template {quote(self._name)}"
            )
        context.spend(routine.cost + 1)
        routine.run(data, out, context, depth)


@lru_cache(maxsize=64)
def _names_of(functions: FunctionTable) -> frozenset[str]:
    """Return the names that a template may call."""
    return frozenset(functions) | frozenset(BUILTINS)


def compile_template(
    text: str,
    functions: FunctionTable = NO_FUNCTIONS,
    *,
    name: str = "config",
    missing_key: MissingKey = "error",
) -> Template:
    """Parse a text, or return the template from the cache.

    Raises ParseError with Go's message.
    """
    if len(text) > _LONGEST_KEPT:
        return Template(text, functions, name, missing_key)
    return _cached_template(text, functions, name, missing_key)


_cached_template = lru_cache(maxsize=_CACHE_SIZE)(Template)


def forget() -> None:
    """Clear the cache of templates."""
    _cached_template.cache_clear()
