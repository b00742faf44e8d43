"""Composition functions that are Python classes, called in this process."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from inspect import getattr_static, isabstract, isawaitable, iscoroutinefunction, signature
from pathlib import Path
from typing import Any, NamedTuple

from kanister_py.core.compositions.authoring import InvalidResponse, Request, Response
from kanister_py.core.compositions.endpoints import PYTHON, scheme_of, target_of
from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.registry.choose import choose_version
from kanister_py.core.registry.declared import unregistered_entries
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistrationRefused,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import PluginBroken, import_target, load_function
from kanister_py.ports.composition_function import CompositionFunction


class PythonFunction(NamedTuple):
    """A class that runs as a composition function.

    `is_ours` is set for built-in functions. They never modify a request, so they get no copy of
    it, and their responses are not checked.
    """

    code: type[CompositionFunction]
    is_ours: bool = False

    @property
    def is_async(self) -> bool:
        if self.is_ours:
            return False
        return iscoroutinefunction(self.code.run)

    def begin(self, request: FunctionRequest) -> FunctionResponse | Awaitable[Any]:
        """Call a new instance. Returns the response, or an awaitable to pass to `finish`."""
        answer = self.code().run(Request(request, is_own=not self.is_ours, is_lazy=self.is_ours))
        if self.is_ours or isinstance(answer, Response | dict):
            return self.finish(answer)
        return answer if isawaitable(answer) else self.finish(answer)

    async def answer(self, request: FunctionRequest) -> FunctionResponse:
        """Call a function with `async def run` on the running event loop."""
        begun = self.begin(request)
        return begun if isinstance(begun, FunctionResponse) else self.finish(await begun)

    def finish(self, answer: Any) -> FunctionResponse:
        """Convert the return value of a function to a response."""
        if isinstance(answer, Response):
            message = answer.as_message()
            if answer.is_changed and not self.is_ours:
                _checked({"desired": _decoded(message.desired.data)})
            return message
        if not isinstance(answer, Mapping):
            raise InvalidResponse(
                f"{self.code.__qualname__}.run returned {type(answer).__name__}; "
                "a response is a dict, or a Response"
            )
        if self.is_ours:
            return FunctionResponse.from_data(answer)
        # A copy, because the function may keep the response and change it in a later call.
        return FunctionResponse.from_data(copy_json(_checked(answer)))


_LOCAL = Source("local", Version(0, 0, 0))


def load_python_function(endpoint: str, entries: Registry[FunctionEntry]) -> PythonFunction:
    """Load the class behind an endpoint in this process.

    Raises PluginBroken if the class cannot be loaded or cannot be called with a request.
    """
    target = target_of(endpoint)
    if scheme_of(endpoint) == PYTHON:
        return PythonFunction(_class_at(target))
    name, _, version = target.partition("@")
    entry = entries.family(name).by_identity[parse_version(version)]
    return PythonFunction(load_function(entry), entry.source.is_ours)


def _class_at(target: str) -> type[CompositionFunction]:
    """Load the class at `module:Class` or `module:Class@VERSION`."""
    path, _, version = target.partition("@")
    # An author's function is usually in the current folder and not in a package.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        declared = import_target(path)
    except (Exception, SystemExit) as error:  # the import of a plugin may raise anything
        raise PluginBroken(path, f"{type(error).__name__}: {error}") from error
    if version or hasattr(declared, "versions"):
        declared = _version_of(path, declared, version)
    problem = _why_not_callable(declared)
    if problem:
        raise PluginBroken(path, problem)
    function: type[CompositionFunction] = declared
    return function


def _version_of(path: str, declared: Any, version: str) -> Any:
    """Load one version of a class: the stable one if `version` is empty."""
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    try:
        offered = unregistered_entries(declared, _LOCAL)
        builder.add(offered, default_of(offered))
    except RegistrationRefused as error:
        raise PluginBroken(path, error.message) from None
    choice = choose_version(
        builder.build(),
        offered[0].function,
        version or None,
        strict=True,
        kind=FunctionKind.COMPOSITION,
    )
    return load_function(choice.chosen)


def _why_not_callable(declared: Any) -> str:
    """Return the reason why a class cannot be called with a request, or an empty text."""
    if not isinstance(declared, type):
        return f"it is of type {type(declared).__name__}; name a class with a method `run`"
    method = getattr(declared, "run", None)
    if not callable(method):
        own = "; `exec` is for functions of blueprints" if hasattr(declared, "exec") else ""
        return f"the class {declared.__qualname__} has no method `run`{own}"
    if isabstract(declared):
        missing = ", ".join(sorted(getattr(declared, "__abstractmethods__", ())))
        return f"the class {declared.__qualname__} lacks the methods {missing}"
    if not _accepts(declared, 0):
        return f"the class {declared.__qualname__} cannot be created without arguments"
    is_unbound = not isinstance(getattr_static(declared, "run"), staticmethod | classmethod)
    if not _accepts(method, 1 + is_unbound):
        return f"the method {declared.__qualname__}.run does not take exactly one request"
    return ""


def _accepts(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with this number of positional arguments."""
    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # functions in C may have no signature
        return True
    return True


def _decoded(state: Data) -> Data:
    """Return a state without the resources that were never decoded, and so are still valid."""
    from kanister_py.executor.wire_messages import EncodedResource

    resources = state.get("resources")
    if not isinstance(resources, dict):
        return state
    decoded = {
        k: resource for k, resource in resources.items() if type(resource) is not EncodedResource
    }
    return {**state, "resources": decoded}


def _checked(answer: Mapping[str, Any]) -> dict[str, Any]:
    from kanister_py.executor.wire_messages import RESPONSE
    from kanister_py.proto.encoding import NotEncodable, check_message

    try:
        return check_message(RESPONSE, answer)
    except NotEncodable as error:
        raise InvalidResponse(f"The response is invalid: {error}") from None
