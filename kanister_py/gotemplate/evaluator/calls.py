"""Calls of functions, methods and builtins, and conversion of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from kanister_py.gotemplate.builtins import (
    BUILTINS,
    Boxed,
    cut,
    item_at,
    length_of,
)
from kanister_py.gotemplate.costs import CHEAP, FREE, LONG, price_of, size_of
from kanister_py.gotemplate.errors import ExecError
from kanister_py.gotemplate.evaluator.frames import (
    DOT,
    NO_VALUE,
    Compiler,
    Eval,
    Frame,
    PipedEval,
    constantly,
    dot_of,
)
from kanister_py.gotemplate.functions import Function, GoError, param_at, wrong_number
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.nodes import (
    Bool,
    Chain,
    Command,
    Field,
    Identifier,
    Nil,
    Node,
    Number,
    Pipe,
    String,
    Variable,
)
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.types import (
    ANY,
    ANY_MAP,
    ANY_SLICE,
    BOOL,
    BYTES,
    FLOAT64,
    INT,
    INTEGERS,
    NILABLE,
    SIGNED,
    STRING,
    UNSIGNED,
    GoType,
    Kind,
)
from kanister_py.gotemplate.values import (
    Struct,
    Value,
    int_of_kind,
    is_assignable,
    type_of,
    wrap,
    zero,
)

_CONSTANTS = (String, Number, Bool)
# Python classes that always have this Go type, so that no further check is necessary.
PLAIN_CLASSES: Mapping[GoType, type] = {
    STRING: str,
    INT: int,
    BOOL: bool,
    FLOAT64: float,
    BYTES: bytes,
    ANY_MAP: dict,
    ANY_SLICE: list,
}
_BUILTINS = BUILTINS.by_name


class Calls(Compiler):
    """Compiler of calls, both standalone and as a later command of a pipeline."""

    def chain_call(self, node: Node, args: list[Node]) -> Eval:
        feed = self.piped_chain_call(node, args, None)
        return lambda frame: feed(frame, NO_VALUE)

    def piped_chain_call(self, node: Node, args: list[Node], before: Command | None) -> PipedEval:
        """Compile a chain of fields whose last name has arguments, or gets the piped value."""
        slots: Sequence[int] = ()
        start_of: Eval
        if isinstance(node, Field):
            start_of, names = dot_of, node.names
            slots = (DOT,)
        elif isinstance(node, Variable):
            start_of, names = self.definition.scope.variable(node), node.names[1:]
            slots = self.definition.scope.slots(node.names[0])
            if not names:
                return self._refusing(node, f"can't give argument to non-function {node}")
        else:
            assert isinstance(node, Chain)
            start_of, names = self.definition.pipelines.operand(node.of), node.names
        compiled: dict[int, tuple[Function, PipedEval]] = {}

        def run(frame: Frame, final: Value) -> Value:
            start = start_of(frame)

            def call(name: str, method: Function, receiver: Value) -> Value:
                entry = compiled.get(id(method))
                if entry is None:
                    entry = (method, self._method_call(node, name, method, args, before))
                    compiled[id(method)] = entry
                return entry[1](frame, (receiver, final))

            is_boxed = not frame.boxed.isdisjoint(slots)
            at = (
                self.definition.origins.last_of(node.of, frame) if isinstance(node, Chain) else node
            )
            return self.definition.fields.walk(at, names, start, is_boxed, frame, call)[0]

        return run

    def _refusing(self, node: Node, why: str) -> PipedEval:
        fail = self.failing(node, why)
        return lambda frame, _: fail(frame)

    def _method_call(
        self, node: Node, name: str, method: Function, args: list[Node], before: Command | None
    ) -> PipedEval:
        has_final = before is not None
        count = len(args) + has_final
        wrong = wrong_number(name, method, count, len(args))
        if wrong:
            return self._refusing(node, wrong)
        evals = [self.argument(arg, param_at(method, at)) for at, arg in enumerate(args)]
        last = args[-1] if args else node

        def run(frame: Frame, pair: Value) -> Value:
            receiver, final = pair
            values = [receiver, *[evaluate(frame) for evaluate in evals]]
            if before is not None:
                param = param_at(method, count - 1)
                values.append(self.fit(final, param, before, frame, last))
            return self.invoke(node, name, method, values, frame)

        return run

    def invoke(
        self, node: Node, name: str, function: Function, values: list[Value], frame: Frame
    ) -> Value:
        """Call a method with checked arguments; the receiver comes first."""
        frame.context.charge(size_of, values[1:])
        try:
            if function.wants_context:
                return function.run(frame.context, *values)
            return function.run(*values)
        except GoError as error:
            raise self.error(node, f"error calling {name}: {error}") from error

    def function_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval:
        """Compile a function call without a piped value."""
        name = node.name
        function = self.definition.functions.get(name)
        if function is None:
            special = self.special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        wrong = wrong_number(name, function, len(args), len(args))
        if wrong:
            return self.failing(node, wrong)
        evals = self.arguments(function, args)
        paid_call = self._paid_call(at, name, function.run)
        return lambda frame: paid_call(frame, [evaluate(frame) for evaluate in evals])

    def arguments(self, function: Function, args: list[Node]) -> list[Eval]:
        """Compile the written arguments of a function; its context comes first."""
        evals = [self.argument(arg, param_at(function, place)) for place, arg in enumerate(args)]
        return [_context, *evals] if function.wants_context else evals

    def _paid_call(
        self, at: Node, name: str, call: Callable[..., Value]
    ) -> Callable[[Frame, list[Value]], Value]:
        """Wrap a call so that its estimated cost is counted before it is made."""
        price, is_by_size = price_of(name)

        def free(_frame: Frame, values: list[Value]) -> Value:
            try:
                return call(*values)
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error

        def by_size(frame: Frame, values: list[Value]) -> Value:
            for value in values:
                kind = type(value)
                if (
                    kind not in CHEAP
                    and kind is not Context
                    and (kind is not str or len(value) > LONG)
                ):
                    frame.context.charge(price, values)
                    break
            try:
                return call(*values)
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error

        def charged(frame: Frame, values: list[Value]) -> Value:
            frame.context.charge(price, values)
            return free(frame, values)

        if price is FREE:
            return free
        return by_size if is_by_size else charged

    def piped_function_call(
        self, node: Identifier, at: Command, args: list[Node], before: Command
    ) -> PipedEval:
        """Compile a function call that gets the piped value as its last argument."""
        name = node.name
        function = self.definition.functions.get(name)
        if function is None:
            special = self.piped_special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        count = len(args) + 1
        wrong = wrong_number(name, function, count, len(args))
        if wrong:
            return self._refusing(node, wrong)
        evals = self.arguments(function, args)
        param = param_at(function, count - 1)
        last = args[-1] if args else node
        fits_all = param is ANY
        plain = PLAIN_CLASSES.get(param)
        paid_call = self._paid_call(at, name, function.run)

        def run(frame: Frame, final: Value) -> Value:
            values = [evaluate(frame) for evaluate in evals]
            if not fits_all and type(final) is not plain:
                final = self.fit(final, param, before, frame, last)
            values.append(final)
            return paid_call(frame, values)

        return run

    # Builtins whose result depends on more than the values of their arguments

    def special_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval | None:
        name = node.name
        counts = {"len": len(args) == 1, "index": len(args) == 2}
        if not counts.get(name, name in ("and", "or", "slice", "call") and bool(args)):
            return None
        evals = [self.argument(arg, ANY) for arg in args]
        if name == "len":
            length, only = self.length(at, args[0]), evals[0]
            return lambda frame: length(frame, only(frame))
        if name == "index":
            return self.index(at, *evals)
        if name == "slice":
            return lambda frame: self.cut(at, [evaluate(frame) for evaluate in evals], args, frame)
        if name == "call":
            called = str(args[0])
            return lambda frame: self.call_value(
                at, called, [evaluate(frame) for evaluate in evals]
            )
        is_or = name == "or"

        def decide(frame: Frame) -> Value:
            value = None
            for evaluate, arg in zip(evals, args, strict=True):
                value = evaluate(frame)
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
        """Evaluate the builtin `slice`. Unlike elsewhere, Go accepts no index from an interface."""
        shown = [
            Boxed() if place and self.definition.origins.is_boxed(node, frame) else value
            for place, (value, node) in enumerate(zip(values, nodes, strict=True))
        ]
        try:
            return cut(*shown)
        except GoError as error:
            raise self.error(at, f"error calling slice: {error}") from error

    def length(self, at: Node, arg: Node) -> PipedEval:
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

    def piped_special_call(
        self, node: Identifier, at: Command, args: list[Node]
    ) -> PipedEval | None:
        name = node.name
        # A piped value is no longer inside an interface.
        piped = Pipe(at.at)
        if name == "len" and not args:
            return self.length(at, piped)
        if name not in ("and", "or", "slice", "call"):
            return None
        evals = [self.argument(arg, ANY) for arg in args]
        if name == "slice":
            nodes = [*args, piped]
            return lambda frame, final: self.cut(
                at, [*[evaluate(frame) for evaluate in evals], final], nodes, frame
            )
        if name == "call":
            called = str(args[0]) if args else None

            def run(frame: Frame, final: Value) -> Value:
                values = [*[evaluate(frame) for evaluate in evals], final]
                shown = called if called is not None else _final_name(values[0])
                return self.call_value(at, shown, values)

            return run
        is_or = name == "or"

        def decide(frame: Frame, final: Value) -> Value:
            frame.last = node
            for evaluate, arg in zip(evals, args, strict=True):
                value = evaluate(frame)
                frame.last = arg
                if bool(value) is is_or:
                    return value
            return final

        return decide

    def call_value(self, at: Node, name: str, values: list[Value]) -> NoReturn:
        """Raise the error of the builtin `call`: no value that templates see is a function."""
        go_type = type_of(values[0])
        why = f"non-function {name} of type {go_type.name}" if go_type else "call of nil"
        raise self.error(at, f"error calling call: {why}")

    # Arguments

    def argument(self, node: Node, target: GoType) -> Eval:
        """Compile an argument for a parameter of this type."""
        if isinstance(node, _CONSTANTS):
            return self.constant_argument(node, target)
        if isinstance(node, Nil):
            if target.kind in NILABLE:
                return constantly(zero(target))
            return self.failing(node, f"cannot assign nil to {target.name}")
        value_of = self.definition.pipelines.operand(node)
        if target is ANY:
            return value_of
        plain = PLAIN_CLASSES.get(target)

        def checked(frame: Frame) -> Value:
            value = value_of(frame)
            if type(value) is plain:
                return value
            return self.fit(value, target, node, frame, node)

        return checked

    def constant_argument(self, node: Node, target: GoType) -> Eval:
        kind = target.kind
        if target is ANY:
            return self.constant(node)
        taken_constant = _CONSTANTS_BY_KIND.get(kind)
        if taken_constant is None:
            return self.failing(node, f"can't handle {node} for arg of type {target.name}")
        constant, attribute, expected = taken_constant
        value = getattr(node, attribute) if isinstance(node, constant) else None
        if value is None:
            return self.failing(node, f"expected {expected}; found {node}")
        if kind in INTEGERS:
            value = int(int_of_kind(kind, value))
        return constantly(wrap(target, value))

    def fit(
        self, value: Value, target: GoType, source: Node, frame: Frame, looked_at: Node
    ) -> Value:
        """Convert a value to a type if Go would assign it; else raise Go's error."""

        def wrong(why: str) -> ExecError:
            return self.error(self.definition.origins.last_of(looked_at, frame), why)

        if value is None:
            if target.kind is Kind.INTERFACE and target is ANY:
                return None
            if self.definition.origins.is_boxed(source, frame):
                raise wrong(f"wrong type for value; expected {target.name}; got interface {{}}")
            if target.kind in NILABLE:
                return zero(target)
            raise wrong(f"invalid value; expected {target.name}")
        go_type = type_of(value)
        assert go_type is not None
        if is_assignable(go_type, target):
            return value
        if go_type.kind is Kind.POINTER and go_type.elem is not None:
            if isinstance(value, Struct) and is_assignable(go_type.elem, target):
                return value.pointed_at()
            if is_assignable(go_type.elem, target):
                raise wrong(f"dereference of nil pointer of type {target.name}")
        raise wrong(f"wrong type for value; expected {target.name}; got {go_type.name}")

    def constant(self, node: Node) -> Eval:
        if isinstance(node, String):
            return constantly(node.text)
        if isinstance(node, Bool):
            return constantly(node.is_true)
        if isinstance(node, Number):
            return self.ideal_number(node)
        return self.failing(node, f"can't evaluate command {quote(str(node))}")

    def ideal_number(self, node: Number) -> Eval:
        """Compile a number whose type depends only on its notation."""
        if node.as_complex is not None:
            return constantly(node.as_complex)
        written = node.written
        if (
            node.as_float is not None
            and written[0] != "'"
            and not _is_hexadecimal_integer(written)
            and any(char in written for char in ".eEpP")
        ):
            return constantly(node.as_float)
        if node.as_int is not None:
            return constantly(node.as_int)
        return self.failing(node, f"{written} overflows int")


def _context(frame: Frame) -> Context:
    return frame.context


def _final_name(value: Value) -> str:
    """Return the result of reflect.Value.String."""
    if type(value) is str:
        return value
    go_type = type_of(value)
    return "<invalid Value>" if go_type is None else f"<{go_type.name} Value>"


def _is_hexadecimal_integer(written: str) -> bool:
    text = written.lower()
    return len(text) > 2 and text.startswith("0x") and "p" not in text


# For each kind of a parameter: the constant it accepts, the attribute with its value, Go's name.
_CONSTANTS_BY_KIND: Mapping[Kind, tuple[type[Node], str, str]] = {
    Kind.STRING: (String, "text", "string"),
    Kind.BOOL: (Bool, "is_true", "bool"),
    **dict.fromkeys(SIGNED, (Number, "as_int", "integer")),
    **dict.fromkeys(UNSIGNED, (Number, "as_uint", "unsigned integer")),
    Kind.FLOAT64: (Number, "as_float", "float"),
    Kind.COMPLEX128: (Number, "as_complex", "complex"),
}
