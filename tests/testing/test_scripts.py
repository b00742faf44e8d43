"""Scripted pods behave like running ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import BadRequest
from kanister_py.core.kube.resources import PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.node import ClusterSources, ProcessNode
from kanister_py.ports.cluster import Channel, EventType, KubeObject, LogOptions
from kanister_py.ports.pods import PodStatus
from kanister_py.testing.scripts import Answer, Command, RecordedPods, Script, ScriptedPods
from kanister_py.testing.stage_clock import StageClock
from tests.contracts.pods import wait_gone

SHOP = "shop"
PATIENCE_SECONDS = 180.0


class ScriptedCluster:
    """Cluster with scripted pods."""

    def __init__(self) -> None:
        clock = StageClock()
        self.cluster = MemoryCluster(clock=clock)
        self.script = Script()
        self.pods = RecordedPods(ScriptedPods(self.script, clock))
        self.node = ProcessNode(self.pods, clock)
        self.cluster.attach_pods(self.node)
        self.node.start(self.cluster)

    def create(self, *containers: dict[str, Any], **spec: Any) -> None:
        specs = [{"image": "x", **container} for container in containers]
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": SHOP},
                "spec": {"restartPolicy": "Never", "containers": specs, **spec},
            }
        )

    def wait(self, phase: str) -> KubeObject:
        with self.cluster.watch(PODS, namespace=SHOP, timeout_seconds=PATIENCE_SECONDS) as watch:
            for event in watch:
                if event.type is EventType.DELETED:
                    continue
                if (event.object.get("status") or {}).get("phase") == phase:
                    return event.object
        pytest.fail(f"the pod was never {phase}")

    def log(self, container: str = "", **options: Any) -> bytes:
        log_options = LogOptions(container=container, **options)
        with self.cluster.read_log("p", namespace=SHOP, options=log_options) as stream:
            return b"".join(stream)


@pytest.fixture
def world() -> Iterator[ScriptedCluster]:
    scripted = ScriptedCluster()
    yield scripted
    scripted.node.close()


def test_a_container_ends_as_scripted_and_keeps_its_log(world: ScriptedCluster) -> None:
    world.script.add("work", Answer("one\ntwo", "oh", {"key": "ä"}, exit_code=3))
    world.create({"name": "main", "command": ["work"], "args": ["hard"]})
    status = world.wait("Failed")["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    output = '###Phase-output###: {"key":"key","value":"\\u00e4"}\n'
    assert world.log(follow=True).decode() == f"one\ntwo\n{output}oh\n"
    assert world.log(tail_lines=1) == b"oh\n"
    assert world.pods.commands == [Command("shop/p", "main", "x", ("work", "hard"))]


def test_a_failed_init_container_prevents_the_others(world: ScriptedCluster) -> None:
    world.script.add("prepare", Answer(exit_code=1))
    world.create(
        {"name": "main", "command": ["work"]},
        initContainers=[{"name": "init", "image": "x", "command": ["prepare"]}],
    )
    status = world.wait("Failed")["status"]
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    with pytest.raises(BadRequest):
        world.log("main")


def test_a_pod_is_running_while_a_container_is(world: ScriptedCluster) -> None:
    world.script.add("serve", Answer("up", stays=True))
    world.script.otherwise = Answer("done")
    world.create({"name": "a", "command": ["once"]}, {"name": "b", "command": ["serve"]})
    world.wait("Running")
    assert world.log("a", follow=True) == b"done\n"
    assert world.log("b") == b"up\n"
    world.cluster.delete(PODS, "p", namespace=SHOP)
    wait_gone(world.cluster, PODS, "p", namespace=SHOP)


def test_an_exec_session_has_separate_streams(world: ScriptedCluster) -> None:
    world.script.add("serve", Answer(stays=True))
    world.script.add("^ask me$", Answer("out", "err", exit_code=2))
    world.create({"name": "main", "command": ["serve"]})
    world.wait("Running")
    with world.cluster.exec("p", ["ask", "me"], namespace=SHOP) as session:
        codes = [session.exit_code]
        chunks = [(chunk.channel, chunk.data) for chunk in session]
        codes.append(session.exit_code)
    assert codes == [None, 2]
    assert chunks == [(Channel.STDOUT, b"out\n"), (Channel.STDERR, b"err\n")]
    assert world.pods.commands[-1] == Command("shop/p", "main", "x", ("ask", "me"), is_exec=True)
    with pytest.raises(BadRequest, match="container other is not valid"):
        world.cluster.exec("p", ["ask"], namespace=SHOP, container="other")


def test_an_exec_command_has_the_image_of_its_container(
    world: ScriptedCluster,
) -> None:
    world.script.add("serve", Answer(stays=True))
    world.script.add("^ask$", Answer("out"))
    serves = {"command": ["serve"]}
    world.create({"name": "main", **serves}, {"name": "side", "image": "y", **serves})
    world.wait("Running")
    with world.cluster.exec("p", ["ask"], namespace=SHOP, container="side"):
        pass
    assert world.pods.commands[-1] == Command("shop/p", "side", "y", ("ask",), is_exec=True)


def test_a_row_of_a_script_applies_a_limited_number_of_times() -> None:
    script, command = Script(), Command("shop/p", "main", "x", ("work",))
    script.add("work", Answer("first"), times=2)
    script.add("work", Answer("then"))
    assert [script.answer(command).prints for _ in range(4)] == ["first", "first", "then", "then"]


def test_a_followed_log_ends_after_the_status_is_reported() -> None:
    script, arrived, go_on = Script(), threading.Event(), threading.Event()
    script.otherwise = Answer("done")
    pods, existing, seen = ScriptedPods(script, StageClock()), list[str](), list[list[str]]()

    def report(status: PodStatus) -> None:
        arrived.set()
        assert go_on.wait(PATIENCE_SECONDS)
        existing.append(status["phase"])

    container = {"name": "main", "image": "x", "command": ["work"]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    metadata = {"uid": "u", "name": "p", "namespace": SHOP}
    pods.start(
        {"metadata": metadata, "spec": spec},
        ClusterSources(MemoryCluster(clock=SystemClock())),
        report,
    )
    assert arrived.wait(PATIENCE_SECONDS)

    def follow() -> None:
        assert b"".join(pods.read_log("u", LogOptions(follow=True))) == b"done\n"
        seen.append([*existing])

    reader = threading.Thread(target=follow)
    reader.start()
    go_on.set()
    reader.join(PATIENCE_SECONDS)
    assert seen == [["Succeeded"]]
    pods.close()
