"""Calls: functions, methods and builtins, and what Go assigns to their parameters."""

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
    Eval,
    Feed,
    Frame,
    Part,
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
# The one Python class that always has this type: no need to look closer.
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


class Calls(Part):
    """Closures that call, alone or fed by a pipeline."""

    def chain_call(self, node: Node, args: list[Node]) -> Eval:
        feed = self.fed_chain_call(node, args, None)
        return lambda frame: feed(frame, NO_VALUE)

    def fed_chain_call(self, node: Node, args: list[Node], before: Command | None) -> Feed:
        """Fields whose last one gets arguments, and the value before it, if there is one."""
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
        compiled: dict[int, tuple[Function, Feed]] = {}

        def run(frame: Frame, final: Value) -> Value:
            start = start_of(frame)

            def call(name: str, method: Function, receiver: Value) -> Value:
                known = compiled.get(id(method))
                if known is None:
                    known = (method, self._method_call(node, name, method, args, before))
                    compiled[id(method)] = known
                return known[1](frame, (receiver, final))

            is_boxed = not frame.boxed.isdisjoint(slots)
            at = (
                self.definition.origins.last_of(node.of, frame) if isinstance(node, Chain) else node
            )
            return self.definition.fields.walk(at, names, start, is_boxed, frame, call)[0]

        return run

    def _refusing(self, node: Node, why: str) -> Feed:
        fail = self.failing(node, why)
        return lambda frame, _: fail(frame)

    def _method_call(
        self, node: Node, name: str, method: Function, args: list[Node], before: Command | None
    ) -> Feed:
        has_final = before is not None
        given = len(args) + has_final
        wrong = wrong_number(name, method, given, len(args))
        if wrong:
            return self._refusing(node, wrong)
        evals = [self.argument(arg, param_at(method, at)) for at, arg in enumerate(args)]
        last = args[-1] if args else node

        def run(frame: Frame, pair: Value) -> Value:
            receiver, final = pair
            values = [receiver, *[each(frame) for each in evals]]
            if before is not None:
                wanted = param_at(method, given - 1)
                values.append(self.fit(final, wanted, before, frame, last))
            return self.invoke(node, name, method, values, frame)

        return run

    def invoke(
        self, node: Node, name: str, function: Function, values: list[Value], frame: Frame
    ) -> Value:
        """Call a method whose arguments are known to fit; the receiver comes first."""
        frame.context.charge(size_of, values[1:])
        try:
            if function.wants_context:
                return function.run(frame.context, *values)
            return function.run(*values)
        except GoError as error:
            raise self.error(node, f"error calling {name}: {error}") from error

    def function_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval:
        """A function at the start of a pipeline, or alone as an argument."""
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
        return lambda frame: paid_call(frame, [each(frame) for each in evals])

    def arguments(self, function: Function, args: list[Node]) -> list[Eval]:
        """What a function is called with, as far as it is written: its context comes first."""
        given = [self.argument(arg, param_at(function, place)) for place, arg in enumerate(args)]
        return [_context, *given] if function.wants_context else given

    def _paid_call(
        self, at: Node, name: str, call: Callable[..., Value]
    ) -> Callable[[Frame, list[Value]], Value]:
        """A call whose estimated cost is counted before it is made."""
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

    def fed_function_call(
        self, node: Identifier, at: Command, args: list[Node], before: Command
    ) -> Feed:
        """A function that gets the value before it as its last argument."""
        name = node.name
        function = self.definition.functions.get(name)
        if function is None:
            special = self.fed_special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        given = len(args) + 1
        wrong = wrong_number(name, function, given, len(args))
        if wrong:
            return self._refusing(node, wrong)
        evals = self.arguments(function, args)
        wanted = param_at(function, given - 1)
        last = args[-1] if args else node
        fits_all = wanted is ANY
        plain = PLAIN_CLASSES.get(wanted)
        paid_call = self._paid_call(at, name, function.run)

        def run(frame: Frame, final: Value) -> Value:
            values = [each(frame) for each in evals]
            if not fits_all and type(final) is not plain:
                final = self.fit(final, wanted, before, frame, last)
            values.append(final)
            return paid_call(frame, values)

        return run

    # Builtins that see more than the values of their arguments

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
            return lambda frame: self.cut(at, [each(frame) for each in evals], args, frame)
        if name == "call":
            called = str(args[0])
            return lambda frame: self.call_value(at, called, [each(frame) for each in evals])
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
        evals = [self.argument(arg, ANY) for arg in args]
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
                return self.call_value(at, shown, values)

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

    def call_value(self, at: Node, name: str, values: list[Value]) -> NoReturn:
        """What the builtin `call` does: no value that templates see is a function."""
        go_type = type_of(values[0])
        why = f"non-function {name} of type {go_type.name}" if go_type else "call of nil"
        raise self.error(at, f"error calling call: {why}")

    # Arguments

    def argument(self, node: Node, wanted: GoType) -> Eval:
        """An argument for a parameter of a known type."""
        if isinstance(node, _CONSTANTS):
            return self.constant_argument(node, wanted)
        if isinstance(node, Nil):
            if wanted.kind in NILABLE:
                return constantly(zero(wanted))
            return self.failing(node, f"cannot assign nil to {wanted.name}")
        value_of = self.definition.pipelines.operand(node)
        if wanted is ANY:
            return value_of
        plain = PLAIN_CLASSES.get(wanted)

        def checked(frame: Frame) -> Value:
            value = value_of(frame)
            if type(value) is plain:
                return value
            return self.fit(value, wanted, node, frame, node)

        return checked

    def constant_argument(self, node: Node, wanted: GoType) -> Eval:
        kind = wanted.kind
        if wanted is ANY:
            return self.constant(node)
        found = _TAKES.get(kind)
        if found is None:
            return self.failing(node, f"can't handle {node} for arg of type {wanted.name}")
        constant, attribute, expected = found
        value = getattr(node, attribute) if isinstance(node, constant) else None
        if value is None:
            return self.failing(node, f"expected {expected}; found {node}")
        if kind in INTEGERS:
            value = int(int_of_kind(kind, value))
        return constantly(wrap(wanted, value))

    def fit(
        self, value: Value, wanted: GoType, source: Node, frame: Frame, looked_at: Node
    ) -> Value:
        """A value as one of another type, if Go would assign it; else Go's complaint."""

        def wrong(why: str) -> ExecError:
            return self.error(self.definition.origins.last_of(looked_at, frame), why)

        if value is None:
            if wanted.kind is Kind.INTERFACE and wanted is ANY:
                return None
            if self.definition.origins.is_boxed(source, frame):
                raise wrong(f"wrong type for value; expected {wanted.name}; got interface {{}}")
            if wanted.kind in NILABLE:
                return zero(wanted)
            raise wrong(f"invalid value; expected {wanted.name}")
        go_type = type_of(value)
        assert go_type is not None
        if is_assignable(go_type, wanted):
            return value
        if go_type.kind is Kind.POINTER and go_type.elem is not None:
            if isinstance(value, Struct) and is_assignable(go_type.elem, wanted):
                return value.pointed_at()
            if is_assignable(go_type.elem, wanted):
                raise wrong(f"dereference of nil pointer of type {wanted.name}")
        raise wrong(f"wrong type for value; expected {wanted.name}; got {go_type.name}")

    def constant(self, node: Node) -> Eval:
        if isinstance(node, String):
            return constantly(node.text)
        if isinstance(node, Bool):
            return constantly(node.is_true)
        if isinstance(node, Number):
            return self.ideal_number(node)
        return self.failing(node, f"can't evaluate command {quote(str(node))}")

    def ideal_number(self, node: Number) -> Eval:
        """A number where nothing but its own looks says what it is."""
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
    """What reflect.Value.String says of a value."""
    if type(value) is str:
        return value
    go_type = type_of(value)
    return "<invalid Value>" if go_type is None else f"<{go_type.name} Value>"


def _is_hexadecimal_integer(written: str) -> bool:
    text = written.lower()
    return len(text) > 2 and text.startswith("0x") and "p" not in text


# Where a kind is wanted: the constant that gives it, by which attribute, and Go's word for it.
_TAKES: Mapping[Kind, tuple[type[Node], str, str]] = {
    Kind.STRING: (String, "text", "string"),
    Kind.BOOL: (Bool, "is_true", "bool"),
    **dict.fromkeys(SIGNED, (Number, "as_int", "integer")),
    **dict.fromkeys(UNSIGNED, (Number, "as_uint", "unsigned integer")),
    Kind.FLOAT64: (Number, "as_float", "float"),
    Kind.COMPLEX128: (Number, "as_complex", "complex"),
}
