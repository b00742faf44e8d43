"""Sandbox of Jinja2 templates: what they may reach, and when they are stopped.

Everything is closed unless it is opened here: attributes are those of the data and a
few methods of texts, maps and lists; only what this module knows can be called.
Whatever could grow is measured before it is made, and whatever repeats is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MethodType
from typing import Any

from jinja2 import StrictUndefined, Undefined
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.runtime import BlockReference, LoopContext, Macro, TemplateReference
from jinja2.runtime import Context as JinjaContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.jinja.values import (
    MAX_BITS,
    Callee,
    Counted,
    MapView,
    Meter,
    formatted,
    joined,
    name_of,
    plain_pair,
    replaced,
    view_of,
)
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.core.templates.wording import there_are
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.times import TIME, Time


class BlueprintContext(JinjaContext):
    """The names of one execution: what the template sets itself, and the params behind that."""

    meter: Meter
    root: Mapping[str, Any]
    names: Container[str] = ROOT_NAMES

    def resolve_or_missing(self, key: str) -> Any:
        if key in self.vars:
            return self.vars[key]
        if key in self.names:
            return view_of(self.root[key], key)
        return self.parent.get(key, missing)


class Missing(StrictUndefined):
    """Something a template reads that is not there; says so as soon as it is used."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return str(self._undefined_hint)
        name = self._undefined_name
        near = nearest(name, sorted(ROOT_NAMES)) if isinstance(name, str) else ()
        return f"{name!r} is undefined{did_you_mean(near)}"


# Methods that templates may call


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(meter: Meter, owner: Any, *args: Any) -> Any:
        for each in (owner, *args):
            meter.weigh(each)
        return function(owner, *args)

    return call


def _cutting(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(meter: Meter, owner: str, *args: Any) -> Any:
        # At worst every character becomes a text of its own.
        meter.spend(1 + len(owner))
        return list(function(owner, *args))

    return call


_TEXT_METHODS: dict[str, Callable[..., Any]] = {
    **{
        each.__name__: _counted(each)
        for each in (
            str.capitalize,
            str.casefold,
            str.count,
            str.endswith,
            str.find,
            str.index,
            str.isalnum,
            str.isalpha,
            str.isascii,
            str.isdecimal,
            str.isdigit,
            str.islower,
            str.isnumeric,
            str.isspace,
            str.istitle,
            str.isupper,
            str.lower,
            str.lstrip,
            str.removeprefix,
            str.removesuffix,
            str.rfind,
            str.rindex,
            str.rstrip,
            str.startswith,
            str.strip,
            str.swapcase,
            str.title,
            str.upper,
        )
    },
    **{
        each.__name__: _cutting(each)
        for each in (str.partition, str.rpartition, str.rsplit, str.split, str.splitlines)
    },
    "replace": replaced,
    "join": joined,
}


def _get(meter: Meter, owner: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    meter.spend(1)
    return owner[key] if key in owner else default  # noqa: SIM401 - a view has no cheap `get`


def _listing(name: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(meter: Meter, owner: Mapping[Any, Any]) -> list[Any]:
        meter.spend(1 + len(owner))
        return [plain_pair(each) for each in function(owner)]

    # Authors of templates read it in Python's complaint about arguments too many.
    call.__qualname__ = name
    return call


_MAP_METHODS: dict[str, Callable[..., Any]] = {
    "get": _get,
    "items": _listing("items", lambda owner: owner.items()),
    "keys": _listing("keys", list),
    "values": _listing("values", lambda owner: owner.values()),
}
_LIST_METHODS: dict[str, Callable[..., Any]] = {
    "count": _counted(list.count),
    "index": _counted(list.index),
}
_LOOP_NAMES = frozenset(
    {
        "changed",
        "cycle",
        "depth",
        "depth0",
        "first",
        "index",
        "index0",
        "last",
        "length",
        "nextitem",
        "previtem",
        "revindex",
        "revindex0",
    }
)


def _time_method(name: str) -> Callable[..., Any] | None:
    method = TIME.methods.get(name)
    if method is None or method.wants_context:
        return None
    return lambda _meter, owner, *args: view_of(method.call(owner, *args))


class BlueprintEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 as blueprints have it."""

    context_class = BlueprintContext
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            if attribute in obj:
                return obj[attribute]
            return self._method(obj, attribute, _MAP_METHODS)
        if isinstance(obj, str):
            return self._method(obj, attribute, _TEXT_METHODS)
        if isinstance(obj, list | tuple):
            return self._member_of_list(obj, attribute)
        if isinstance(obj, LoopContext) and attribute in _LOOP_NAMES:
            return getattr(obj, attribute)
        if isinstance(obj, Namespace | TemplateReference):
            return self._set_value(obj, attribute)
        if isinstance(obj, Time):
            method = _time_method(attribute)
            return self._absent(obj, attribute) if method is None else Callee(method, obj)
        if isinstance(obj, Undefined):
            return getattr(obj, "_fail_with_undefined_error")()  # noqa: B009 - how Jinja2 says it
        return self._absent(obj, attribute)

    def _set_value(self, obj: Namespace | TemplateReference, attribute: str) -> Any:
        """Give what a template put into a namespace, or a block that it has."""
        try:
            if isinstance(obj, TemplateReference):
                return obj[attribute]
            if not attribute.startswith("_"):
                return getattr(obj, attribute)
        except (AttributeError, KeyError):
            pass
        return self._absent(obj, attribute)

    def _member_of_list(self, obj: Any, attribute: str) -> Any:
        # What `groupby` gives has names; plain pairs and lists have none.
        if attribute in getattr(obj, "_fields", ()):
            return getattr(obj, attribute)
        return self._method(obj, attribute, _LIST_METHODS)

    def _method(self, obj: Any, name: str, methods: Mapping[str, Callable[..., Any]]) -> Any:
        function = methods.get(name)
        return self._absent(obj, name) if function is None else Callee(function, obj)

    def _absent(self, obj: Any, name: Any) -> Undefined:
        where = name_of(obj)
        if isinstance(obj, MapView) and obj.name:
            where = obj.name
        if isinstance(obj, Mapping):
            where += f"; {there_are(str(name), map(str, obj))}"
        return self.undefined(hint=f"{name!r} is undefined in {where}", obj=obj, name=name)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping):
            try:
                return obj[argument]
            except (KeyError, TypeError):
                return self._absent(obj, argument)
        if isinstance(obj, str | list | tuple) and isinstance(argument, int):
            try:
                return obj[argument]
            except IndexError:
                return self._absent(obj, argument)
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        return self._absent(obj, argument)

    def call(
        self,
        context: BlueprintContext,  # type: ignore[override]  # the environment makes no other
        callee: Any,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        meter = context.meter
        meter.spend(1)
        if isinstance(callee, Callee):
            kwargs = {key: each for key, each in kwargs.items() if key not in _INNER}
            return callee.function(meter, *callee.owner, *args, **kwargs)
        if isinstance(callee, LoopContext) and args:
            args = (Counted(meter, args[0], 1), *args[1:])
        elif isinstance(callee, MethodType) and isinstance(callee.__self__, LoopContext):
            for each in args:
                meter.weigh(each)
        elif not isinstance(callee, Macro | BlockReference | Undefined):
            raise SecurityError(f"{name_of(callee)} cannot be called".capitalize())
        if meter.depth >= meter.max_depth:
            raise LimitExceeded("depth", f"it calls itself {meter.depth} times deep")
        meter.depth += 1
        try:
            return context.call(callee, *args, **kwargs)
        finally:
            meter.depth -= 1

    def call_binop(
        self,
        context: BlueprintContext,  # type: ignore[override]  # the environment makes no other
        operator: str,
        left: Any,
        right: Any,
    ) -> Any:
        meter = context.meter
        if isinstance(left, Undefined) or isinstance(right, Undefined):
            return self.binop_table[operator](left, right)
        if _is_number(left) and _is_number(right):
            _check_number(operator, left, right)
            return self.binop_table[operator](left, right)
        if operator == "%" and isinstance(left, str):
            return formatted(meter, left, right)
        if operator == "*" and _is_number(left):
            left, right = right, left
        if operator == "+" and type(left) is type(right) and isinstance(left, str | list):
            _check_growth(meter, left, len(left) + len(right))
            return self.binop_table[operator](left, right)
        if operator == "*" and isinstance(left, str | list) and isinstance(right, int):
            _check_growth(meter, left, len(left) * max(right, 0))
            return left * right
        raise TemplateRuntimeError(
            f"{operator} does not go with {name_of(left)} and {name_of(right)}"
        )

    def call_unop(
        self,
        context: BlueprintContext,  # type: ignore[override]  # the environment makes no other
        operator: str,
        arg: Any,
    ) -> Any:
        if not _is_number(arg) and not isinstance(arg, Undefined):
            raise TemplateRuntimeError(f"{operator} does not go with {name_of(arg)}")
        return super().call_unop(context, operator, arg)


_INNER = ("_loop_vars", "_block_vars")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _check_number(operator: str, left: Any, right: Any) -> None:
    if not isinstance(left, int) or not isinstance(right, int):
        return
    bits = 0
    if operator == "*":
        bits = left.bit_length() + right.bit_length()
    elif operator == "**" and right > 0:
        bits = left.bit_length() * right
    if bits > MAX_BITS:
        raise LimitExceeded("size", f"it makes a number of more than {MAX_BITS} bits")


def _check_growth(meter: Meter, value: Any, size: int) -> None:
    meter.check_size(size)
    meter.spend(1 + (size // 1024 if isinstance(value, str) else size))
