"""Default values, choices, and type tests."""

from __future__ import annotations

from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.conversions import deep_equal, guarded, is_empty
from kanister_py.gotemplate.values import Value, kind_of, type_name


def _kind_name(value: Value) -> str:
    kind = kind_of(value)
    return "invalid" if kind is None else kind.value


@guarded
def _deep_equal(context: Context, one: Value, other: Value) -> bool:
    return deep_equal(one, other, context)


@go_function("func(string) (string, error)")
def fail(message: str) -> str:
    raise GoError(message)


OF_BLUEPRINTS = {
    "coalesce": go_function("func(...interface{}) interface{}")(
        lambda *values: next((value for value in values if not is_empty(value)), None)
    ),
    "deepEqual": go_function("func(interface{}, interface{}) bool", context=True)(_deep_equal),
    "default": go_function("func(interface{}, ...interface{}) interface{}")(
        lambda fallback, *values: fallback if not values or is_empty(values[0]) else values[0]
    ),
    "empty": go_function("func(interface{}) bool")(is_empty),
    "fail": fail,
    "kindIs": go_function("func(string, interface{}) bool")(
        lambda target, value: _kind_name(value) == target
    ),
    "kindOf": go_function("func(interface{}) string")(_kind_name),
    "ternary": go_function("func(interface{}, interface{}, bool) interface{}")(
        lambda yes, no, which: yes if which else no
    ),
    "typeIs": go_function("func(string, interface{}) bool")(
        lambda target, value: type_name(value) == target
    ),
    "typeIsLike": go_function("func(string, interface{}) bool")(
        lambda target, value: type_name(value) in (target, "*" + target)
    ),
    "typeOf": go_function("func(interface{}) string")(type_name),
}

NEWER = {
    "all": go_function("func(...interface{}) bool")(lambda *values: not any(map(is_empty, values))),
    "any": go_function("func(...interface{}) bool")(lambda *values: not all(map(is_empty, values))),
}
