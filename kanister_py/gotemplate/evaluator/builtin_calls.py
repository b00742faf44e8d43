"""Builtins that depend on how they are written: `and`, `or`, `len`, `index`, `slice`, `call`."""

from __future__ import annotations

from typing import NoReturn

from kanister_py.gotemplate.builtins import Boxed, cut, item_at, length_of, prepare_argument
from kanister_py.gotemplate.evaluator.frames import Eval, Feed, Frame, Part
from kanister_py.gotemplate.functions import Function, GoError, param_at
from kanister_py.gotemplate.nodes import Command, Identifier, Node, Pipe
from kanister_py.gotemplate.types import ANY, Kind
from kanister_py.gotemplate.values import GoFunc, Value, type_of


class BuiltinCalls(Part):
    """Makes closures of the builtins that see more than the values of their arguments."""

    def special_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval | None:
        name = node.name
        counts = {"len": len(args) == 1, "index": len(args) == 2}
        if not counts.get(name, name in ("and", "or", "slice", "call") and bool(args)):
            return None
        evals = [self.definition.arguments.argument(arg, ANY) for arg in args]
        if name == "len":
            length, only = self.length(at, args[0]), evals[0]
            return lambda frame: length(frame, only(frame))
        if name == "index":
            return self.index(at, *evals)
        if name == "slice":
            return lambda frame: self.cut(at, [each(frame) for each in evals], args, frame)
        if name == "call":
            called = str(args[0])
            return lambda frame: self.call_value(at, called, [each(frame) for each in evals], frame)
        is_or = name == "or"

        def decide(frame: Frame) -> Value:
            value = None
            for each, arg in zip(evals, args, strict=True):
                value = each(frame)
                if bool(value) is is_or:
                    frame.last = arg
                    return value
            frame.last = args[-1]
            return value

        return decide

    def index(self, at: Node, item_of: Eval, key_of: Eval) -> Eval:
        def run(frame: Frame) -> Value:
            item = item_of(frame)
            key = key_of(frame)
            if type(item) is dict and type(key) is str:
                return item.get(key)
            try:
                if item is None:
                    raise GoError("index of untyped nil")
                return item_at(item, key)
            except GoError as error:
                raise self.error(at, f"error calling index: {error}") from error

        return run

    def cut(self, at: Node, values: list[Value], nodes: list[Node], frame: Frame) -> Value:
        """What the builtin `slice` does: Go takes no index out of an interface here."""
        shown = [
            Boxed() if place and self.definition.origins.is_boxed(node, frame) else value
            for place, (value, node) in enumerate(zip(values, nodes, strict=True))
        ]
        try:
            return cut(*shown)
        except GoError as error:
            raise self.error(at, f"error calling slice: {error}") from error

    def length(self, at: Node, arg: Node) -> Feed:
        def run(frame: Frame, value: Value) -> int:
            try:
                if value is not None:
                    return length_of(value)
                if self.definition.origins.is_boxed(arg, frame):
                    raise GoError("len of nil pointer")
                raise GoError("reflect: call of reflect.Value.Type on zero Value")
            except GoError as error:
                raise self.error(at, f"error calling len: {error}") from error

        return run

    def fed_special_call(self, node: Identifier, at: Command, args: list[Node]) -> Feed | None:
        name = node.name
        # What comes down a pipeline has left its interface behind.
        fed = Pipe(at.at)
        if name == "len" and not args:
            return self.length(at, fed)
        if name not in ("and", "or", "slice", "call"):
            return None
        evals = [self.definition.arguments.argument(arg, ANY) for arg in args]
        if name == "slice":
            nodes = [*args, fed]
            return lambda frame, final: self.cut(
                at, [*[each(frame) for each in evals], final], nodes, frame
            )
        if name == "call":
            called = str(args[0]) if args else None

            def run(frame: Frame, final: Value) -> Value:
                values = [*[each(frame) for each in evals], final]
                shown = called if called is not None else _final_name(values[0])
                return self.call_value(at, shown, values, frame)

            return run
        is_or = name == "or"

        def decide(frame: Frame, final: Value) -> Value:
            frame.last = node
            for each, arg in zip(evals, args, strict=True):
                value = each(frame)
                frame.last = arg
                if bool(value) is is_or:
                    return value
            return final

        return decide

    def call_value(self, at: Node, name: str, values: list[Value], frame: Frame) -> Value:
        """What the builtin `call` does: call a function that is a value."""
        target, *given = values
        try:
            if target is None:
                raise GoError("call of nil")
            go_type = type_of(target)
            assert go_type is not None
            if go_type.kind is not Kind.FUNC:
                raise GoError(f"non-function {name} of type {go_type.name}")
            function = (
                target.function
                if isinstance(target, GoFunc)
                else Function(go_type.name, _nil_function, context=False)
            )
            assert isinstance(function, Function)
            fixed = len(function.params) - function.is_variadic
            if function.is_variadic and len(given) < fixed:
                raise GoError(
                    f"wrong number of args for {name}: got {len(given)} want at least {fixed}"
                )
            if not function.is_variadic and len(given) != fixed:
                raise GoError(f"wrong number of args for {name}: got {len(given)} want {fixed}")
            ready = []
            for place, value in enumerate(given):
                try:
                    ready.append(prepare_argument(value, param_at(function, place)))
                except GoError as error:
                    raise GoError(f"arg {place}: {error}") from error
            if function.wants_context:
                ready.insert(0, frame.context)
            return function.run(*ready)
        except GoError as error:
            raise self.error(at, f"error calling call: {error}") from error


def _nil_function(*_: Value) -> NoReturn:
    raise GoError("reflect.Value.Call: call of nil function")


def _final_name(value: Value) -> str:
    """What reflect.Value.String says of a value."""
    if type(value) is str:
        return value
    go_type = type_of(value)
    return "<invalid Value>" if go_type is None else f"<{go_type.name} Value>"
