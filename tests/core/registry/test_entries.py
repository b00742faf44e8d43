from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from kanister_py import Args, Func, OnRestart, PhaseContext, VersionedFunc
from kanister_py.core.errors import FunctionNotRegistered, FunctionVersionRemoved
from kanister_py.core.registry.declared import entries_of
from kanister_py.core.registry.entries import (
    FunctionEntry,
    RegistrationRefused,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.registry.reference import version_reference
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import load_function
from kanister_py.wiring import registry_of

ACME = Source("acme", Version(1, 0, 0))


class EchoArgs(Args):
    text: str


class Echo(Func):
    """Echo its input."""

    name = "Echo"
    Args = EchoArgs
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: PhaseContext, params: Any, args: EchoArgs) -> Mapping[str, Any]:
        return {"text": args.text}


class EchoLouder(Func, parent=Echo):
    def exec(self, ctx: PhaseContext, params: Any, args: EchoArgs) -> Mapping[str, Any]:
        return {"text": args.text.upper()}


class VersionedEcho(VersionedFunc):
    """A class with its own `exec`, which is v0.0.0."""

    name = "Echo"
    Args = EchoArgs
    stable_version = "v0.1.0"
    versions: ClassVar = {"v0.1.0": EchoLouder}

    def exec(self, ctx: PhaseContext, params: Any, args: EchoArgs) -> Mapping[str, Any]:
        return {"text": args.text}


def builder_with_echo() -> RegistryBuilder[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    entries = entries_of(Echo, ACME)
    builder.add(entries, default_of(entries))
    return builder


def test_function_without_versions_is_v0_0_0() -> None:
    family = registry_of(Echo).family("Echo")
    assert [str(entry.version) for entry in family] == ["v0.0.0"]
    assert load_function(family.candidates[0]) is Echo


def test_versioned_function_is_v0_0_0_and_has_a_stable_version() -> None:
    family = registry_of(VersionedEcho).family("Echo")
    assert [str(entry.version) for entry in family] == ["v0.1.0", "v0.0.0"]
    assert family.default is not None
    assert family.default.version == parse_version("v0.1.0")
    assert load_function(family.by_identity[Version(0, 0, 0)]) is VersionedEcho


def test_versioned_function_without_exec_has_no_v0_0_0() -> None:
    class Later(VersionedFunc):
        name = "Echo"
        stable_version = "v0.1.0"
        versions: ClassVar = {"v0.1.0": EchoLouder}

    assert [str(entry.version) for entry in entries_of(Later, ACME)] == ["v0.1.0"]


def test_new_version_inherits_name_and_arguments_of_its_parent() -> None:
    assert EchoLouder.name == "Echo"
    assert EchoLouder.Args is EchoArgs
    assert EchoLouder.on_restart is OnRestart.REPEAT


def versioned(**attributes: Any) -> Any:
    fields = {"name": "Echo", "stable_version": "v0.1.0", "versions": {"v0.1.0": EchoLouder}}
    return type("Odd", (VersionedFunc,), fields | attributes)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        pytest.param(None, "it is None", id="nothing"),
        pytest.param(type("NoName", (), {}), "it has no name", id="a class without a name"),
        pytest.param(
            type("Blank", (Func,), {"name": "two words"}), "letters, digits", id="a name of words"
        ),
        pytest.param(Echo(), "it is an instance", id="an instance"),
        pytest.param(
            type("NoExec", (), {"name": "NoExec"}), "no method `exec`", id="a class without exec"
        ),
        pytest.param(
            versioned(versions={"v0.1.0": EchoLouder, "0.1.0": EchoLouder}),
            "v0.1.0 is listed twice",
            id="a version twice, in two spellings",
        ),
        pytest.param(
            versioned(versions={"v1": EchoLouder}), "too few numbers", id="a malformed version"
        ),
        pytest.param(
            versioned(versions={1.0: EchoLouder}), "a version is text", id="a version as a number"
        ),
        pytest.param(
            versioned(versions={"v0.1.0": None}), "v0.1.0 is None", id="a version that is nothing"
        ),
        pytest.param(
            versioned(versions={"v0.1.0": type("Other", (Echo,), {"name": "Other"})}),
            "v0.1.0 is named Other",
            id="a version under another name",
        ),
        pytest.param(
            versioned(stable_version="v0.2.0"),
            "the stable version v0.2.0 is missing; found v0.1.0",
            id="a stable version that is not there",
        ),
        pytest.param(
            versioned(stable_version=None), "a version is text", id="no stable version at all"
        ),
        pytest.param(versioned(versions=["v0.1.0"]), "`versions` maps", id="a list of versions"),
        pytest.param(versioned(versions={}), "it offers no versions", id="no versions"),
        pytest.param(
            versioned(
                lifecycle={
                    "releases": [{"version": "1.0.0"}],
                    "versions": {"v0.1.0": {"since": "1.0.0", "removed": "1.0.0"}},
                }
            ),
            "Unknown key 'removed'; did you mean removedIn?",
            id="a lifecycle with an unknown key",
        ),
        pytest.param(
            versioned(
                lifecycle={
                    "releases": [{"version": "1.0.0"}],
                    "versions": {"v0.2.0": {"since": "1.0.0"}},
                }
            ),
            "lifecycle lists v0.2.0, which versions does not offer",
            id="a lifecycle of a version that nobody offers",
        ),
    ],
)
def test_invalid_registration_is_refused_with_the_reason(declared: Any, why: str) -> None:
    builder = builder_with_echo()
    before = builder.build()
    with pytest.raises(RegistrationRefused) as refused:
        builder.add(entries_of(declared, ACME))
    assert why in refused.value.why
    assert builder.build().names == before.names
    assert list(builder.build().family("Echo")) == list(before.family("Echo"))


def test_function_cannot_be_registered_twice() -> None:
    builder = builder_with_echo()
    with pytest.raises(RegistrationRefused, match="registered already"):
        builder.add(entries_of(VersionedEcho, ACME))
    assert [str(entry.version) for entry in builder.build().family("Echo")] == ["v0.0.0"]


def test_versions_of_two_functions_cannot_be_registered_together() -> None:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    other = type("Other", (Echo,), {"name": "Other"})
    with pytest.raises(RegistrationRefused, match="is named Other"):
        builder.add([*entries_of(Echo, ACME), *entries_of(other, ACME)])
    assert builder.build().names == ()


def test_registry_does_not_change_with_its_builder() -> None:
    builder = builder_with_echo()
    built = builder.build()
    builder.add(entries_of(type("Other", (Echo,), {"name": "Other"}), ACME))
    assert built.names == ("Echo",)
    assert builder.build().names == ("Echo", "Other")


def test_unknown_function_is_reported_with_similar_names() -> None:
    with pytest.raises(FunctionNotRegistered) as refused:
        registry_of(Echo).family("echo")
    assert refused.value.near == ("Echo",)


def test_registry_is_readable_from_many_threads() -> None:
    registry: Registry[FunctionEntry] = registry_of(VersionedEcho)
    with ThreadPoolExecutor(8) as pool:
        families = list(pool.map(registry.family, ["Echo"] * 1000))
    assert {id(family) for family in families} == {id(registry.family("Echo"))}


def test_removed_version_has_no_code() -> None:
    old = versioned(
        lifecycle={
            "releases": [{"version": "1.0.0"}, {"version": "1.1.0"}, {"version": "1.2.0"}],
            "versions": {
                "v0.0.1": {
                    "since": "1.0.0",
                    "deprecatedIn": "1.0.0",
                    "removedIn": "1.2.0",
                    "replacement": "v0.1.0",
                },
                "v0.1.0": {"since": "1.0.0"},
            },
        }
    )
    entries = entries_of(old, Source("acme", Version(1, 2, 0)))
    gone = next(entry for entry in entries if entry.target is None)
    with pytest.raises(FunctionVersionRemoved) as refused:
        load_function(gone)
    assert refused.value.replacement == "v0.1.0"


def test_reference_of_a_version_describes_its_argument_model() -> None:
    entry = registry_of(Echo).family("Echo").candidates[0]
    reference = version_reference(entry, load_function(entry))
    assert reference["arguments"] == [
        {"name": "text", "type": "text", "required": True, "description": ""}
    ]
    assert reference["description"] == "Echo its input."
    assert reference["status"] == "stable"
