"""ActionSets end here as they end in Kanister, but for what is told better."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kanister_py.core.actionsets.transitions import refused_status
from kanister_py.core.errors import ActionNotFound
from kanister_py.core.objects.documents import parse_document, parse_documents
from kanister_py.executor.run_handle import Run
from kanister_py.wiring import RunSettings, run_actionset

RECORDED = Path(os.environ["KANISTER_PY_RECORDED"]) / "actionsets"
CASES = sorted(each.name for each in RECORDED.iterdir() if each.is_dir())

# Kanister's words are names of its own source files, or say less than ours do:
# what ours must say instead.
SENSE = {
    "preferred-bad": "latest",
    "unknown-function": "Nope",
    # Read as Jinja2, since Go cannot read it.
    "template-bad-syntax": "if",
}

# A version without its `v` is the same version here.
OURS_COMPLETES = ("preferred-no-v",)


def read(path: Path) -> Any:
    return parse_document(path.read_bytes(), str(path)).value


def started(case: Path) -> Run:
    objects = [each.value for each in parse_documents((RECORDED / "objects.yaml").read_bytes())]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kanister"}}
    settings = RunSettings(objects=[namespace, *objects], pods="processes", namespace="kanister")
    return run_actionset(read(case / "actionset.yaml"), [read(case / "blueprint.yaml")], settings)


def ended(case: Path) -> Mapping[str, Any]:
    from datetime import UTC, datetime

    try:
        return started(case).wait(60).status
    except ActionNotFound as error:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        return refused_status(error.message, error.reason, moment).as_dict()


def outcome_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a user compares: states, outputs, artifacts and percentages."""
    is_complete = status["state"] == "complete"
    return {
        "state": status["state"],
        "percent": status["progress"].get("percentCompleted"),
        "actions": [
            {
                "name": action["name"],
                "blueprint": action["blueprint"],
                "object": action["object"],
                # Of an action that failed they are templates, which nobody can use.
                "artifacts": action.get("artifacts") if is_complete else None,
                "phases": list(map(_phase, action.get("phases", ()))),
                "deferPhase": _phase(action["deferPhase"]),
            }
            for action in status.get("actions", ())
        ],
    }


def _phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": phase["name"],
        "state": phase["state"],
        "output": phase.get("output"),
        "percent": phase["progress"].get("progressPercent") if phase["state"] else None,
    }


def without_deferred_percent(outcome: dict[str, Any]) -> dict[str, Any]:
    """Forget what only we tell: how far a deferred phase is."""
    for action in outcome["actions"]:
        del action["deferPhase"]["percent"]
    return outcome


@pytest.mark.parametrize("name", CASES)
def test_an_actionset_ends_as_it_does_in_kanister(name: str) -> None:
    # Written by a plain YAML writer, to whom `n` and `y` are words.
    want = yaml.safe_load((RECORDED / name / "want.yaml").read_bytes())["status"]
    found = ended(RECORDED / name)
    if name in OURS_COMPLETES:
        assert (found["state"], want["state"]) == ("complete", "failed")
        return
    assert without_deferred_percent(outcome_of(found)) == without_deferred_percent(
        outcome_of(want)
    ), found["error"]
    message = found["error"]["message"]
    assert bool(message) == bool(want["error"]["message"])
    for each in sense_of(name, want["error"]["message"]):
        assert each in message
    assert "runningPhase" not in found["progress"]


def sense_of(name: str, message: str) -> Iterator[str]:
    """Say which words of Kanister's message must be in ours."""
    if name in SENSE:
        yield SENSE[name]
        return
    for quoted in ("not found", "nil pointer", "missing value for if", "argument"):
        if quoted in message:
            yield quoted
