"""Second run of the pipeline in one reconcile, over the resources that were just applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.function_runner import (
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionRunner,
)
from tests.controller.compositions.harness import (
    REVISIONS,
    Harness,
    bucket,
    composition,
    definition,
)

PIPELINE: list[dict[str, Any]] = [
    {
        "step": "make",
        "functionRef": {"name": "function-patch-and-transform"},
        "input": {
            "apiVersion": "pt.fn.crossplane.io/v1beta1",
            "kind": "Resources",
            "resources": [
                {
                    "name": "map",
                    "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "red"}},
                    "patches": [
                        {
                            "type": "ToCompositeFieldPath",
                            "fromFieldPath": "metadata.name",
                            "toFieldPath": "status.address",
                        }
                    ],
                }
            ],
        },
    },
    {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
]


def prepare_composition(harness: Harness) -> None:
    """Wait until the composition is usable, and reset the counters."""
    obj = composition()
    obj["spec"]["pipeline"] = PIPELINE
    harness.apply(obj)
    harness.until(lambda: len(harness.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    harness.apply(bucket("first"))
    harness.until(lambda: harness.is_ready("first"))
    harness.until_idle()
    harness.writes.clear()
    harness.events.clear()


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(REVISIONS)
    running.start()
    running.define(definition())
    yield running
    running.close()


def test_a_resource_that_is_ready_immediately_takes_three_writes(harness: Harness) -> None:
    prepare_composition(harness)
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    # The references, the object and a status that is ready.
    assert sorted(harness.writes) == ["apply", "apply", "patch"]
    assert [event for event in harness.events if "not yet ready" in event] == []
    (obj,) = harness.composed().values()
    assert harness.bucket()["status"]["address"] == obj["metadata"]["name"]


class RecordingRunner:
    """A runner that records the steps it runs, and can refuse one of them."""

    def __init__(self, runner: FunctionRunner, refuses: Callable[[FunctionCall], bool]) -> None:
        self._runner = runner
        self._refuses = refuses
        self.calls: list[str] = []
        self.refused = 0

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls.append(call.step)
        if not self.refused and self._refuses(call):
            self.refused += 1
            raise FunctionAnswerTooLarge(call.step, call.revision.function, "", "too large")
        return self._runner.run(call)

    def close(self) -> None:
        self._runner.close()


class RecordingHarness(Harness):
    """A harness that records the calls of its functions."""

    runner: RecordingRunner

    def __init__(self, refuses: Callable[[FunctionCall], bool] = lambda _call: False) -> None:
        super().__init__(REVISIONS, calling=lambda runner: RecordingRunner(runner, refuses))
        self.start()
        self.define(definition())


@pytest.fixture
def make() -> Iterator[Callable[..., RecordingHarness]]:
    harnesses: list[RecordingHarness] = []

    def started(*refuses: Callable[[FunctionCall], bool]) -> RecordingHarness:
        harnesses.append(RecordingHarness(*refuses))
        prepare_composition(harnesses[0])
        return harnesses[0]

    yield started
    harnesses[0].close()


def test_an_unchanged_second_run_causes_no_further_reconcile(
    make: Callable[..., RecordingHarness],
) -> None:
    harness = make()
    harness.runner.calls.clear()
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    assert harness.runner.calls == ["make", "ready"] * 2


def test_a_failed_second_run_is_reported_by_the_next_reconcile(
    make: Callable[..., RecordingHarness],
) -> None:
    harness = make(_looks_at_mine_again)
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    assert harness.runner.refused == 1
    assert [event for event in harness.events if "too large" in event] == []
    assert harness.condition("Synced")["status"] == "True"


def _looks_at_mine_again(call: FunctionCall) -> bool:
    observed = call.request.observed.data
    name = observed["composite"]["resource"]["metadata"]["name"]
    return name == "mine" and bool(observed.get("resources"))
