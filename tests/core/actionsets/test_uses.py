"""Function versions that a cluster uses, counted."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.actionsets.uses import (
    Count,
    Tally,
    runs_of,
    uses_of,
    versions_in_composition,
)
from kanister_py.wiring import read_functions

REGISTRY = read_functions().registry


def blueprint(name: str = "b", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    phases = [{"name": "one", "func": "KubeTask"}, {"name": "two", "func": "KubeOps", **more}]
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    deferred = {"name": "last", "func": "KubeTask"}
    return {"metadata": metadata, "actions": {"act": {"phases": phases, "deferPhase": deferred}}}


def actionset(state: str, start: str, version: str = "v0.0.0") -> dict[str, Any]:
    phases = [{"name": "one", "funcVersion": version, "startTime": start}, {"name": "two"}]
    action = {"name": "act", "blueprint": "b", "phases": phases, "deferPhase": {"name": ""}}
    return {"metadata": {"namespace": "shop"}, "status": {"state": state, "actions": [action]}}


def test_every_phase_is_a_use_of_its_version() -> None:
    uses = list(uses_of(blueprint(funcVersion="v0.1.0"), REGISTRY))
    assert [(entry.phase, entry.function, entry.version) for entry in uses] == [
        ("one", "KubeTask", str(REGISTRY.family("KubeTask").default.version)),  # type: ignore[union-attr]  # it has one
        ("two", "KubeOps", "v0.1.0"),
        ("last", "KubeTask", str(REGISTRY.family("KubeTask").default.version)),  # type: ignore[union-attr]  # it has one
    ]
    assert {entry.since for entry in uses} == {"2026-01-01T00:00:00Z"}


def test_unknown_version_is_listed_as_requested() -> None:
    (_, unknown, _) = uses_of(blueprint(func="Nobody", funcVersion=">9"), REGISTRY)
    assert (unknown.function, unknown.version) == ("Nobody", ">9")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"actions": []},
        {"actions": {"a": None, "b": {"phases": "x"}, "c": {"phases": [None, {}]}}},
    ],
)
def test_malformed_blueprint_has_no_uses(value: dict[str, Any]) -> None:
    assert list(uses_of(value, REGISTRY)) == []


def test_blueprints_running_actionsets_and_last_runs_are_counted() -> None:
    tally = Tally()
    uses = list(uses_of(blueprint(), REGISTRY))
    tally.add_blueprint(uses)
    tally.add_blueprint(uses_of(blueprint("other", "billing"), REGISTRY))
    for state, start in (
        ("complete", "2026-01-02"),
        ("running", "2026-01-04"),
        ("failed", "2026-01-03"),
    ):
        tally.add_actionset(runs_of(actionset(state, start)))
    tally.add_actionset(runs_of({"metadata": {}, "status": None}))
    version = uses[0].version
    counts = tally.counts()
    assert counts["KubeTask", version] == Count(2, 1, "2026-01-04")
    assert counts["KubeOps", uses[1].version] == Count(2, 0, "")
    assert [tally.last_run(use) for use in uses] == ["2026-01-04", "", ""]


def test_run_of_another_version_is_not_the_last_run() -> None:
    tally = Tally()
    uses = list(uses_of(blueprint(), REGISTRY))
    tally.add_blueprint(uses)
    tally.add_actionset(runs_of(actionset("complete", "2026-01-02", "v0.9.0")))
    assert tally.last_run(uses[0]) == ""
    assert tally.counts()["KubeTask", "v0.9.0"] == Count(0, 0, "2026-01-02")


def test_last_run_is_found_among_times_of_different_precision() -> None:
    tally = Tally()
    uses = list(uses_of(blueprint(), REGISTRY))
    tally.add_blueprint(uses)
    for start in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z"):
        tally.add_actionset(runs_of(actionset("complete", start)))
    assert tally.last_run(uses[0]) == "2026-01-02T03:04:05.5Z"
    assert tally.counts()["KubeTask", uses[0].version].last_run == "2026-01-02T03:04:05.5Z"


def test_composition_steps_are_counted_with_their_versions() -> None:
    def composition(**reference: str) -> dict[str, Any]:
        step = {"step": "one", "functionRef": {"name": "templates", **reference}}
        return {
            "kind": "Composition",
            "metadata": {"name": "c"},
            "spec": {"pipeline": [step, step]},
        }

    def function(repository: str, tag: str) -> dict[str, Any]:
        package = f"xpkg.example.org/{repository}/function-jinja-templating{tag}"
        return {"kind": "Function", "metadata": {"name": "templates"}, "spec": {"package": package}}

    registry = REGISTRY
    tally = Tally()
    for functions, installed in (
        (composition(), function("kanister-py", "")),
        (composition(), function("kanister-py", ":v0.1.0")),
        (composition(version="v0.1.0"), function("kanister-py", "")),
        (composition(version="v9.9.9"), function("painters", ":v9.9.9")),
    ):
        tally.add_composition(versions_in_composition(functions, [installed], registry))
    counts = {key: value.compositions for key, value in tally.counts().items()}
    assert counts == {
        ("function-jinja-templating", "v0.2.0"): 1,
        ("function-jinja-templating", "v0.1.0"): 2,
    }
