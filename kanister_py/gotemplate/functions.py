"""Functions that a template may call, with Go signatures, and tables of them.

A function is declared with the text of its Go signature:

    @go_function("func(string, ...interface{}) (string, error)")
    def greet(name: str, *rest: Value) -> str: ...

Arguments are checked against it before the call, as Go does, and the result gets
the declared type (a plain int becomes an int64, a plain list a []string). A
function whose signature ends in `error` raises `GoError`; so may any other, which
is what a panic in Go comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kanister_py.gotemplate.types import (
    ANY,
    BYTES,
    ERROR,
    STRING,
    GoType,
    Kind,
    parse_type,
    pointer_to,
    struct_type,
)
from kanister_py.gotemplate.values import GoMap, GoSlice, Sized, Value, wrap, zero


class GoError(Exception):
    """What a Go function returns as its error; also an error as a value."""

    go_type = pointer_to(struct_type("errors.errorString"))

    @property
    def text(self) -> str:
        return str(self)

    def go_string(self) -> str:
        return str(self)


class Function:
    """A Go function: its Python code and its Go signature.

    `call` is the code itself; what `run` gives has the declared type as well.
    """

    __slots__ = ("call", "has_error", "is_variadic", "params", "result", "run", "wants_context")

    def __init__(self, signature: str, call: Callable[..., Value], *, context: bool) -> None:
        self.params, self.is_variadic, self.result, self.has_error = parse_signature(signature)
        self.call = call
        self.wants_context = context
        self.run = _finished(call, self.result)

    @property
    def signature(self) -> str:
        """The signature as Go prints it."""
        params = [each.name for each in self.params]
        if self.is_variadic:
            params[-1] = "..." + params[-1]
        result = f"({self.result.name}, error)" if self.has_error else self.result.name
        return f"func({', '.join(params)}) {result}"

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def go_function(
    signature: str, *, context: bool = False
) -> Callable[[Callable[..., Value]], Function]:
    """Declare a Python function as a Go function.

    With `context=True` it gets the execution's `Context` (effects, limits) before
    its Go arguments. Of a variadic function, `params` ends with the type of one of
    the last arguments.
    """
    return lambda call: Function(signature, call, context=context)


def parse_signature(text: str) -> tuple[tuple[GoType, ...], bool, GoType, bool]:
    """Read a signature: its parameters, whether it is variadic, its result, whether it can fail."""
    if not text.startswith("func("):
        raise ValueError(f"{text!r} is no function signature")
    inside, rest = _until_close(text[len("func") :])
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    is_variadic = bool(parts) and parts[-1].startswith("...")
    if is_variadic:
        parts[-1] = parts[-1][3:]
    rest = rest.strip()
    has_error = rest.startswith("(")
    if has_error:
        rest, _ = _until_close(rest)
        rest, _, error = rest.rpartition(",")
        if parse_type(error) is not ERROR:
            raise ValueError(f"{text!r}: the second result must be an error")
    return tuple(parse_type(part) for part in parts), is_variadic, parse_type(rest), has_error


def param_at(function: Function, place: int) -> GoType:
    """The type of the argument at a place; the last one counts for all that follow."""
    params = function.params
    return params[place] if place < len(params) else params[-1]


def wrong_number(name: str, function: Function, given: int, written: int) -> str:
    """Go's complaint about the number of arguments; empty if it is right."""
    wanted = len(function.params)
    if function.is_variadic:
        if given < wanted - 1:
            return f"wrong number of args for {name}: want at least {wanted - 1} got {written}"
    elif given != wanted:
        return f"wrong number of args for {name}: want {wanted} got {given}"
    return ""


def _until_close(text: str) -> tuple[str, str]:
    end = text.index(")")
    return text[1:end], text[end + 1 :]


def _finished(call: Callable[..., Value], result: GoType) -> Callable[..., Value]:
    """Code that gives its result the declared Go type: itself, where that is so already."""
    finish = _finisher(result)
    return call if finish is None else lambda *args: finish(call(*args))


def _finisher(result: GoType) -> Callable[[Value], Value] | None:
    """Make what gives a plain Python result the declared Go type; None: it has it already."""
    plain = zero(result) if result.kind is not Kind.INTERFACE else None
    if isinstance(plain, Sized):
        return type(plain)
    if result.kind is Kind.SLICE and result is not BYTES and result.elem is not ANY:
        return lambda value: value if type(value) is GoSlice else wrap(result, value)
    if result.kind is Kind.MAP and (result.elem is not ANY or result.key is not STRING):
        return lambda value: value if type(value) is GoMap else wrap(result, value)
    return None


class FunctionTable(Mapping[str, Function]):
    """The functions a template may call besides Go's builtins; never changes."""

    __slots__ = ("_functions", "by_name")

    def __init__(self, functions: Mapping[str, Function] | None = None) -> None:
        self._functions = dict(functions or {})
        # The same again, for those who look up all the time: a dict is faster than we are.
        self.by_name: Mapping[str, Function] = MappingProxyType(self._functions)

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    # Tables are compared by identity: that is what a cache of templates needs.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def extended(self, functions: Mapping[str, Function]) -> FunctionTable:
        """A table with these functions laid over the ones here."""
        return FunctionTable({**self._functions, **functions})


NO_FUNCTIONS = FunctionTable()
