"""Calls of functions and methods, alone or fed by a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kanister_py.gotemplate.builtins import BUILTINS
from kanister_py.gotemplate.evaluator.arguments import PLAIN_CLASSES
from kanister_py.gotemplate.evaluator.frames import DOT, NO_VALUE, Eval, Feed, Frame, Part, dot_of
from kanister_py.gotemplate.functions import Function, GoError, param_at, wrong_number
from kanister_py.gotemplate.limits import LONG, SIZED, Context
from kanister_py.gotemplate.nodes import Chain, Command, Field, Identifier, Node, Variable
from kanister_py.gotemplate.types import ANY
from kanister_py.gotemplate.values import Value

_BUILTINS = BUILTINS.by_name


class Calls(Part):
    """Makes closures that call."""

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
        evals = [
            self.definition.arguments.argument(arg, param_at(method, at))
            for at, arg in enumerate(args)
        ]
        last = args[-1] if args else node

        def run(frame: Frame, pair: Value) -> Value:
            receiver, final = pair
            values = [receiver, *[each(frame) for each in evals]]
            if before is not None:
                wanted = param_at(method, given - 1)
                values.append(self.definition.arguments.fit(final, wanted, before, frame, last))
            return self.invoke(node, name, method, values, frame)

        return run

    def invoke(
        self, node: Node, name: str, function: Function, values: list[Value], frame: Frame
    ) -> Value:
        """Call a function whose arguments are known to fit."""
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
            special = self.definition.builtin_calls.special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        wrong = wrong_number(name, function, len(args), len(args))
        if wrong:
            return self.failing(node, wrong)
        return self.plain_call(at, name, function.run, self.arguments(function, args))

    def arguments(self, function: Function, args: list[Node]) -> list[Eval]:
        """What a function is called with, as far as it is written: its context comes first."""
        given = [
            self.definition.arguments.argument(arg, param_at(function, place))
            for place, arg in enumerate(args)
        ]
        return [_context, *given] if function.wants_context else given

    def plain_call(
        self, at: Node, name: str, call: Callable[..., Value], evals: list[Eval]
    ) -> Eval:
        """A closure for each usual number of arguments: calls are hot."""
        if len(evals) == 1:
            (only,) = evals

            def run1(frame: Frame) -> Value:
                given = only(frame)
                if type(given) in SIZED and len(given) > LONG:
                    frame.context.pay(given)
                try:
                    value = call(given)
                except GoError as error:
                    raise self.error(at, f"error calling {name}: {error}") from error
                if type(value) in SIZED and len(value) > LONG:
                    frame.context.pay(value)
                return value

            return run1
        if len(evals) == 2:
            one, two = evals

            def run2(frame: Frame) -> Value:
                first, second = one(frame), two(frame)
                if type(first) in SIZED and len(first) > LONG:
                    frame.context.pay(first)
                if type(second) in SIZED and len(second) > LONG:
                    frame.context.pay(second)
                try:
                    value = call(first, second)
                except GoError as error:
                    raise self.error(at, f"error calling {name}: {error}") from error
                if type(value) in SIZED and len(value) > LONG:
                    frame.context.pay(value)
                return value

            return run2

        paid_call = self._paid_call(at, name, call)
        return lambda frame: paid_call(frame, [each(frame) for each in evals])

    def _paid_call(
        self, at: Node, name: str, call: Callable[..., Value]
    ) -> Callable[[Frame, list[Value]], Value]:
        """A call that pays for long arguments before, and for a long result behind it."""

        def run(frame: Frame, values: list[Value]) -> Value:
            for each in values:
                if type(each) in SIZED and len(each) > LONG:
                    frame.context.pay(each)
            try:
                value = call(*values)
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error
            if type(value) in SIZED and len(value) > LONG:
                frame.context.pay(value)
            return value

        return run

    def fed_function_call(
        self, node: Identifier, at: Command, args: list[Node], before: Command
    ) -> Feed:
        """A function that gets the value before it as its last argument."""
        name = node.name
        function = self.definition.functions.get(name)
        if function is None:
            special = self.definition.builtin_calls.fed_special_call(node, at, args)
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
                final = self.definition.arguments.fit(final, wanted, before, frame, last)
            values.append(final)
            return paid_call(frame, values)

        return run


def _context(frame: Frame) -> Context:
    return frame.context
