"""Loading of the class of an entry, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py.executor.loading import PluginBroken, load_function
from kanister_py.ports.function import Func
from kanister_py.ports.models import Args
from kanister_py.wiring import registry_of


class _Opaque:
    """A type that pydantic has no schema for."""


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


def test_invalid_argument_models_are_errors_of_the_plugin() -> None:
    ((entry,),) = registry_of(Unreadable)
    with pytest.raises(PluginBroken) as caught:
        load_function(entry)
    assert "UnreadableArgs" in caught.value.message or "_Opaque" in caught.value.message
    assert "\n" not in caught.value.message


def test_loading_a_function_builds_its_model() -> None:
    ((entry,),) = registry_of(Plain)
    assert load_function(entry) is Plain
    assert PlainArgs.__pydantic_complete__
