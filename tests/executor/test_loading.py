"""Loading of the class of an entry, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kanister_py.executor.loading import PluginBroken, load_function, load_functions
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


RENAMED = """\
from kanister_py import Func, VersionedFunc


class Renaming(VersionedFunc):
    name = "Renaming"
    stable_version = "v0.2.0"
    versions = {"v0.1.0": "renaming_of_test:RenamingOld", "v0.2.0": "renaming_of_test:RenamingNew"}
    lifecycle = {
        "releases": [{"version": "0.0.0"}],
        "versions": {
            "v0.1.0": {"since": "0.0.0", "replacement": "v0.2.0", "renamedArgs": {"a": "b"}},
            "v0.2.0": {"since": "0.0.0"},
        },
    }


class RenamingOld(Func):
    name = "Renaming"

    def exec(self, ctx, params, args):
        return None


class RenamingNew(RenamingOld):
    pass


class Abstract(Func):
    name = "Abstract"


class LazyAbstract(VersionedFunc):
    name = "Abstract"
    stable_version = "v0.1.0"
    versions = {"v0.1.0": "renaming_of_test:Abstract"}
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Renaming", "local is broken: Renaming: renamedArgs of v0.1.0: v0.1.0 has no argument"),
        ("LazyAbstract", "the class Abstract lacks the methods exec"),
    ],
)
def test_classes_that_are_loaded_on_demand_are_checked_when_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    (tmp_path / "renaming_of_test.py").write_text(RENAMED)
    monkeypatch.syspath_prepend(tmp_path)
    registry, broken = load_functions(
        registry_of(getattr(import_module("renaming_of_test"), name), Plain)
    )
    assert registry.names == ("Plain",)
    assert message in broken[0].message


def test_loading_a_function_builds_its_model() -> None:
    ((entry,),) = registry_of(Plain)
    assert load_function(entry) is Plain
    assert PlainArgs.__pydantic_complete__
