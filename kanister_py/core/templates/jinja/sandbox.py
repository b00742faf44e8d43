"""Sandbox of Jinja2 templates: Jinja2's own, with access to the parameters by Go's names."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined
from jinja2.runtime import Context as JinjaContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.jinja.values import MapView, name_of, view_of
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.core.templates.wording import available_names
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.times import TIME, Time


class BlueprintContext(JinjaContext):
    """Names in one execution: variables of the template, then the parameters."""

    go: Context
    """Context for functions of Go templates."""
    root: Mapping[str, Any]
    names: Container[str] = ROOT_NAMES

    def resolve_or_missing(self, key: str) -> Any:
        if key in self.vars:
            return self.vars[key]
        if key in self.names:
            return view_of(self.root[key], key)
        return self.parent.get(key, missing)


class Missing(StrictUndefined):
    """Undefined value; any use raises an error with its name."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return str(self._undefined_hint)
        name = self._undefined_name
        near = nearest(name, sorted(ROOT_NAMES)) if isinstance(name, str) else ()
        return f"{name!r} is undefined{did_you_mean(near)}"


class BlueprintEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 environment of Blueprints.

    Keys of maps win over methods, times have Go's methods, and errors list the available names.
    """

    context_class = BlueprintContext
    # Python evaluates `'a' * 10**9` at compile time; an intercepted operator is called at run time.
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            if attribute in obj:
                return obj[attribute]
            method = _method_of_map(obj, attribute)
            return self._absent(obj, attribute) if method is None else method
        if isinstance(obj, Time):
            method = _method_of_time(obj, attribute)
            return self._absent(obj, attribute) if method is None else method
        value = super().getattr(obj, attribute)
        is_absent = isinstance(value, Undefined) and not isinstance(obj, Undefined)
        return self._absent(obj, attribute) if is_absent else value

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping):
            try:
                return obj[argument]
            except (KeyError, TypeError):
                return self._absent(obj, argument)
        if isinstance(argument, str) and isinstance(obj, Time):
            return self.getattr(obj, argument)
        value = super().getitem(obj, argument)
        is_absent = isinstance(value, Undefined) and not isinstance(obj, Undefined)
        return self._absent(obj, argument) if is_absent else value

    def _absent(self, obj: Any, name: Any) -> Undefined:
        where = name_of(obj)
        if isinstance(obj, MapView) and obj.name:
            where = obj.name
        if isinstance(obj, Mapping):
            where += f"; {available_names(str(name), map(str, obj))}"
        return self.undefined(hint=f"{name!r} is undefined in {where}", obj=obj, name=name)


def _method_of_map(owner: Mapping[Any, Any], name: str) -> Callable[..., Any] | None:
    if name == "get":
        return owner.get
    if name not in ("items", "keys", "values"):
        return None

    def call() -> list[Any]:
        return list(getattr(owner, name)())

    # Python's message about a wrong number of arguments contains this name.
    call.__qualname__ = name
    return call


def _method_of_time(owner: Time, name: str) -> Callable[..., Any] | None:
    method = TIME.methods.get(name)
    if method is None or method.wants_context:
        return None
    return lambda *args: view_of(method.call(owner, *args))
