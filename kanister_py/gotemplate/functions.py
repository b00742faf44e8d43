"""Functions that a template may call, with Go signatures, and tables of them.

A function is declared with the text of its Go signature:

    @go_function("func(string, ...interface{}) (string, error)")
    def greet(name: str, *values: Value) -> str: ...

Arguments are checked against the signature before the call, as in Go, and the result
is converted to the declared type (an int to an int64, a list to a []string). A
function whose signature ends in `error` raises `GoError`. Other functions may raise it
as well, where Go would panic.
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
    """Error of a Go function; also the error as a value."""

    go_type = pointer_to(struct_type("errors.errorString"))

    @property
    def text(self) -> str:
        return str(self)

    def go_string(self) -> str:
        return str(self)


class Function:
    """A Go function: its Python code and its Go signature.

    `call` is the Python code; `run` also converts the result to the declared type.
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
        params = [param.name for param in self.params]
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

    With `context=True` the function gets the `Context` of the execution (effects, limits)
    before its Go arguments. The last entry in `params` of a variadic function is the type
    of one variadic argument.
    """
    return lambda call: Function(signature, call, context=context)


def parse_signature(text: str) -> tuple[tuple[GoType, ...], bool, GoType, bool]:
    """Parse a signature into its parameters, is-variadic, its result and can-fail."""
    if not text.startswith("func("):
        raise ValueError(f"{text!r} is no function signature")
    inside, result = _until_close(text[len("func") :])
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    is_variadic = bool(parts) and parts[-1].startswith("...")
    if is_variadic:
        parts[-1] = parts[-1][3:]
    result = result.strip()
    has_error = result.startswith("(")
    if has_error:
        result, _ = _until_close(result)
        result, _, error = result.rpartition(",")
        if parse_type(error) is not ERROR:
            raise ValueError(f"{text!r}: the second result must be an error")
    return tuple(parse_type(part) for part in parts), is_variadic, parse_type(result), has_error


def param_at(function: Function, place: int) -> GoType:
    """Return the type of an argument; the last parameter of a variadic function repeats."""
    params = function.params
    return params[place] if place < len(params) else params[-1]


def wrong_number(name: str, function: Function, count: int, written: int) -> str:
    """Return Go's message for a wrong number of arguments; empty if the number is right."""
    expected = len(function.params)
    if function.is_variadic:
        if count < expected - 1:
            return f"wrong number of args for {name}: want at least {expected - 1} got {written}"
    elif count != expected:
        return f"wrong number of args for {name}: want {expected} got {count}"
    return ""


def _until_close(text: str) -> tuple[str, str]:
    end = text.index(")")
    return text[1:end], text[end + 1 :]


def _finished(call: Callable[..., Value], result: GoType) -> Callable[..., Value]:
    """Wrap a function so that its result gets the declared Go type, if that is necessary."""
    finish = _finisher(result)
    return call if finish is None else lambda *args: finish(call(*args))


def _finisher(result: GoType) -> Callable[[Value], Value] | None:
    """Return a converter to the declared Go type, or None if results need no conversion."""
    plain = zero(result) if result.kind is not Kind.INTERFACE else None
    if isinstance(plain, Sized):
        return type(plain)
    if result.kind is Kind.SLICE and result is not BYTES and result.elem is not ANY:
        return lambda value: value if type(value) is GoSlice else wrap(result, value)
    if result.kind is Kind.MAP and (result.elem is not ANY or result.key is not STRING):
        return lambda value: value if type(value) is GoMap else wrap(result, value)
    return None


class FunctionTable(Mapping[str, Function]):
    """Immutable table of the functions that a template may call in addition to Go's builtins."""

    __slots__ = ("_functions", "by_name")

    def __init__(self, functions: Mapping[str, Function] | None = None) -> None:
        self._functions = dict(functions or {})
        # The evaluator looks up functions often, and a plain dict is faster than this class.
        self.by_name: Mapping[str, Function] = MappingProxyType(self._functions)

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    # Tables are compared by identity so that they can be keys of the template cache.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def extended(self, functions: Mapping[str, Function]) -> FunctionTable:
        """Return a table with additional functions, which replace functions of the same name."""
        return FunctionTable({**self._functions, **functions})


NO_FUNCTIONS = FunctionTable()
