"""Loading of composition functions that are classes, with and without versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.core.compositions.endpoints import python_endpoint
from kanister_py.core.compositions.messages import FunctionRequest
from kanister_py.core.errors import UsageError
from kanister_py.executor.python_functions import load_python_function
from kanister_py.wiring import registry_of

SOURCE = """\
from kanister_py import CompositionFunction, VersionedCompositionFunction


class Old(CompositionFunction):
    name = "function-bucket"

    def run(self, request):
        return {"context": {"version": "old"}}


class New(Old):
    def run(self, request):
        return {"context": {"version": "new"}}


class Bucket(VersionedCompositionFunction):
    name = "function-bucket"
    stable_version = "v0.2.0"
    versions = {"v0.1.0": Old, "v0.2.0": "versions_of_test:New", "v0.3.0": "versions_of_test:Gone"}
    lifecycle = {
        "releases": [{"version": "1.0.0"}],
        "versions": {"v0.1.0": {"since": "1.0.0"}, "v0.2.0": {"since": "1.0.0"}},
    }


class UnknownStable(Bucket):
    stable_version = "v9.0.0"


class Plain:
    @staticmethod
    def run(request):
        return {"context": {"version": "plain"}}


class Abstract(CompositionFunction):
    name = "function-abstract"


class NeedsArguments(Old):
    def __init__(self, region):
        self.region = region


class TakesNothing(Old):
    def run(self):
        return {}


class ForBlueprints:
    name = "Bucket"

    def exec(self, ctx, params, args):
        return {}


def function(request):
    return {}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "versions_of_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("target", "version"),
    [
        pytest.param("Bucket", "new", id="the stable version"),
        pytest.param("Bucket@v0.1.0", "old", id="an exact version"),
        pytest.param("Bucket@~0.1", "old", id="a range"),
        pytest.param("Old", "old", id="a class without versions"),
        pytest.param("Old@v0.0.0", "old", id="the version of a class without versions"),
        pytest.param("Plain", "plain", id="a static method"),
    ],
)
def test_class_is_loaded_in_the_named_version(target: str, version: str) -> None:
    endpoint = python_endpoint(f"versions_of_test:{target}")
    function = load_python_function(endpoint, registry_of())
    response = function.begin(FunctionRequest.from_data({})).as_data()  # type: ignore[union-attr]
    assert response["context"] == {"version": version}


@pytest.mark.parametrize(
    ("target", "reason", "message"),
    [
        ("Bucket@v7.0.0", "FunctionVersionNotFound", "v7.0.0"),
        ("Bucket@v0.3.0", "PluginBroken", "Gone cannot be loaded"),
        ("Old@v0.1.0", "FunctionVersionNotFound", "v0.1.0"),
        ("UnknownStable", "PluginBroken", "the stable version v9.0.0 is missing"),
        ("Abstract", "PluginBroken", "lacks the methods run"),
        ("NeedsArguments", "PluginBroken", "cannot be created without arguments"),
        ("TakesNothing", "PluginBroken", "does not take exactly one request"),
        ("ForBlueprints", "PluginBroken", "`exec` is for functions of blueprints"),
        ("function", "PluginBroken", "name a class with a method `run`"),
        ("Nothing", "PluginBroken", "Nothing"),
    ],
)
def test_class_that_cannot_be_called_is_refused_when_it_is_loaded(
    target: str, reason: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_python_function(python_endpoint(f"versions_of_test:{target}"), registry_of())
    assert caught.value.reason == reason
    assert message in caught.value.message
