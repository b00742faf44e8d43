"""Partitions: several controllers divide the objects, and never share one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kanister_py.controller.controller import Controller
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.lease import LEASE_NAME, LeaseTerms
from kanister_py.core.actionsets.partitions import PARTITION_LABEL
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.resources import ACTION_SETS, LEASES
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.ports.cluster import Cluster
from tests.controller.compositions import harness as compositions
from tests.controller.conftest import (
    LASTING,
    Counted,
    Environment,
    actionset,
    blueprint,
    phase,
    until,
)

QUICK = LeaseTerms(term_seconds=600, acts_for_seconds=500, renews_every_seconds=0.05)


def labelled(partition: str) -> dict[str, Any]:
    return {"labels": {PARTITION_LABEL: partition}}


def relabel(env: Environment, name: str, partition: str | None) -> None:
    patch = {"metadata": {"labels": {PARTITION_LABEL: partition}}}
    env.cluster.patch(ACTION_SETS, name, patch, namespace="default")


def test_each_partition_runs_the_objects_with_its_label(env: Environment) -> None:
    env.create(blueprint(phase("Counted")))
    red, plain = env.controller(partition="red"), env.controller()
    until(lambda: red.is_settled and plain.is_settled)
    for name, metadata in (("of-red", labelled("red")), ("of-none", {})):
        env.create(actionset(name, metadata=metadata))
        env.until_state("complete", name)
    assert len(Counted.calls) == 2
    assert env.status("of-red")["partition"] == "red"
    assert "partition" not in env.status("of-none")
    names = {lease["metadata"]["name"] for lease in env.cluster.list(LEASES)}
    assert names == {LEASE_NAME, f"{LEASE_NAME}-red"}


def test_an_object_of_a_partition_without_a_controller_waits_for_one(env: Environment) -> None:
    env.create(blueprint(phase("Counted")))
    plain = env.controller()
    env.create(actionset("of-red", metadata=labelled("red")), actionset("of-none"))
    env.until_state("complete", "of-none")
    until(lambda: plain.is_settled)
    assert "status" not in env.get("of-red")
    env.controller(partition="red")
    env.until_state("complete", "of-red")


@pytest.mark.parametrize("label", ["blue", None], ids=["another partition", "no partition"])
def test_a_run_whose_label_changes_is_finished_by_the_partition_that_started_it(
    env: Environment, label: str | None
) -> None:
    env.create(blueprint(phase("Gate"), phase("Counted")))
    red = env.controller(partition="red")
    blue_and_plain = [env.controller(partition="blue"), env.controller()]
    env.create(actionset(metadata=labelled("red")))
    env.until_state("running")
    relabel(env, "one", label)
    # The other controllers have seen the change once they have run a later ActionSet.
    env.create(blueprint(phase("Echo"), name="quick"))
    for name, metadata in (("of-blue", labelled("blue")), ("of-none", {})):
        env.create(actionset(name, metadata=metadata, blueprint="quick"))
        env.until_state("complete", name)
    assert red.active_runs == 1
    until(lambda: all(other.active_runs == 0 for other in blue_and_plain))
    env.open_gate()
    env.until_state("complete")
    assert len(Counted.calls) == 1
    assert env.status()["partition"] == "red"


def test_a_label_that_changes_before_the_first_write_moves_the_run(env: Environment) -> None:
    env.create(blueprint(phase("Counted")))

    class Relabelling:
        """A cluster on which the label changes just before the first status is written."""

        def __init__(self, cluster: Cluster) -> None:
            self._cluster = cluster
            self.has_changed = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cluster, name)

        def replace_status(self, obj: Any, **options: Any) -> Any:
            if not self.has_changed:
                self.has_changed = True
                relabel(env, "one", "blue")
            return self._cluster.replace_status(obj, **options)

    relabelling = Relabelling(env.cluster)
    red = env.controller(relabelling, partition="red")
    env.create(actionset(metadata=labelled("red")))
    until(lambda: relabelling.has_changed and red.active_runs == 0)
    assert Counted.calls == []
    env.controller(partition="blue")
    assert env.until_state("complete")["partition"] == "blue"
    assert len(Counted.calls) == 1


def test_actionsets_of_a_schedule_get_its_partition(env: Environment) -> None:
    env.create(blueprint(phase("Counted")))
    red, plain = env.controller(partition="red"), env.controller()
    until(lambda: red.is_settled and plain.is_settled)
    template = {
        "metadata": labelled("green"),
        "spec": {
            "actions": [
                {
                    "name": "act",
                    "blueprint": "made-up",
                    "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
                }
            ]
        },
    }
    env.create(
        {
            "apiVersion": SCHEDULES.api_version,
            "kind": "Schedule",
            "metadata": {"name": "often", "namespace": "default", **labelled("red")},
            "spec": {"schedule": "@every 1s", "template": template},
        }
    )
    until(lambda: len(Counted.calls) > 0)
    for obj in env.cluster.list(ACTION_SETS):
        assert obj["metadata"]["labels"][PARTITION_LABEL] == "red"


def refusal(controller: Controller) -> str:
    try:
        controller.run()
    except UsageError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(
            {"partition": "red"},
            {"partition": "red", "home": "other"},
            "ActionSets of partition red in all namespaces",
            id="the same value",
        ),
        pytest.param(
            {"namespaces": ("a", "b")},
            {"namespaces": ("b", "c"), "home": "other"},
            "ActionSets in namespace b",
            id="a namespace of both",
        ),
    ],
)
def test_a_controller_that_overlaps_a_live_one_refuses_to_start(
    env: Environment, first: dict[str, Any], second: dict[str, Any], want: str
) -> None:
    one = env.controller(terms=QUICK, **first)
    until(lambda: one.is_settled)
    message = refusal(env.controller(starts=False, terms=QUICK, **second))
    assert message.startswith("replica-1 (Lease default/")
    assert want in message
    assert "--partition" in message
    assert one.is_leader


def test_a_controller_that_overlaps_one_that_has_ended_starts(env: Environment) -> None:
    first = env.controller(partition="red")
    until(lambda: first.is_settled)
    first.stop()
    second = env.controller(partition="red", home="other")
    until(lambda: second.is_settled)


def test_controllers_of_different_namespaces_and_partitions_run_in_parallel(
    env: Environment,
) -> None:
    settings: list[dict[str, Any]] = [
        {"namespaces": ("a",)},
        {"namespaces": ("b",), "home": "other"},
        {"namespaces": ("a", "b"), "partition": "red"},
        {"partition": "blue"},
    ]
    controllers = [env.controller(**setting) for setting in settings]
    until(lambda: all(controller.is_settled for controller in controllers))


def test_a_standby_for_other_namespaces_logs_a_warning(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    one = env.controller(namespaces=("a",), terms=LASTING)
    until(lambda: one.is_leader)
    env.controller(namespaces=("b",), stands_by=True)
    until(lambda: "kanister-py.io/namespaces: a, here b" in caplog.text)


# Compositions


@pytest.fixture
def composing() -> Iterator[tuple[compositions.Harness, compositions.Harness]]:
    """Two controllers that compose on one cluster: of no partition, and of partition red."""
    with ExitStack() as stack:
        settings = CompositionSettings("default", uses_revisions=True)
        plain = compositions.Harness(settings)
        red = compositions.Harness(settings._replace(partition="red"), plain.cluster)
        for controller in (plain, red):
            stack.callback(controller.close)
            controller.start()
        yield plain, red


def test_composite_resources_are_composed_by_the_partition_of_their_label(
    composing: tuple[compositions.Harness, compositions.Harness],
) -> None:
    plain, red = composing
    plain.define(compositions.definition())
    plain.apply(compositions.composition("green"))
    plain.apply(compositions.bucket("of-none"))
    of_red = compositions.bucket("of-red")
    of_red["metadata"]["labels"] = {PARTITION_LABEL: "red"}
    plain.apply(of_red)
    for name in ("of-none", "of-red"):
        plain.until(lambda: plain.is_ready(name))  # noqa: B023 # called at once
    red.close()
    plain.apply(compositions.composition("blue"))
    plain.until(lambda: plain.colours("of-none") == {"blue"})
    plain.until_idle()
    assert plain.colours("of-red") == {"green"}
    patch = {"metadata": {"labels": {PARTITION_LABEL: None}}}
    plain.cluster.patch(compositions.BUCKETS, "of-red", patch, namespace="default")
    plain.until(lambda: plain.colours("of-red") == {"blue"})
