from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from kanister_py import (
    Args,
    CompositionFunction,
    Func,
    PhaseContext,
    VersionedCompositionFunction,
    VersionedFunc,
)
from kanister_py.core.registry.choose import choose_version
from kanister_py.core.registry.declared import entries_of
from kanister_py.core.registry.entries import FunctionKind, RegistrationRefused, Source
from kanister_py.core.registry.reference import version_reference
from kanister_py.core.versions.semver import Version
from kanister_py.executor.loading import load_function
from kanister_py.wiring import registry_of
from tests.raising import refused_as

ACME = Source("acme", Version(1, 0, 0))


class Tint(BaseModel):
    colour: str = Field(description="Which colour")
    inside: list[Tint] = Field(default=[], description="What is painted inside it")


class PaintInput(BaseModel):
    kind: str = Field(default="Paint", description="Paint")
    tints: list[Tint] = Field(description="What is painted")
    by_name: dict[str, Tint] | None = Field(default=None, description="The same by names")


class Paint(CompositionFunction):
    """Add a color to the desired state."""

    name = "function-paint"
    Input = PaintInput

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"desired": request["desired"]}


class PaintTwice(Paint):
    """Add the color twice."""


class VersionedPaint(VersionedCompositionFunction):
    name = "function-paint"
    stable_version = "v0.2.0"
    versions: ClassVar = {"v0.1.0": Paint, "v0.2.0": PaintTwice}


class Greet(Func):
    name = "Greet"
    Args = Args

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        return None


def test_class_with_run_is_a_composition_function() -> None:
    (entry,) = entries_of(Paint, ACME)
    assert (entry.kind, str(entry.version)) == (FunctionKind.COMPOSITION, "v0.0.0")
    assert load_function(entry) is Paint


def test_composition_functions_have_versions() -> None:
    entries = sorted(entries_of(VersionedPaint, ACME), key=lambda entry: entry.version)
    assert [(str(entry.version), entry.target, entry.is_stable) for entry in entries] == [
        ("v0.1.0", Paint, False),
        ("v0.2.0", PaintTwice, True),
    ]
    assert {entry.kind for entry in entries} == {FunctionKind.COMPOSITION}


def test_versions_of_a_function_must_have_the_same_kind() -> None:
    class Mixed(VersionedCompositionFunction):
        name = "Greet"
        stable_version = "v0.1.0"
        versions: ClassVar = {"v0.1.0": Greet}  # type: ignore[dict-item]  # the very mistake

    with pytest.raises(RegistrationRefused, match="not a function for compositions"):
        entries_of(Mixed, ACME)


class NotifyArgs(Args):
    to_address: str


class NotifyNewArgs(Args):
    recipient: str


class NotifyOld(Func):
    name = "Notify"
    Args = NotifyArgs

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        return None


class NotifyNew(Func, parent=NotifyOld):
    Args = NotifyNewArgs

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        return None


class WithoutExec:
    name = "Notify"
    Args = NotifyArgs


class AbstractNotify(Func):
    name = "Notify"
    Args = NotifyArgs


def notify(
    new: type = NotifyNew,
    releases: tuple[str, ...] = ("1.0.0", "1.1.0", "1.2.0"),
    renamed: Mapping[str, str] | None = None,
    stable: Mapping[str, str] | None = None,
) -> type[VersionedFunc]:
    old = {"since": "1.0.0", "deprecatedIn": "1.0.0", "replacement": "v0.2.0"}

    class Notify(VersionedFunc):
        name = "Notify"
        stable_version = "v0.2.0"
        versions: ClassVar = {"v0.1.0": NotifyOld, "v0.2.0": new}
        lifecycle: ClassVar = {
            "releases": [{"version": release} for release in releases],
            "versions": {
                "v0.1.0": {**old, "renamedArgs": renamed or {"toAddress": "recipient"}},
                "v0.2.0": {"since": "1.0.0", **(stable or {})},
            },
        }

    return Notify


def test_function_with_renamed_arguments_is_registered() -> None:
    entries = entries_of(notify(), ACME)
    assert sorted(str(entry.version) for entry in entries) == ["v0.1.0", "v0.2.0"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(
            notify(stable={"deprecatedIn": "1.0.0"}),
            "The stable version v0.2.0 is deprecated; make another version the stable one",
            id="deprecated stable version",
        ),
        pytest.param(
            notify(releases=("1.1.0", "1.0.0")),
            "lifecycle.releases[1].version: Release 1.0.0 is listed after 1.1.0",
            id="releases out of order",
        ),
        pytest.param(
            notify(renamed={"toAdress": "recipient"}),
            "renamedArgs of v0.1.0: v0.1.0 has no argument 'toAdress'; did you mean toAddress",
            id="renamed argument that does not exist",
        ),
        pytest.param(
            notify(renamed={"toAddress": "recipients"}),
            "renamedArgs of v0.1.0: v0.2.0 has no argument 'recipients'; did you mean recipient?",
            id="new name that does not exist",
        ),
        pytest.param(notify(WithoutExec), "v0.2.0 has no method `exec`", id="class without exec"),
        pytest.param(notify(AbstractNotify), "v0.2.0 has no method `exec`", id="abstract class"),
    ],
)
def test_invalid_versions_are_refused(function: type[VersionedFunc], message: str) -> None:
    with pytest.raises(RegistrationRefused) as caught:
        entries_of(function, ACME)
    assert message in caught.value.message


def test_blueprint_cannot_call_a_composition_function() -> None:
    with refused_as("FunctionOfAnotherKind") as caught:
        choose_version(registry_of(Paint), "function-paint", kind=FunctionKind.BLUEPRINT)
    assert caught.value.message.endswith("is for compositions, not for blueprints")


def test_step_cannot_call_a_blueprint_function() -> None:
    with refused_as("FunctionOfAnotherKind"):
        choose_version(registry_of(Greet), "Greet", kind=FunctionKind.COMPOSITION)


def test_reference_describes_nested_input_fields_once() -> None:
    (entry,) = entries_of(Paint, ACME)
    reference = version_reference(entry, Paint)
    assert [(argument["name"], argument["type"]) for argument in reference["arguments"]] == [
        ("kind", "text"),
        ("tints", "list"),
        ("tints[].colour", "text"),
        ("tints[].inside", "list as tints[]"),
        ("by_name", "map as tints[]"),
    ]
    assert (reference["outputs"], "onRestart" in reference) == ([], False)
