"""Versioned functions for Kubernetes data workflows and compositions.

`__all__` lists the public interface. The names are imported when they are first used, which keeps
the import of the package cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanister_py.core.compositions.authoring import Request, Response
    from kanister_py.core.errors import KanisterError
    from kanister_py.ports.composition_function import (
        CompositionFunction,
        VersionedCompositionFunction,
    )
    from kanister_py.ports.function import Func, OnRestart, PhaseContext, VersionedFunc
    from kanister_py.ports.models import AnyOutputs, Args, Outputs
    from kanister_py.runs import run
    from kanister_py.wiring import register

__all__ = [
    "AnyOutputs",
    "Args",
    "CompositionFunction",
    "Func",
    "KanisterError",
    "OnRestart",
    "Outputs",
    "PhaseContext",
    "Request",
    "Response",
    "VersionedCompositionFunction",
    "VersionedFunc",
    "register",
    "run",
]

_MODULES = {
    "KanisterError": "kanister_py.core.errors",
    "register": "kanister_py.wiring",
    "run": "kanister_py.runs",
    **dict.fromkeys(("Request", "Response"), "kanister_py.core.compositions.authoring"),
    **dict.fromkeys(("AnyOutputs", "Args", "Outputs"), "kanister_py.ports.models"),
    **dict.fromkeys(
        ("Func", "OnRestart", "PhaseContext", "VersionedFunc"), "kanister_py.ports.function"
    ),
    **dict.fromkeys(
        ("CompositionFunction", "VersionedCompositionFunction"),
        "kanister_py.ports.composition_function",
    ),
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
