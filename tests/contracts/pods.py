"""Contract of clusters that run pods.

Subclasses of `PodsContract` provide a fixture `cluster`.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kanister_py.core.errors import BadRequest, NotFound
from kanister_py.core.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    GroupVersionResource,
)
from kanister_py.ports.cluster import (
    Channel,
    Cluster,
    EventType,
    KubeObject,
    LogOptions,
    Watch,
)

NAMESPACE = "default"
DEADLINE_SECONDS = 180


def pod(name: str, script: str, **spec: Any) -> KubeObject:
    """Return a pod that runs a script once; `container` adds fields to its only container."""
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", textwrap.dedent(script)],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def config_map(name: str, **data: str) -> KubeObject:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def secret(name: str, **data: bytes) -> KubeObject:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}


def claim(name: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def wait_for(
    cluster: Cluster,
    resource: GroupVersionResource,
    name: str,
    until: Callable[[KubeObject], bool],
    *,
    namespace: str = NAMESPACE,
) -> KubeObject:
    """Wait until an object is as expected, and return it. Fails with its last state."""
    last: KubeObject = {}
    with cluster.watch(resource, namespace=namespace, timeout_seconds=DEADLINE_SECONDS) as watch:
        for event in watch:
            if event.type is EventType.BOOKMARK or event.object["metadata"]["name"] != name:
                continue
            last = event.object
            if event.type is not EventType.DELETED and until(last):
                return last
    pytest.fail(f"{name} never got there: {json.dumps(last.get('status'))}")


def wait_gone(
    cluster: Cluster, resource: GroupVersionResource, name: str, *, namespace: str = NAMESPACE
) -> None:
    """Wait until an object is gone."""
    with cluster.watch(resource, namespace=namespace, timeout_seconds=DEADLINE_SECONDS) as watch:
        try:
            cluster.get(resource, name, namespace=namespace)
        except NotFound:
            return
        _until_deleted(watch, name)


def end_pod(cluster: Cluster, name: str, **options: Any) -> KubeObject:
    """Delete a pod, and return its last state once it is gone."""
    # The watch starts before the deletion, because the pod may disappear quickly.
    since = cluster.list(PODS, namespace=NAMESPACE).resource_version
    with cluster.watch(
        PODS, namespace=NAMESPACE, resource_version=since, timeout_seconds=DEADLINE_SECONDS
    ) as watch:
        cluster.delete(PODS, name, namespace=NAMESPACE, **options)
        return _until_deleted(watch, name)


def _until_deleted(watch: Watch, name: str) -> KubeObject:
    last: KubeObject = {}
    for event in watch:
        if event.object["metadata"].get("name") != name:
            continue
        last = event.object
        if event.type is EventType.DELETED:
            return last
    pytest.fail(f"{name} is still there: {json.dumps(last.get('status'))}")


def in_phase(*phases: str) -> Callable[[KubeObject], bool]:
    return lambda obj: (obj.get("status") or {}).get("phase") in phases


def is_ready(obj: KubeObject) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def run(cluster: Cluster, obj: Mapping[str, Any]) -> KubeObject:
    """Create a pod, and return it once it has ended."""
    cluster.create(obj)
    return wait_for(cluster, PODS, obj["metadata"]["name"], in_phase("Succeeded", "Failed"))


def start(cluster: Cluster, obj: Mapping[str, Any]) -> KubeObject:
    """Create a pod, and return it once it is ready."""
    cluster.create(obj)
    return wait_for(cluster, PODS, obj["metadata"]["name"], is_ready)


def log_of(cluster: Cluster, name: str, **options: Any) -> bytes:
    with cluster.read_log(name, namespace=NAMESPACE, options=LogOptions(**options)) as stream:
        return b"".join(stream)


def wait_for_line(cluster: Cluster, name: str, line: bytes) -> None:
    """Wait until a line is in the log of a pod."""
    read = b""
    with cluster.read_log(name, namespace=NAMESPACE, options=LogOptions(follow=True)) as stream:
        for piece in stream:
            read += piece
            if line in read:
                return
    pytest.fail(f"{name} never wrote {line!r}, only {read!r}")


def exec_in(
    cluster: Cluster, name: str, *command: str, stdin: bytes | None = None, container: str = ""
) -> tuple[int | None, bytes, bytes]:
    """Run a command in a pod; returns its exit code, stdout and stderr."""
    written = {Channel.STDOUT: b"", Channel.STDERR: b""}
    with cluster.exec(
        name, command, namespace=NAMESPACE, container=container, has_stdin=stdin is not None
    ) as session:
        if stdin is not None:
            session.write_stdin(stdin)
            session.close_stdin()
        for chunk in session:
            written[chunk.channel] += chunk.data
        return session.exit_code, written[Channel.STDOUT], written[Channel.STDERR]


def terminated(obj: KubeObject, index: int = 0) -> Mapping[str, Any]:
    state: Mapping[str, Any] = obj["status"]["containerStatuses"][index]["state"]
    return state["terminated"]  # type: ignore[no-any-return]  # JSON, read as it comes


class PodsContract:
    """Behaviour of pods that users see on every cluster."""

    def test_pod_succeeds_if_its_command_succeeds(self, cluster: Cluster) -> None:
        ended = run(cluster, pod("well", "echo done"))
        assert ended["status"]["phase"] == "Succeeded"
        state = terminated(ended)
        assert (state["exitCode"], state["reason"]) == (0, "Completed")
        assert state["startedAt"] <= state["finishedAt"]
        assert log_of(cluster, "well") == b"done\n"

    def test_pod_fails_with_the_exit_code_of_its_command(self, cluster: Cluster) -> None:
        ended = run(cluster, pod("badly", "exit 42"))
        assert ended["status"]["phase"] == "Failed"
        state = terminated(ended)
        assert (state["exitCode"], state["reason"]) == (42, "Error")

    def test_killed_command_has_the_exit_code_of_the_signal(self, cluster: Cluster) -> None:
        ended = run(cluster, pod("killed", "kill -KILL $$$$"))
        assert terminated(ended)["exitCode"] == 137

    def test_log_contains_stdout_and_stderr_in_order(self, cluster: Cluster) -> None:
        run(cluster, pod("both", "echo one; echo two >&2; echo three"))
        assert log_of(cluster, "both") == b"one\ntwo\nthree\n"

    def test_binary_log_is_not_changed(self, cluster: Cluster) -> None:
        run(cluster, pod("binary", r"printf '\000\377\n\r\033[1m'"))
        assert log_of(cluster, "binary") == b"\x00\xff\n\r\x1b[1m"

    def test_last_lines_of_a_log_can_be_read(self, cluster: Cluster) -> None:
        run(cluster, pod("long", "for i in 1 2 3 4 5; do echo line $i; done"))
        assert log_of(cluster, "long", tail_lines=2) == b"line 4\nline 5\n"
        assert log_of(cluster, "long", limit_bytes=6) == b"line 1"

    def test_followed_log_ends_with_the_container(self, cluster: Cluster) -> None:
        start(
            cluster,
            pod(
                "follow",
                "echo first; read line < /tmp/go; echo $line; exit 0",
                container={
                    "command": [
                        "sh",
                        "-c",
                        "mkfifo /tmp/go; echo first; read line < /tmp/go; echo $line",
                    ]
                },
            ),
        )
        read = b""
        options = LogOptions(follow=True)
        with cluster.read_log("follow", namespace=NAMESPACE, options=options) as stream:
            for piece in stream:
                read += piece
                if read == b"first\n":
                    exec_in(cluster, "follow", "sh", "-c", "echo second > /tmp/go")
        assert read == b"first\nsecond\n"

    def test_exec_has_separate_streams_and_exit_code(self, cluster: Cluster) -> None:
        start(cluster, pod("target", "exec sleep 1000"))
        result = exec_in(
            cluster, "target", "sh", "-c", "cat; echo wrong >&2; exit 3", stdin=b"given"
        )
        assert result == (3, b"given", b"wrong\n")
        assert log_of(cluster, "target") == b""

    def test_exec_sees_files_and_environment_of_the_container(self, cluster: Cluster) -> None:
        env = [{"name": "COLOUR", "value": "blue"}]
        start(
            cluster,
            pod("inside", "echo data > /tmp/f; echo up; exec sleep 1000", container={"env": env}),
        )
        wait_for_line(cluster, "inside", b"up")
        code, out, _ = exec_in(cluster, "inside", "sh", "-c", "cat /tmp/f; echo $COLOUR")
        assert (code, out) == (0, b"data\nblue\n")

    def test_exec_in_a_missing_container_fails(self, cluster: Cluster) -> None:
        start(cluster, pod("known", "exec sleep 1000"))
        with pytest.raises(BadRequest):
            exec_in(cluster, "known", "true", container="other")
        with pytest.raises(NotFound):
            exec_in(cluster, "unknown", "true")

    def test_deleted_pod_is_terminated_and_then_gone(self, cluster: Cluster) -> None:
        script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        start(cluster, pod("polite", script))
        wait_for_line(cluster, "polite", b"up")
        options = LogOptions(follow=True)
        with cluster.read_log("polite", namespace=NAMESPACE, options=options) as stream:
            cluster.delete(PODS, "polite", namespace=NAMESPACE)
            assert b"".join(stream) == b"up\nasked\n"
        wait_gone(cluster, PODS, "polite")

    def test_process_is_killed_after_the_grace_period(self, cluster: Cluster) -> None:
        script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
        start(cluster, pod("deaf", script))
        wait_for_line(cluster, "deaf", b"up")
        ended = end_pod(cluster, "deaf", grace_period_seconds=1)
        assert terminated(ended)["exitCode"] == 137

    def test_init_containers_run_in_order_and_share_volumes(self, cluster: Cluster) -> None:
        mount = [{"name": "shared", "mountPath": "/data/shared"}]

        def init(name: str, script: str) -> dict[str, Any]:
            command = ["sh", "-c", script]
            return {"name": name, "image": "x", "command": command, "volumeMounts": mount}

        ended = run(
            cluster,
            pod(
                "inits",
                "cat /data/shared/f",
                container={"volumeMounts": mount},
                volumes=[{"name": "shared", "emptyDir": {}}],
                initContainers=[
                    init("first", "echo 1 >> /data/shared/f"),
                    init("second", "echo 2 >> /data/shared/f"),
                ],
            ),
        )
        assert ended["status"]["phase"] == "Succeeded"
        assert log_of(cluster, "inits") == b"1\n2\n"
        states = [one["state"] for one in ended["status"]["initContainerStatuses"]]
        assert [state["terminated"]["exitCode"] for state in states] == [0, 0]

    def test_a_pod_whose_init_container_fails_never_starts(self, cluster: Cluster) -> None:
        init = {"name": "first", "image": "x", "command": ["sh", "-c", "exit 7"]}
        ended = run(cluster, pod("early", "echo never", initContainers=[init]))
        assert ended["status"]["phase"] == "Failed"
        assert ended["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
        assert "waiting" in ended["status"]["containerStatuses"][0]["state"]
        with pytest.raises(BadRequest):
            log_of(cluster, "early")

    def test_sidecar_ends_after_the_containers(self, cluster: Cluster) -> None:
        mount = [{"name": "shared", "mountPath": "/shared"}]
        sidecar = {
            "name": "side",
            "image": "x",
            "restartPolicy": "Always",
            "command": ["sh", "-c", "echo here > /shared/f; exec sleep 1000"],
            "volumeMounts": mount,
        }
        ended = run(
            cluster,
            pod(
                "sidecar",
                "until cat /shared/f 2>/dev/null; do sleep 0.05; done",
                container={"volumeMounts": mount},
                volumes=[{"name": "shared", "emptyDir": {}}],
                initContainers=[sidecar],
            ),
        )
        assert ended["status"]["phase"] == "Succeeded"
        wait_for(
            cluster,
            PODS,
            "sidecar",
            lambda obj: "terminated" in obj["status"]["initContainerStatuses"][0]["state"],
        )

    def test_containers_of_a_pod_run_concurrently(self, cluster: Cluster) -> None:
        mount = [{"name": "shared", "mountPath": "/shared"}]

        def container(name: str, mine: str, other: str) -> dict[str, Any]:
            script = f"touch /shared/{mine}; until [ -e /shared/{other} ]; do sleep 0.05; done"
            command = ["sh", "-c", script]
            return {"name": name, "image": "x", "command": command, "volumeMounts": mount}

        obj = pod("pair", "", volumes=[{"name": "shared", "emptyDir": {}}])
        obj["spec"]["containers"] = [container("a", "a", "b"), container("b", "b", "a")]
        ended = run(cluster, obj)
        assert ended["status"]["phase"] == "Succeeded"
        assert [one["name"] for one in ended["status"]["containerStatuses"]] == ["a", "b"]
        with pytest.raises(BadRequest):
            log_of(cluster, "pair")
        assert log_of(cluster, "pair", container="a") == b""

    def test_the_environment_comes_from_values_objects_and_the_pod_itself(
        self, cluster: Cluster
    ) -> None:
        cluster.create(config_map("settings", host="db.local", port="5432"))
        cluster.create(secret("login", user=b"me", password=b"p@ss"))
        env = [
            {"name": "HOST", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "host"}}},
            {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {
                "name": "NONE",
                "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": True}},
            },
            {"name": "URL", "value": "pg://$(HOST):$(S_port)/$(NOBODY)/$$(HOST)"},
        ]
        env_from = [{"prefix": "S_", "configMapRef": {"name": "settings"}}]
        # Kubernetes expands variables in arguments before the shell sees them.
        args = ["-c", "echo '$(URL)' $POD $APP $PW ${NONE-unset}"]
        container = {"env": env, "envFrom": env_from, "command": ["sh"], "args": args}
        run(cluster, pod("env", "", container=container))
        want = b"pg://db.local:5432/$(NOBODY)/$(HOST) env env p@ss unset\n"
        assert log_of(cluster, "env") == want

    def test_mounted_objects_have_the_requested_names_and_modes(self, cluster: Cluster) -> None:
        cluster.create(config_map("files", a="text a", b="text b"))
        cluster.create(secret("keys", key=b"\x00\x01"))
        mounts = [
            {"name": "config", "mountPath": "/etc/app/config"},
            {"name": "keys", "mountPath": "/etc/app/keys"},
            {"name": "config", "mountPath": "/etc/app/one", "subPath": "sub/renamed"},
            {"name": "about", "mountPath": "/etc/app/about"},
        ]
        volumes = [
            {
                "name": "config",
                "configMap": {
                    "name": "files",
                    "items": [{"key": "a", "path": "sub/renamed", "mode": 0o640}],
                },
            },
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {
                "name": "about",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "files", "items": [{"key": "b", "path": "b"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
                                ]
                            }
                        },
                    ]
                },
            },
        ]
        script = """
            cat /etc/app/config/sub/renamed /etc/app/one /etc/app/about/b /etc/app/about/name; echo
            stat -L -c %a /etc/app/config/sub/renamed /etc/app/keys/key
            od -An -tx1 /etc/app/keys/key
            touch /etc/app/config/new 2>/dev/null || echo read-only
        """
        run(cluster, pod("files", script, container={"volumeMounts": mounts}, volumes=volumes))
        lines = log_of(cluster, "files").split()
        want = [b"text", b"atext", b"atext", b"bfiles", b"640", b"400", b"00", b"01", b"read-only"]
        assert lines == want

    def test_a_pod_waits_for_an_object_it_refers_to(self, cluster: Cluster) -> None:
        source = {"configMapKeyRef": {"name": "late", "key": "k"}}
        mount = [{"name": "late", "mountPath": "/late"}]
        cluster.create(
            pod(
                "waits",
                "echo $K; cat /late/k",
                container={"env": [{"name": "K", "valueFrom": source}], "volumeMounts": mount},
                volumes=[{"name": "late", "configMap": {"name": "late"}}],
            )
        )

        def says_why(obj: KubeObject) -> bool:
            statuses = (obj.get("status") or {}).get("containerStatuses") or [{"state": {}}]
            waiting = statuses[0]["state"].get("waiting") or {}
            return waiting.get("reason") == "ContainerCreating"

        wait_for(cluster, PODS, "waits", says_why)
        cluster.create(config_map("late", k="came"))
        wait_for(cluster, PODS, "waits", in_phase("Succeeded"))
        assert log_of(cluster, "waits") == b"came\ncame"

    def test_data_of_a_claim_survives_its_pods(self, cluster: Cluster) -> None:
        cluster.create(claim("data"))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/var/lib/app/data"}]}
        run(
            cluster,
            pod("writer", "echo kept > /var/lib/app/data/f", container=mount, volumes=volumes),
        )
        cluster.delete(PODS, "writer", namespace=NAMESPACE)
        wait_gone(cluster, PODS, "writer")
        part = {
            "volumeMounts": [
                {"name": "data", "mountPath": "/data/f", "subPath": "f", "readOnly": True}
            ]
        }
        script = "cat /data/f; echo x >> /data/f || echo refused"
        run(cluster, pod("reader", script, container=part, volumes=volumes))
        log = log_of(cluster, "reader")
        assert log.startswith(b"kept\n")
        assert log.endswith(b"refused\n")
        cluster.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace=NAMESPACE)

    def test_failed_container_is_restarted_by_the_restart_policy(self, cluster: Cluster) -> None:
        script = "echo try >> /shared/f; cat /shared/f; [ $(wc -l < /shared/f) -ge 2 ]"
        ended = run(
            cluster,
            pod(
                "again",
                script,
                container={"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
                volumes=[{"name": "shared", "emptyDir": {}}],
                restartPolicy="OnFailure",
            ),
        )
        status = ended["status"]["containerStatuses"][0]
        assert ended["status"]["phase"] == "Succeeded"
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 1
        assert log_of(cluster, "again") == b"try\ntry\n"
        assert log_of(cluster, "again", previous=True) == b"try\n"

    def test_pod_fails_after_its_active_deadline(self, cluster: Cluster) -> None:
        ended = run(
            cluster,
            pod(
                "slow",
                "exec sleep 1000",
                activeDeadlineSeconds=1,
                terminationGracePeriodSeconds=1,
            ),
        )
        assert ended["status"]["phase"] == "Failed"
        assert ended["status"]["reason"] == "DeadlineExceeded"

    def test_pod_is_ready_when_its_probe_succeeds(self, cluster: Cluster) -> None:
        probe = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1}
        obj = pod("probed", "echo up; exec sleep 1000", container={"readinessProbe": probe})
        cluster.create(obj)
        running = wait_for(cluster, PODS, "probed", in_phase("Running"))
        assert not is_ready(running)
        exec_in(cluster, "probed", "touch", "/tmp/ready")
        wait_for(cluster, PODS, "probed", is_ready)

    def test_termination_message_is_in_the_status(self, cluster: Cluster) -> None:
        ended = run(cluster, pod("says", "echo -n 'out of coffee' > /dev/termination-log; exit 1"))
        assert terminated(ended)["message"] == "out of coffee"

    def test_command_has_working_folder_and_host_name(self, cluster: Cluster) -> None:
        run(cluster, pod("where", "pwd; hostname", container={"workingDir": "/tmp/made"}))
        assert log_of(cluster, "where") == b"/tmp/made\nwhere\n"
