"""Shape of what templates see: which fields can exist, whatever an action is about."""

from __future__ import annotations

from collections.abc import Sequence

from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.param_types import TEMPLATE_PARAMS
from kanister_py.core.templates.wording import not_found
from kanister_py.gotemplate.types import GoType, Kind

ROOTS = tuple(TEMPLATE_PARAMS.fields)
"""What a template can read at the top of the tree."""

_CONTAINERS = (Kind.MAP, Kind.STRUCT, Kind.INTERFACE)


def why_impossible(names: Sequence[str], engine: Engine) -> str:
    """Say why a chain of names from the top of the tree leads nowhere; nothing if it may.

    The first name is one of `ROOTS`. What an `index` reads is in a map, or not there; `[]` is
    a member of a list or a map.
    """
    here = TEMPLATE_PARAMS.fields[names[0]].type
    for position, name in enumerate(names[1:], 1):
        while here.kind is Kind.POINTER and here.elem is not None:
            here = here.elem
        owner = ("." if engine is Engine.GO else "") + ".".join(names[:position])
        owner = owner.replace(".[]", "[…]")
        if name == "[]" and here.kind is not Kind.MAP:
            if here.kind is not Kind.SLICE or here.elem is None:
                return ""
            here = here.elem
            continue
        if here.kind is Kind.STRUCT:
            field = here.field(name)
            if field is None:
                if name in here.methods or (engine is Engine.JINJA2 and name in _OF_MAPS):
                    return ""
                return not_found(name, owner, _names_of(here))
            here = field.type
        elif here.kind is Kind.MAP and here.elem is not None:
            here = here.elem
        elif here.kind in _CONTAINERS or engine is Engine.JINJA2 or name in here.methods:
            # Nothing more is known, or texts and lists have methods.
            return ""
        else:
            return f'no "{name}" in {owner}, which is {_NAMES.get(here.kind, here.name)}'
    return ""


_OF_MAPS = frozenset({"get", "items", "keys", "values"})
_NAMES = {
    Kind.STRING: "text",
    Kind.BOOL: "true or false",
    Kind.INT: "a number",
    Kind.INT64: "a number",
    Kind.SLICE: "a list: {{ index … 0 }} gives its first",
}


def _names_of(struct: GoType) -> list[str]:
    embedded = {name for name, each in struct.fields.items() if each.embedded}
    return [*(each for each in struct.fields if each not in embedded), *struct.promoted]
