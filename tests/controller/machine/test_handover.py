"""Handover of compositions between Deployments: two never compose at once."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition, Event
from typing import Any

import pytest

from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.machine.handover import wait_for_composer
from kanister_py.controller.machine.lease import COMPOSING_LEASE_NAME, LEASE_NAME, LeaseTerms
from kanister_py.controller.machine.part import Part, PartTools
from kanister_py.core.actionsets.partitions import ACTS_ON
from kanister_py.core.kube.resources import LEASES
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Environment,
    actionset,
    blueprint,
    phase,
    registry,
)
from tests.fake_clock import FakeClock

# Frequent attempts, and terms that are long enough for a busy machine.
QUICK = LeaseTerms(term_seconds=60, acts_for_seconds=50, renews_every_seconds=0.05)


class Composes:
    """A part that records when it is started."""

    def __init__(self) -> None:
        self.began = Event()

    def __call__(self, _tools: PartTools) -> Part:
        return self

    is_settled = True
    trouble = ""

    def start(self) -> None:
        self.began.set()

    def close(self) -> None:
        pass


def composing(env: Environment, name: str, *, alone: bool) -> tuple[Controller, Composes]:
    part = Composes()
    controller = Controller(
        env.cluster,
        FunctionSource(registry(), load_function),
        clock=env.clock,
        settings=ControllerSettings(
            identity=name, runs_actionsets=not alone, composes=True, stands_by=True, terms=QUICK
        ),
        parts=[part],
    )
    env.controllers.append(controller)
    controller.start()
    return controller, part


def lease(
    env: Environment,
    name: str,
    holder: str,
    notes: Sequence[tuple[str, str]] = (),
    *,
    seconds: int = 3600,
) -> None:
    lease_obj: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(notes)},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "x"},
    }
    env.create(lease_obj)


def test_a_composer_leads_next_to_a_controller_of_actionsets(env: Environment) -> None:
    env.create(blueprint(phase("Echo")))
    env.controller(terms=QUICK)
    _, part = composing(env, "composer", alone=True)
    assert part.began.wait(PATIENCE_SECONDS)
    env.create(actionset())
    env.until_state("complete")
    leases = {
        obj["metadata"]["name"]: obj["metadata"]["annotations"][ACTS_ON]
        for obj in env.cluster.list(LEASES).items
    }
    assert leases == {LEASE_NAME: "actionsets", COMPOSING_LEASE_NAME: "compositions"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(False, True, id="from one Deployment to two"),
        pytest.param(True, False, id="from two to one"),
    ],
)
def test_the_next_composer_starts_only_when_the_one_before_has_ended(
    env: Environment, first: bool, second: bool
) -> None:
    before, part = composing(env, "before", alone=first)
    assert part.began.wait(PATIENCE_SECONDS)
    _, following = composing(env, "after", alone=second)
    # Long enough to take its Lease and to check the other one many times.
    assert not following.began.wait(0.5)
    before.stop()
    assert following.began.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("notes", "waits"),
    [
        pytest.param([], True, id="of a release without annotations, which may do everything"),
        pytest.param([(ACTS_ON, "actionsets,compositions")], True, id="of a controller of both"),
        pytest.param([(ACTS_ON, "actionsets")], False, id="of a controller of ActionSets"),
    ],
)
def test_the_annotations_of_a_lease_decide_whether_its_holder_composes(
    env: Environment, notes: list[tuple[str, str]], waits: bool
) -> None:
    lease(env, LEASE_NAME, "somebody", notes)
    _, part = composing(env, "composer", alone=True)
    assert part.began.wait(0.5 if waits else PATIENCE_SECONDS) is not waits


def test_the_wait_for_a_dead_holder_ends_with_its_term(env: Environment) -> None:
    lease(env, LEASE_NAME, "dead", seconds=20)
    clock = FakeClock(jumps=True)
    wait_for_composer(env.cluster, clock, "default", LEASE_NAME, Condition(), lambda: False)
    assert 20 <= clock.monotonic() < 25


def test_stopping_ends_the_wait_for_another_composer(env: Environment) -> None:
    lease(env, LEASE_NAME, "somebody")
    controller, part = composing(env, "composer", alone=True)
    controller.stop()
    assert not part.began.is_set()
