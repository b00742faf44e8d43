"""Requests: what one ActionSet costs the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kanister_py.core.errors import Forbidden
from kanister_py.core.objects.resources import EVENTS, NAMESPACES
from kanister_py.ports.cluster import Cluster
from tests.controller.conftest import PATIENCE_SECONDS, World, actionset, blueprint, phase
from tests.controller.test_shards import until

_REQUESTS = (
    *("get", "list", "create", "replace", "replace_status", "patch", "apply", "delete"),
)  # fmt: skip


class Counting:
    """A cluster that writes down what is asked of it, but for Leases."""

    def __init__(self, cluster: Cluster, *, refuses_lists_of: Any = None) -> None:
        self._cluster = cluster
        self._refused = refuses_lists_of
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in _REQUESTS:
            return found

        def call(*args: Any, **options: Any) -> Any:
            if name == "list" and args[0] == self._refused:
                raise Forbidden("namespaces is forbidden")
            of = args[0]
            kind = of["kind"] if isinstance(of, Mapping) else of.resource
            if kind not in ("Lease", "leases"):
                self.asked.append(f"{name} {kind}")
            return found(*args, **options)

        return call


def cost_of_one(world: World, cluster: Counting) -> list[str]:
    """Give the requests of an ActionSet that is not the first one."""
    world.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        blueprint(phase("Echo")),
    )
    controller = world.controller(cluster)
    acts_on = {"object": {"kind": "Namespace", "name": "shop", "namespace": ""}}
    world.create(actionset("first", action=acts_on))
    until_told(world, "first")
    # What the other parts of the controller list at their start is no cost of the second.
    until(lambda: controller.is_settled)
    cluster.asked.clear()
    world.create(actionset("second", action=acts_on))
    until_told(world, "second")
    controller.stop()
    return sorted(cluster.asked)


def until_told(world: World, name: str) -> None:
    """Wait for the last event of an ActionSet, which is the last that is asked for it."""
    with world.cluster.watch(
        EVENTS, namespace="default", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        for event in watch:
            of = event.object["involvedObject"]["name"]
            if (of, event.object["reason"]) == (name, "Update Complete"):
                return
    raise AssertionError(f"nothing was told of the end of {name}")


def test_an_action_set_of_one_phase_costs_no_more_than_it_must(world: World) -> None:
    assert cost_of_one(world, Counting(world.cluster)) == [
        "create Event",
        "create Event",
        "get blueprints",
        "replace_status ActionSet",
        "replace_status ActionSet",
    ]


def test_where_namespaces_may_not_be_listed_they_are_read(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = Counting(world.cluster, refuses_lists_of=NAMESPACES)
    assert cost_of_one(world, refusing).count("get namespaces") == 1
    assert "Cannot watch namespaces" not in caplog.text
