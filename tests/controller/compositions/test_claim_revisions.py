"""Revisions of a claim and its composite resource when either of them is changed.

"Only when the XR or XRC author explicitly specifies `compositionUpdatePolicy: Manual` will
the behaviour diverge." In all cases, writes to both objects end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from tests.controller.compositions.claim_rollouts import (
    REST_SECONDS,
    ROWS,
    Rollout,
    Step,
    play,
)
from tests.controller.compositions.databases import (
    definition,
)
from tests.controller.compositions.harness import Harness


class RolloutInMemory(Rollout):
    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.cluster)
        self._world = harness

    def until(self, is_so: Callable[[], bool]) -> None:
        self._world.until(is_so)

    def rest(self) -> None:
        harness = self._world
        harness.until_idle()
        harness.writes.clear()
        threading.Event().wait(REST_SECONDS)
        assert harness.writes == []


@pytest.fixture
def rollout() -> Iterator[Rollout]:
    harness = Harness(CompositionSettings("kanister-py", uses_revisions=True))
    harness.start()
    harness.define(definition())
    stored = RolloutInMemory(harness)
    stored.begin()
    yield stored
    harness.close()


@pytest.mark.parametrize(("steps", "then"), ROWS)
def test_both_objects_converge_on_the_revision_that_their_authors_select(
    rollout: Rollout, steps: list[Step], then: str
) -> None:
    play(rollout, steps, then)
