"""Chains of fields: the short way down, and the way by the book.

The short way is a few subscriptions, since structs and maps are both dicts here.
Whatever does not go that way - a method, a missing key, a mistake - is walked
again, with Go's rules and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kanister_py.gotemplate.errors import ExecError, KeyMissing
from kanister_py.gotemplate.evaluator.frames import DOT, NOT_THERE, Eval, Frame, Part
from kanister_py.gotemplate.functions import Function, wrong_number
from kanister_py.gotemplate.nodes import Chain, Field, Node, Variable
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.types import ANY, STRING, GoType, Kind
from kanister_py.gotemplate.values import NilPointer, Struct, Value, type_of, zero


class Fields(Part):
    """Makes closures out of chains of names."""

    def field(self, node: Field) -> Eval:  # noqa: C901 - a closure for each length: fields are hot
        names = node.names
        walk = self.walk

        if len(names) == 1:
            (one,) = names

            def field1(frame: Frame) -> Value:
                try:
                    return frame.dot[one]
                except NOT_THERE:
                    return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]

            return field1
        if len(names) == 2:
            one, two = names

            def field2(frame: Frame) -> Value:
                try:
                    return frame.dot[one][two]
                except NOT_THERE:
                    return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]

            return field2
        if len(names) == 3:
            one, two, three = names

            def field3(frame: Frame) -> Value:
                try:
                    return frame.dot[one][two][three]
                except NOT_THERE:
                    return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]

            return field3

        def field_n(frame: Frame) -> Value:
            try:
                value = frame.dot
                for name in names:
                    value = value[name]
            except NOT_THERE:
                return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]
            return value

        return field_n

    def chain(self, node: Node, value_of: Eval, names: list[str]) -> Eval:
        """Fields of what another closure gives."""
        walk = self.walk
        slots = self.definition.scope.slots(node.names[0]) if isinstance(node, Variable) else ()
        of = node.of if isinstance(node, Chain) else None

        def chained(frame: Frame) -> Value:
            start = value_of(frame)
            try:
                value = start
                for name in names:
                    value = value[name]
            except NOT_THERE:
                is_boxed = bool(slots) and not frame.boxed.isdisjoint(slots)
                at = node if of is None else self.definition.origins.last_of(of, frame)
                return walk(at, names, start, is_boxed, frame)[0]
            return value

        return chained

    def walk(
        self,
        node: Node,
        names: Sequence[str],
        value: Value,
        is_boxed: bool,
        frame: Frame,
        call: Callable[[str, Function, Value], Value] | None = None,
    ) -> tuple[Value, bool]:
        """Follow fields by the book; says also whether the value came out of an interface.

        With `call`, the last name has arguments: it must be a method, and `call`
        calls it.
        """
        last = len(names) - 1
        for position, name in enumerate(names):
            if value is None and not is_boxed:
                if self.definition.is_strict:
                    raise self.error(node, f"nil data; no entry for key {quote(name)}")
                return None, False
            has_args = call is not None and position == last
            go_type = ANY if is_boxed else type_of(value)
            assert go_type is not None
            method = None if value is None else self.method(value, name)
            if method is not None:
                if has_args:
                    assert call is not None
                    return call(name, method, value), False
                wrong = wrong_number(name, method, 0, 0)
                if wrong:
                    raise self.error(node, wrong)
                value = self.definition.calls.invoke(node, name, method, [value], frame)
                is_boxed = method.result.kind is Kind.INTERFACE
                continue
            try:
                value, is_boxed = self.step_into(node, name, value, go_type, has_args=has_args)
            except ExecError as error:
                error.missing, error.there = name, _names_in(value)
                found = type_of(value)
                error.kind = found.name if found is not None else "nil"
                # What a chain starts from is not always written where it fails.
                if error.context.endswith("." + ".".join(names)):
                    error.owner = error.context.rsplit(".", len(names) - position)[0]
                raise
        return value, is_boxed

    def method(self, value: Value, name: str) -> Function | None:
        go_type = type_of(value)
        assert go_type is not None
        found = go_type.methods.get(name)
        return found if isinstance(found, Function) else None

    def step_into(
        self, node: Node, name: str, value: Value, go_type: GoType, *, has_args: bool
    ) -> tuple[Value, bool]:
        """One name along a chain: a field of a struct, or an entry of a map."""
        if value is None:
            raise self.error(node, f"nil pointer evaluating {go_type.name}.{name}")
        if isinstance(value, Struct):
            field = value.struct.field(name)
            if field is not None:
                if not field.is_exported:
                    raise self.error(
                        node, f"{name} is an unexported field of struct type {go_type.name}"
                    )
                if has_args:
                    raise self.error(
                        node, f"{name} has arguments but cannot be invoked as function"
                    )
                return value[name], field.type.kind is Kind.INTERFACE
        elif isinstance(value, NilPointer):
            pointed = value.go_type.elem
            if pointed is None or pointed.kind is not Kind.STRUCT or pointed.field(name):
                raise self.error(node, f"nil pointer evaluating {go_type.name}.{name}")
        elif isinstance(value, dict):
            map_type = type_of(value)
            assert map_type is not None
            if map_type.key is STRING or map_type.key is ANY:
                return self.entry(node, name, value, map_type, has_args=has_args)
        raise self.error(node, f"can't evaluate field {name} in type {go_type.name}")

    def entry(
        self, node: Node, name: str, value: dict[Any, Value], map_type: GoType, *, has_args: bool
    ) -> tuple[Value, bool]:
        if has_args:
            raise self.error(node, f"{name} is not a method but has arguments")
        elem = map_type.elem
        assert elem is not None
        if name in value:
            return value[name], elem.kind is Kind.INTERFACE
        if self.definition.is_strict:
            why = f"map has no entry for key {quote(name)}"
            raise self.error(node, why, KeyMissing)
        if self.definition.missing_key == "zero":
            return zero(elem), elem.kind is Kind.INTERFACE
        return None, False


def _names_in(value: Value) -> tuple[str, ...]:
    """Say what could be read of a value instead of what is not there."""
    pointed = value.go_type.elem if isinstance(value, NilPointer) else None
    struct = value.struct if isinstance(value, Struct) else pointed
    if struct is not None:
        own = [name for name, each in struct.fields.items() if each.is_exported]
        return (*own, *struct.promoted)
    return tuple(str(key) for key in value) if isinstance(value, dict) else ()
