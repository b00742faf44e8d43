"""Loading of functions: the class behind an entry, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py.executor.loading import PluginBroken, load_function
from kanister_py.ports.function import Func
from kanister_py.ports.models import Args
from kanister_py.wiring import registry_of


class _Opaque:
    """Nothing that a model could know how to read."""


class UnreadableArgs(Args):
    thing: _Opaque


class Unreadable(Func):
    name = "Unreadable"
    Args = UnreadableArgs

    def exec(self, ctx: Any, params: Any, args: Any) -> Mapping[str, Any]:
        return {}


class PlainArgs(Args):
    image_name: str = "busybox"


class Plain(Func):
    name = "Plain"
    Args = PlainArgs

    def exec(self, ctx: Any, params: Any, args: Any) -> Mapping[str, Any]:
        return {}


def test_arguments_that_no_model_can_be_built_of_are_the_fault_of_their_plugin() -> None:
    ((entry,),) = registry_of(Unreadable)
    with pytest.raises(PluginBroken) as found:
        load_function(entry)
    assert "UnreadableArgs" in found.value.message or "_Opaque" in found.value.message
    assert "\n" not in found.value.message


def test_a_function_that_is_loaded_has_its_model_built() -> None:
    ((entry,),) = registry_of(Plain)
    assert load_function(entry) is Plain
    assert PlainArgs.__pydantic_complete__
