"""Arguments: what Go assigns to a parameter, and what a constant means there."""

from __future__ import annotations

from collections.abc import Mapping

from kanister_py.gotemplate.errors import ExecError
from kanister_py.gotemplate.evaluator.frames import Eval, Frame, Part, constantly
from kanister_py.gotemplate.nodes import Bool, Nil, Node, Number, String
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.types import (
    ANY,
    ANY_MAP,
    ANY_SLICE,
    BOOL,
    BYTES,
    COMPLEXES,
    FLOAT64,
    FLOATS,
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


class Arguments(Part):
    """Makes closures that give what a parameter of a known type takes."""

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


def _is_hexadecimal_integer(written: str) -> bool:
    text = written.lower()
    return len(text) > 2 and text.startswith("0x") and "p" not in text


# Where a kind is wanted: the constant that gives it, by which attribute, and Go's word for it.
_TAKES: Mapping[Kind, tuple[type[Node], str, str]] = {
    Kind.STRING: (String, "text", "string"),
    Kind.BOOL: (Bool, "is_true", "bool"),
    **dict.fromkeys(SIGNED, (Number, "as_int", "integer")),
    **dict.fromkeys(UNSIGNED, (Number, "as_uint", "unsigned integer")),
    **dict.fromkeys(FLOATS, (Number, "as_float", "float")),
    **dict.fromkeys(COMPLEXES, (Number, "as_complex", "complex")),
}
