"""Readers: the version with which a restore reads what another version wrote."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.blueprints.model import Blueprint, parse_blueprint
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.registry.entries import FunctionEntry, Registry, RegistryBuilder, Source
from kanister_py.core.versions.deprecation import Listing, Read
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.choose_reader import choose_reader
from kanister_py.wiring import registry_of
from tests.executor.test_preflight import Act

RELEASED = Source("tests", parse_version("1.4.0"))


def entry(version: str, *reads: str, removed_in: str = "", stable: bool = False) -> FunctionEntry:
    (made,) = registry_of(Act).family("Act").candidates
    until = parse_version(removed_in) if removed_in else None
    since: Version | None = parse_version("1.2.0") if until else None
    listing = Listing(
        deprecated_in=since,
        removed_in=until,
        reads=tuple(Read("Write", parse_version(each)) for each in reads),
    )
    number = parse_version(version)
    return made._replace(source=RELEASED, version=number, listing=listing, is_stable=stable)


def registry(*entries: FunctionEntry) -> Registry[FunctionEntry]:
    builder = RegistryBuilder[FunctionEntry]()
    builder.add([*entries], next(each for each in entries if each.is_stable))
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
        pytest.param("v1.0.0", "v0.2.0", "", id="what was preferred for the backup does not"),
        pytest.param("v0.2.0", "v0.2.0", "v0.2.0", id="what was preferred does"),
        pytest.param("", "", "", id="no version wrote it"),
    ],
)
def test_the_version_that_reads_it_is_preferred(written: str, preferred: str, want: str) -> None:
    made = blueprint()
    artifacts = {"dump": {"keyValue": {"path": "p", "version": written}}}
    action = made.actions["restore"]
    assert choose_reader(READERS, made, action, artifacts, preferred) == want


@pytest.mark.parametrize(
    ("written", "phase", "message"),
    [
        ("v0.2.0", {"funcVersion": "v1.0.0"}, "v0.2.0 does: set funcVersion to it"),
        ("v0.0.1", {}, "was removed in release 1.4.0: use an earlier one"),
    ],
    ids=["the blueprint asks for one that does not", "all that did were removed"],
)
def test_where_none_reads_it_that_is_said(
    written: str, phase: dict[str, str], message: str
) -> None:
    made = blueprint(**phase)
    artifacts = {"dump": {"keyValue": {"path": "p", "version": written}}}
    with pytest.raises(UsageError) as refused:
        choose_reader(READERS, made, made.actions["restore"], artifacts)
    assert message in refused.value.message
