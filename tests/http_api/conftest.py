"""Endpoints with the sample plugin, with many functions, and with none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field
from starlette.applications import Starlette

from kanister_py import Args, Func, OnRestart, Outputs, VersionedFunc
from kanister_py.core.registry.declared import entries_of
from kanister_py.core.registry.entries import (
    FunctionEntry,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.semver import parse_version
from kanister_py.functions.builtin import read_versions_file
from kanister_py.http_api.app import build_app
from kanister_py.http_api.discovery import Publication

RELEASE = "0.1.0"


def registered(*functions: Any, source: str, release: str) -> Registry[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for function in functions:
        entries = entries_of(function, Source(source, parse_version(release)))
        builder.add(entries, default_of(entries))
    return builder.build()


def published(registry: Registry[FunctionEntry], left_out: tuple[str, ...] = ()) -> Publication:
    text = read_versions_file()
    schema = files("kanister_py").joinpath("versions.schema.json").read_text(encoding="utf-8")
    return Publication(registry, parse_version(RELEASE), text, schema, left_out)


class UndatedV000(Func):
    """Count rows in `table`.

    Slowly, and with <b>no</b> promise & no hurry.
    """

    name = "CountRows"
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: Any, params: Any, args: Any) -> dict[str, Any]:
        return {}


class UndatedV010(UndatedV000):
    """Count rows."""


class CountRows(VersionedFunc):
    """Count rows; the releases have no dates."""

    name = "CountRows"
    stable_version = "v0.1.0"
    versions: ClassVar = {"v0.0.0": UndatedV000, "v0.1.0": UndatedV010, "v1.0.0": UndatedV010}
    lifecycle: ClassVar = {
        "releases": [{"version": f"1.{minor}.0"} for minor in range(6)],
        "versions": {
            "v0.0.0": {"since": "1.0.0", "deprecatedIn": "1.1.0", "removedIn": "1.5.0"},
            "v0.1.0": {"since": "1.1.0"},
            "v1.0.0": {"since": "1.4.0", "message": "it asks the table itself"},
        },
    }


@pytest.fixture(scope="session")
def sample_publication(repository: Path) -> Iterator[Publication]:
    """The sample plugin, and a function whose releases have no dates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "tests" / "plugin_sample"))
        acme = import_module("acme_functions")
        yield published(
            registered(acme.Greet, acme.Notify, CountRows, source="acme-functions", release="1.2.0")
        )


@pytest.fixture(scope="session")
def sample_app(sample_publication: Publication) -> Starlette:
    return build_app(sample_publication)


class ManyArgs(Args):
    namespace: str = Field(description="Where it happens")
    image: str = Field(description="The image that the pod runs")
    command: list[str] = Field(description="The command and its arguments")
    pod_override: dict[str, Any] = Field(
        default_factory=dict, description="What is merged into the pod that is made"
    )
    timeout_seconds: int = Field(default=600, description="How long it may take")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the pod")
    is_verbose: bool = Field(default=False, description="Whether it tells what it does")


class ManyOutputs(Outputs):
    version: str = Field(description="The version that did it")


_VERBS = ("Backup", "Restore", "Copy", "Delete", "Scale", "Check", "Export", "Wait", "Create")
_NOUNS = ("Data", "Volume", "Snapshot", "Workload", "Secret", "Table", "Bucket")


def many_functions(count: int, versions: int) -> list[type[VersionedFunc]]:
    """Functions with many versions, which have all statuses."""
    functions = []
    for number in range(count):
        verb, noun = _VERBS[number % len(_VERBS)], _NOUNS[number % len(_NOUNS)]
        suffix = "" if number < len(_VERBS) * len(_NOUNS) else str(number)
        functions.append(_one_of_many(f"{verb}{noun}{suffix}", versions))
    return functions


def _one_of_many(name: str, versions: int) -> type[VersionedFunc]:
    def exec_(self: Any, ctx: Any, params: Any, args: Any) -> dict[str, Any]:
        return {}

    plain = type(
        f"{name}Plain",
        (Func,),
        {
            "__doc__": f"{name}: do it in a pod of its own, and wait until it is done.\n\n"
            "The pod is removed afterwards, whatever happened. Its `log` becomes the output.",
            "name": name,
            "Args": ManyArgs,
            "Outputs": ManyOutputs,
            "on_restart": OnRestart.ADOPT,
            "exec": exec_,
        },
    )
    last = versions - 1
    records: dict[str, dict[str, Any]] = {}
    for minor in range(versions):
        record: dict[str, Any] = {"since": f"1.{minor}.0"}
        if minor < last - 1:
            record["deprecatedIn"] = f"1.{minor + 2}.0"
            record["removedIn"] = f"1.{minor + 5}.0"
            record["replacement"] = f"v0.{last - 1}.0"
        records[f"v0.{minor}.0"] = record
    return type(
        name,
        (VersionedFunc,),
        {
            "__doc__": f"{name} in several versions.",
            "name": name,
            "stable_version": f"v0.{last - 1}.0",
            "versions": dict.fromkeys(records, plain),
            "lifecycle": {
                "releases": [
                    {
                        "version": f"1.{minor}.0",
                        "date": f"{2024 + minor // 4}-{minor % 4 * 3 + 1:02}-15",
                    }
                    for minor in range(versions + 4)
                ],
                "versions": records,
            },
        },
    )


@pytest.fixture(scope="session")
def many_app() -> Starlette:
    """Endpoint of sixty functions with ten versions each."""
    registry = registered(*many_functions(60, 10), source="acme-functions", release="1.9.0")
    return build_app(published(registry, left_out=("broken (acme_broken:Broken)",)))


@pytest.fixture(scope="session")
def empty_app() -> Starlette:
    return build_app(published(registered(source="nobody", release="1.0.0")))
