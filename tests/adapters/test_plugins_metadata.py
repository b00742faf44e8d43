"""Plugins in the metadata of installed packages."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, EntryPoint
from typing import TYPE_CHECKING

import pytest

from kanister_py.adapters.plugins_metadata import load_plugin
from kanister_py.core.versions.semver import parse_version
from kanister_py.executor.loading import PluginBroken

if TYPE_CHECKING:
    from pytest_mock import MockerFixture


class Greet:
    name = "Greet"


def entry_point(mocker: MockerFixture, loaded: object, version: str = "") -> EntryPoint:
    point = mocker.create_autospec(EntryPoint, instance=True)
    point.name, point.value, point.module = "greet", "acme.functions:Greet", "acme.functions"
    point.load.side_effect = loaded if isinstance(loaded, BaseException) else None
    point.load.return_value = loaded
    point.dist = None
    if version:
        point.dist = mocker.create_autospec(Distribution, instance=True)
        point.dist.name, point.dist.version = "acme-functions", version
    entry: EntryPoint = point
    return entry


@pytest.mark.parametrize(
    ("version", "source", "release"),
    [
        pytest.param("1.2.0rc1", "acme-functions", "v1.2.0-rc1", id="an installed package"),
        pytest.param("", "acme", "v0.0.0", id="no package, so the module's own name"),
    ],
)
def test_versions_of_a_plugin_count_in_releases_of_its_package(
    mocker: MockerFixture, version: str, source: str, release: str
) -> None:
    loaded, declared = load_plugin(entry_point(mocker, Greet, version))
    assert (loaded.name, loaded.release) == (source, parse_version(release))
    assert declared == [Greet]
    assert not loaded.is_ours


def test_entry_point_with_several_functions(mocker: MockerFixture) -> None:
    assert load_plugin(entry_point(mocker, [Greet, Greet]))[1] == [Greet, Greet]


@pytest.mark.parametrize("error", [SystemExit(3), ImportError("no acme")], ids=["exit", "import"])
def test_failing_import_is_a_broken_plugin(mocker: MockerFixture, error: BaseException) -> None:
    with pytest.raises(PluginBroken, match=r"greet \(acme.functions:Greet\) is broken"):
        load_plugin(entry_point(mocker, error))
    assert sys.stdout is sys.__stdout__ or sys.stdout.writable(), "standard output is back"
