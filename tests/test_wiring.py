from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kanister_py.adapters.plugins_metadata import ENTRY_POINT_GROUP, release_of_text
from kanister_py.core.errors import FunctionNotRegistered
from kanister_py.core.registry.declared import CatalogueMismatch
from kanister_py.core.registry.reference import status_of
from kanister_py.core.versions.catalogue import Catalogue, parse_catalogue
from kanister_py.core.versions.semver import parse_version
from kanister_py.executor.loading import PluginBroken, load_function
from kanister_py.functions.builtin import installed_release
from kanister_py.wiring import (
    build_functions,
    check_everything,
    read_functions,
    register,
)

RECORD = """\
apiVersion: kanister-py.io/v1alpha1
kind: FunctionVersions
releases: [{version: 0.1.0}, {version: 0.2.0}, {version: 0.3.0}]
functions:
  Greet:
    kind: Blueprint
    versions:
      v0.0.0: {since: 0.1.0, annotations: {kanister-py.io/stable: "true"}}
"""

EMPTY = """\
apiVersion: kanister-py.io/v1alpha1
kind: FunctionVersions
releases: [{version: 0.1.0}]
functions: {}
"""


def record(text: str = RECORD) -> Catalogue:
    return parse_catalogue(text, "versions.yaml", installed_release())


def plugin(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINT_GROUP)


@pytest.mark.usefixtures("with_plugin")
def test_an_installed_plugin_brings_its_functions_with_their_whole_life() -> None:
    functions = read_functions()
    assert functions.broken == ()
    states = {str(entry.version): status_of(entry) for entry in functions.registry.family("Notify")}
    assert states == {
        "v0.3.0-rc.1": "served",
        "v0.2.0": "stable",
        "v0.1.0": "deprecated",
        "v0.0.1": "removed",
    }
    assert [str(entry.version) for entry in functions.registry.family("Greet")] == ["v0.0.0"]
    check_everything(functions)


@pytest.mark.usefixtures("with_plugin")
def test_deprecations_of_a_plugin_count_in_its_own_releases() -> None:
    entry = read_functions().registry.family("Notify").candidates[0]
    assert (entry.source.name, entry.source.release) == ("acme-functions", parse_version("1.2.0"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param("no_such_module:Greet", "ModuleNotFoundError", id="a module that is missing"),
        pytest.param("acme_functions:Missing", "AttributeError", id="a name that is missing"),
        pytest.param("acme_functions:GreetArgs", "has no name", id="no function at all"),
    ],
)
def test_a_broken_plugin_is_named_and_the_others_stay(
    with_plugin: Path, value: str, why: str
) -> None:
    sound = plugin("greet", "acme_functions:Greet")
    functions = build_functions(
        record(EMPTY),
        {},
        [plugin("broken", value), sound],
    )
    (broken,) = functions.broken
    assert isinstance(broken, PluginBroken)
    assert broken.plugin == f"broken ({value})"
    assert why in broken.why
    assert functions.registry.names == ("Greet",)
    with pytest.raises(FunctionNotRegistered) as caught:
        functions.registry.family("Absent")
    assert f"; plugin broken ({value}) is broken: " in caught.value.message
    assert why in caught.value.message


def test_a_plugin_cannot_take_a_name_that_is_ours(with_plugin: Path) -> None:
    functions = build_functions(
        record(),
        {"Greet": {"v0.0.0": "acme_functions:Greet"}},
        [plugin("greet", "acme_functions:Greet")],
    )
    assert "registered already" in functions.broken[0].why
    assert functions.registry.family("Greet").candidates[0].source.name == "kanister-py"


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        pytest.param({}, "Greet v0.0.0 is served, but there is no code for it", id="no code"),
        pytest.param(
            {"Greet": {"v0.0.0": "acme_functions:Greet", "v0.1.0": "acme_functions:Greet"}},
            "Greet v0.1.0 has code, but versions.yaml does not list it",
            id="code that is not listed",
        ),
    ],
)
def test_start_up_stops_where_record_and_code_disagree(
    targets: dict[str, dict[str, str]], message: str
) -> None:
    with pytest.raises(CatalogueMismatch, match=message):
        build_functions(record(), targets, [])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("acme_functions:Notify", "has the name Notify", id="another name"),
        pytest.param("acme_functions:Absent", "cannot be loaded", id="a class that is missing"),
        pytest.param("acme_functions:__doc__", "is not a class", id="no class"),
    ],
)
def test_a_version_is_held_against_the_record_when_it_is_loaded(
    with_plugin: Path, target: str, message: str
) -> None:
    functions = build_functions(record(), {"Greet": {"v0.0.0": target}}, [])
    with pytest.raises(CatalogueMismatch, match=message):
        load_function(functions.registry.family("Greet").candidates[0])
    with pytest.raises(CatalogueMismatch, match=message):
        check_everything(functions)


NOISY = """\
from kanister_py import Func, VersionedFunc

print("noise")


class Loud(Func):
    name = "Loud"

    def exec(self, ctx, params, args):
        return None


class NoModel(Func):
    name = "NoModel"
    Args = dict

    def exec(self, ctx, params, args):
        return None


class Absent(VersionedFunc):
    name = "Absent"
    stable_version = "v1.0.0"
    versions = {"v1.0.0": "noisy_plugin.nowhere:Absent"}
"""


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "noisy_plugin.py").write_text(NOISY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("noisy_plugin", None)


def test_output_of_a_plugin_at_import_is_not_part_of_the_result(
    noisy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = build_functions(record(EMPTY), {}, [plugin("loud", "noisy_plugin:Loud")])
    assert functions.registry.names == ("Loud",)
    assert capsys.readouterr() == ("", "noise\n")


def test_arguments_that_are_no_model_are_refused_when_the_plugin_is_registered(
    noisy: Path,
) -> None:
    functions = build_functions(record(EMPTY), {}, [plugin("bad", "noisy_plugin:NoModel")])
    assert "its `Args` is not a model" in functions.broken[0].why


def test_a_plugin_whose_code_is_missing_is_left_out_when_everything_is_checked(
    noisy: Path,
) -> None:
    plugins = [plugin("absent", "noisy_plugin:Absent"), plugin("loud", "noisy_plugin:Loud")]
    checked = check_everything(build_functions(record(EMPTY), {}, plugins))
    assert checked.registry.names == ("Loud",)
    assert "Absent v1.0.0: its code noisy_plugin.nowhere:Absent cannot be loaded" in str(
        checked.broken[0]
    )


def test_plugins_are_loaded_without_the_code_of_built_in_functions(noisy: Path) -> None:
    targets = {"Greet": {"v0.0.0": "noisy_plugin.nowhere:Absent"}}
    plugins = [plugin("absent", "noisy_plugin:Absent")]
    checked = check_everything(build_functions(record(), targets, plugins), plugins_only=True)
    assert checked.registry.names == ("Greet",)
    assert [error.plugin for error in checked.broken] == ["noisy_plugin"]


def test_plugin_with_code_that_cannot_be_loaded_is_not_registered(noisy: Path) -> None:
    import noisy_plugin  # type: ignore[import-not-found]  # written by the fixture

    with pytest.raises(PluginBroken, match="Absent cannot be loaded"):
        register(noisy_plugin.Absent)
    assert "Absent" not in read_functions().registry


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("1.2.0", "v1.2.0", id="SemVer"),
        pytest.param("1.2", "v1.2.0", id="two numbers"),
        pytest.param("1.2.0rc1", "v1.2.0-rc1", id="a release candidate"),
        pytest.param("1.2.0.dev3", "v1.2.0-dev3", id="a development version"),
        pytest.param("1.2.0.post1", "v1.2.0", id="a post-release"),
        pytest.param("1.2.0+local", "v1.2.0", id="a local version"),
        pytest.param("2026.1.2.3", "v2026.1.2", id="four numbers"),
    ],
)
def test_a_python_version_is_read_as_a_release(text: str, want: str) -> None:
    assert str(release_of_text(text)) == want


REGISTERING = """\
import sys
import kanister_py

class GreetOld(kanister_py.Func):
    name = "Greet"

    def exec(self, ctx, params, args):
        return {"text": "hello"}

class Greet(kanister_py.VersionedFunc):
    name = "Greet"
    stable_version = "v0.2.0"
    versions = {"v0.2.0": GreetOld}
    lifecycle = {
        "releases": [{"version": each} for each in ("1.0.0", "1.1.0", "1.2.0")],
        "versions": {
            "v0.1.0": {
                "since": "1.0.0", "deprecatedIn": "1.0.0", "removedIn": "1.2.0",
                "replacement": "v0.2.0",
            },
            "v0.2.0": {"since": "1.0.0"},
        },
    }

assert kanister_py.register(Greet, package="acme", release="1.2.0") is Greet
try:
    kanister_py.register(GreetOld)
except kanister_py.KanisterError as error:
    print(error.message)

def blueprint(**more):
    return {
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
        "actions": {"go": {"phases": [{"func": "Greet", "name": "greet", "args": {}, **more}]}},
    }

print(kanister_py.run(blueprint(), "go").wait().state)
print(kanister_py.run(blueprint(funcVersion="v0.1.0"), "go").wait().error)
"""


REMOVED = (
    "Action go could not start: go/greet funcVersion: Greet v0.1.0 was removed in release 1.2.0; "
    "set funcVersion to v0.2.0, as `kanister-py upgrade` does (FunctionVersionRemoved)"
)


def test_a_program_registers_its_functions_with_their_whole_life() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REGISTERING], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Cannot register function Greet: a function of this name is registered already",
        "complete",
        REMOVED,
    ]
