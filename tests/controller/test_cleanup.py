"""Cleanup before a controller is uninstalled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kanister_py.controller.actionsets.status import FINALIZER
from kanister_py.controller.cleanup import Cleanup, CleanupResult
from kanister_py.core.actionsets.partitions import PARTITION_LABEL, Scope
from kanister_py.core.kube.resources import ACTION_SETS, DEPLOYMENTS, LEASES
from kanister_py.ports.cluster import KubeObject
from tests.controller.conftest import Environment, actionset, blueprint, phase, until
from tests.fake_clock import FakeClock


def deployment(name: str) -> KubeObject:
    container = {"name": "controller", "image": "kanister-py"}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def finalizers(env: Environment) -> list[str]:
    actionsets = env.cluster.list(ACTION_SETS)
    return [
        finalizer for obj in actionsets for finalizer in obj["metadata"].get("finalizers") or ()
    ]


def clean_up(env: Environment, **more: float) -> CleanupResult:
    clock = FakeClock(jumps=True) if more else env.clock
    return Cleanup(
        env.cluster, clock, Scope(), "default", deployments=["kanister-py", "gone"], **more
    ).run()


def test_runs_are_ended_by_the_controller_before_it_is_stopped(env: Environment) -> None:
    env.create(deployment("kanister-py"), blueprint(phase("Gate")))
    controller = env.controller()
    names = [f"run-{number}" for number in range(3)]
    env.create(*(actionset(name) for name in names))
    until(lambda: controller.active_runs == len(names))
    for name in names:
        env.until_state("running", name)
    with ThreadPoolExecutor(1) as pool:
        cleaning = pool.submit(clean_up, env)
        for name in names:
            assert env.until_state("failed", name)["error"]["reason"] == "Cancelled"
        until(
            lambda: (
                env.cluster.get(DEPLOYMENTS, "kanister-py", namespace="default")["spec"]["replicas"]
                == 0
            )
        )
        # The Deployment stops its pods when it is scaled to zero.
        controller.stop()
        done = cleaning.result(180)
    assert sorted(done.cancelled) == [f"default/{name}" for name in names]
    assert done.unfinished == ()
    assert done.scaled == ("kanister-py",)
    assert done.leases == ("kanister-py-controller",)
    assert finalizers(env) == []
    assert env.cluster.list(LEASES).items == []


def test_finalizers_of_a_controller_that_is_gone_are_removed(env: Environment) -> None:
    env.create(blueprint(phase("Gate")))
    controller = env.controller()
    env.create(actionset())
    env.until(lambda obj: FINALIZER in (obj["metadata"].get("finalizers") or ()))
    controller.kill()
    # Its Lease still exists, but is no longer renewed.
    done = clean_up(env, timeout_seconds=1000.0)
    assert done.released == done.unfinished == ("default/one",)
    assert finalizers(env) == []
    assert done.leases == ("kanister-py-controller",)
    env.cluster.delete(ACTION_SETS, "one", namespace="default")
    assert env.cluster.list(ACTION_SETS).items == []


def test_objects_of_another_partition_are_not_touched(env: Environment) -> None:
    metadata = {"labels": {PARTITION_LABEL: "red"}, "finalizers": [FINALIZER]}
    env.create(actionset("of-red", metadata=metadata), actionset("of-none"))
    done = clean_up(env, timeout_seconds=1.0)
    assert done.cancelled == ("default/of-none",)
    assert done.released == ()
    assert finalizers(env) == [FINALIZER]


@pytest.mark.parametrize("times", [1, 2])
def test_cleanup_can_be_repeated_when_nothing_is_left(env: Environment, times: int) -> None:
    for _ in range(times):
        assert clean_up(env) == CleanupResult()
