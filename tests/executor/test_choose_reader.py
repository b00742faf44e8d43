"""Choice of the version with which a restore reads the artifacts of another version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py import Args, Func, PhaseContext
from kanister_py.core.blueprints.model import Blueprint, parse_blueprint
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.registry.entries import FunctionEntry, Registry, RegistryBuilder, Source
from kanister_py.core.versions.deprecation import Listing, Read
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.choose_reader import choose_reader
from kanister_py.wiring import registry_of


class ActArgs(Args):
    say: str = ""


class Act(Func):
    """Reads an artifact through its arguments."""

    name = "Act"
    Args = ActArgs

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        return {}


RELEASED = Source("tests", parse_version("1.4.0"))


def entry(version: str, *reads: str, removed_in: str = "", stable: bool = False) -> FunctionEntry:
    (candidate,) = registry_of(Act).family("Act").candidates
    until = parse_version(removed_in) if removed_in else None
    since: Version | None = parse_version("1.2.0") if until else None
    listing = Listing(
        deprecated_in=since,
        removed_in=until,
        reads=tuple(Read("Write", parse_version(written)) for written in reads),
    )
    number = parse_version(version)
    return candidate._replace(source=RELEASED, version=number, listing=listing, is_stable=stable)


def registry(*entries: FunctionEntry) -> Registry[FunctionEntry]:
    builder = RegistryBuilder[FunctionEntry]()
    builder.add([*entries], next(version for version in entries if version.is_stable))
    return builder.build()


def blueprint(**phase: Any) -> Blueprint:
    args = {"say": "{{ .ArtifactsIn.dump.KeyValue.path }}"}
    obj = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b"},
        "actions": {
            "restore": {"phases": [{"func": "Act", "name": "p", "args": args, **phase}]},
        },
    }
    return parse_blueprint(LocatedObject(Document.of(obj), (), "Blueprint", obj)).blueprint


READERS = registry(
    entry("v1.0.0", "v1.0.0", stable=True),
    entry("v0.2.0", "v0.2.0", "v0.1.0", removed_in="1.6.0"),
    entry("v0.1.0", "v0.1.0", "v0.0.1", removed_in="1.4.0"),
)


@pytest.mark.parametrize(
    ("written", "preferred", "want"),
    [
        pytest.param("v1.0.0", "", "", id="the stable one reads it"),
        pytest.param("v0.2.0", "", "v0.2.0", id="an older one reads it"),
        pytest.param("v0.1.0", "", "v0.2.0", id="a later one than wrote it"),
        pytest.param(
            "v1.0.0", "v0.2.0", "", id="the version preferred for the backup does not read it"
        ),
        pytest.param("v0.2.0", "v0.2.0", "v0.2.0", id="the preferred version reads it"),
        pytest.param("", "", "", id="no version wrote it"),
    ],
)
def test_a_version_that_reads_the_artifact_is_preferred(
    written: str, preferred: str, want: str
) -> None:
    reader = blueprint()
    artifacts = {"dump": {"keyValue": {"path": "p", "version": written}}}
    action = reader.actions["restore"]
    assert choose_reader(READERS, reader, action, artifacts, preferred) == want


@pytest.mark.parametrize(
    ("written", "phase", "message"),
    [
        ("v0.2.0", {"funcVersion": "v1.0.0"}, "v0.2.0 reads it: set funcVersion to it"),
        ("v0.0.1", {}, "was removed in release 1.4.0: use an earlier one"),
    ],
    ids=["the blueprint asks for one that does not", "all that did were removed"],
)
def test_an_artifact_that_no_version_reads_is_an_error(
    written: str, phase: dict[str, str], message: str
) -> None:
    reader = blueprint(**phase)
    artifacts = {"dump": {"keyValue": {"path": "p", "version": written}}}
    with pytest.raises(UsageError) as refused:
        choose_reader(READERS, reader, reader.actions["restore"], artifacts)
    assert message in refused.value.message
