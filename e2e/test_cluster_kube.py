"""The Kubernetes adapter on a real API server: its contract, pods, and faults."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient
from e2e.cluster.local import LocalCluster
from e2e.cluster.programs import Programs
from e2e.cluster.standing import own_folder
from e2e.faults.faults import Cut, Fault, Refuse, Stall
from e2e.faults.proxy import FaultProxy
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.adapters.cluster_kube.requests import Timing
from kanister_py.core.errors import (
    BadRequest,
    ClusterUnavailable,
    Expired,
    Forbidden,
    InternalError,
    NotFound,
    StreamLost,
    TooManyRequests,
    Unauthorized,
)
from kanister_py.core.kube.resources import CONFIG_MAPS, PODS, GroupVersionResource
from kanister_py.ports.cluster import Channel, Cluster, EventType, LogOptions
from tests.contracts.cluster import ClusterContract, config_map

IMPATIENT = Timing(
    answer=1.0, only_answer=1.0, patience=5.0, watch=2.0, silence=1.0, log_silence=1.5, ping=0.5
)


@pytest.fixture(scope="module")
def quiet_server(programs: Programs) -> Iterator[LocalCluster]:
    """An API server without controllers, which would write in between."""
    with own_folder() as folder, LocalCluster(programs, folder) as cluster:
        cluster.stop_controllers()
        yield cluster


def _references_in(schema: Any) -> set[str]:
    """Collect the keys of a schema that refer to others; a field can have such a name as well."""
    if isinstance(schema, list):
        return set().union(*map(_references_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = {"$ref"} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*map(_references_in, schema.values()))


class TestTheRealCluster(ClusterContract):
    promises_bookmarks = False

    @pytest.fixture
    def cluster(self, quiet_server: LocalCluster) -> Iterator[Cluster]:
        with KubeCluster(ClusterChoice(kubeconfig=str(quiet_server.kubeconfig))) as cluster:
            yield cluster

    @pytest.fixture
    def namespace(self, cluster: Cluster) -> str:
        """A namespace for one test, with the objects that controllers would add."""
        name = f"contract-{uuid.uuid4().hex[:10]}"
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = {"name": "default", "namespace": name}
        cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        return name

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ],
    )
    def test_schema_of_a_builtin_kind_is_complete(
        self, cluster: Cluster, api_version: str, kind: str
    ) -> None:
        schema = cluster.schema_of(api_version, kind)
        assert schema is not None
        group, _, version = api_version.rpartition("/")
        gvk = {"group": group, "version": version, "kind": kind}
        assert schema["x-kubernetes-group-version-kind"] == [gvk]
        assert {"metadata", "spec", "status"} <= set(schema["properties"])
        assert "$ref" not in _references_in(schema)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubeCluster]:
    """The adapter on the shared cluster."""
    with KubeCluster(ClusterChoice(kubeconfig=str(kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def faulty(faults: FaultProxy) -> Iterator[KubeCluster]:
    """The adapter on the shared cluster behind the fault proxy, with short timeouts."""
    choice = ClusterChoice(kubeconfig=str(faults.kubeconfig))
    with KubeCluster(choice, timing=IMPATIENT) as cluster:
        cluster.list(CONFIG_MAPS, namespace="default")
        yield cluster


def run_pod(cluster: KubeCluster, namespace: str, script: str, name: str = "worker") -> str:
    """Start a pod, and return when its container runs or has ended."""
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "i", "command": ["sh", "-c", script]}],
            },
        }
    )
    with cluster.watch(
        PODS, namespace=namespace, field_selector=f"metadata.name={name}", timeout_seconds=60
    ) as watch:
        for event in watch:
            rows = (event.object.get("status") or {}).get("containerStatuses") or [{}]
            if {"running", "terminated"} & (rows[0].get("state") or {}).keys():
                return name
    raise AssertionError(f"pod {name} did not start")


@pytest.mark.usefixtures("node")
class TestCommands:
    def test_command_returns_both_streams_and_its_exit_code(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        words = ["sh", "-c", "echo out; echo err >&2; exit 7"]
        with cluster.exec("worker", words, namespace=namespace) as session:
            output: dict[Channel, bytes] = {}
            for chunk in session:
                output[chunk.channel] = output.get(chunk.channel, b"") + chunk.data
            assert session.exit_code == 7
        assert output == {Channel.STDOUT: b"out\n", Channel.STDERR: b"err\n"}

    def test_silent_command_ends_with_zero(self, cluster: KubeCluster, namespace: str) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        with cluster.exec("worker", ["true"], namespace=namespace) as session:
            assert list(session) == []
            assert session.exit_code == 0

    def test_a_command_reads_its_input_to_the_end(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        data = bytes(range(256)) * 4096
        words = ["sha256sum"]
        with cluster.exec("worker", words, namespace=namespace, has_stdin=True) as session:
            session.write_stdin(data)
            session.close_stdin()
            output = b"".join(chunk.data for chunk in session)
            assert session.exit_code == 0
        import hashlib

        assert output.split()[0].decode() == hashlib.sha256(data).hexdigest()

    def test_command_can_print_a_lot(self, cluster: KubeCluster, namespace: str) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        words = ["head", "-c", "8000000", "/dev/zero"]
        with cluster.exec("worker", words, namespace=namespace) as session:
            assert sum(len(chunk.data) for chunk in session) == 8_000_000
            assert session.exit_code == 0

    def test_command_without_output_is_awaited(self, faulty: KubeCluster, namespace: str) -> None:
        run_pod(faulty, namespace, "exec sleep 60")
        with faulty.exec("worker", ["sleep", "4"], namespace=namespace) as session:
            assert list(session) == []
            assert session.exit_code == 0

    def test_command_in_a_missing_pod(self, cluster: KubeCluster, namespace: str) -> None:
        with pytest.raises(NotFound) as caught:
            cluster.exec("nobody", ["true"], namespace=namespace)
        assert caught.value.message == 'pods "nobody" not found'

    def test_command_in_a_missing_container(self, cluster: KubeCluster, namespace: str) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        with pytest.raises(BadRequest) as caught:
            cluster.exec("worker", ["true"], namespace=namespace, container="side")
        assert "side" in caught.value.message

    def test_broken_connection_is_not_the_end_of_a_command(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        run_pod(faulty, namespace, "exec sleep 60")
        words = ["sh", "-c", "echo begun; sleep 60"]
        with faulty.exec("worker", words, namespace=namespace) as session:
            chunks = iter(session)
            assert next(chunks).data == b"begun\n"
            faults.cut()
            with pytest.raises(StreamLost):
                next(chunks)
            assert session.exit_code is None

    def test_dead_connection_is_detected(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        run_pod(faulty, namespace, "exec sleep 60")
        words = ["sh", "-c", "echo begun; sleep 60"]
        with faulty.exec("worker", words, namespace=namespace) as session:
            chunks = iter(session)
            assert next(chunks).data == b"begun\n"
            faults.freeze()
            with pytest.raises(StreamLost):
                next(chunks)
            faults.thaw()

    def test_session_can_be_closed_from_another_thread(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "exec sleep 60")
        session = cluster.exec("worker", ["sleep", "60"], namespace=namespace)
        seen: list[Any] = []
        reader = threading.Thread(target=lambda: seen.extend(session))
        reader.start()
        session.close()
        reader.join(180)
        assert not reader.is_alive()
        assert seen == []
        assert session.exit_code is None


def read_all(cluster: KubeCluster, namespace: str, **options: Any) -> bytes:
    options_of_log = LogOptions(container="main", **options)
    with cluster.read_log("worker", namespace=namespace, options=options_of_log) as stream:
        return b"".join(stream)


@pytest.mark.usefixtures("node")
class TestLogs:
    COUNT = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); sleep 0.01; done; printf end"
    WANT = b"".join(b"line %d\n" % i for i in range(300)) + b"end"

    def test_a_followed_log_ends_with_its_container(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, self.COUNT)
        assert read_all(cluster, namespace, follow=True) == self.WANT
        assert read_all(cluster, namespace) == self.WANT
        assert read_all(cluster, namespace, tail_lines=1) == b"end"
        assert read_all(cluster, namespace, follow=True, tail_lines=2) == b"line 299\nend"

    def test_repeatedly_interrupted_log_has_every_line_once(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        run_pod(faulty, namespace, self.COUNT)
        faults.inject(Cut(after_bytes=1500), subresource="log", times=3)
        assert read_all(faulty, namespace, follow=True) == self.WANT
        assert faults.count("get", "pods/log") >= 4

    def test_log_continues_after_a_dead_connection(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        run_pod(faulty, namespace, self.COUNT)
        faults.inject(Stall(after_bytes=1500), subresource="log", times=1)
        assert read_all(faulty, namespace, follow=True) == self.WANT

    def test_log_lines_have_timestamps_on_request(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "echo hello")
        log = read_all(cluster, namespace, follow=True, timestamps=True)
        stamp, _, text = log.partition(b" ")
        assert text == b"hello\n"
        assert stamp.startswith(b"20")

    def test_a_container_that_prints_nothing_has_an_empty_log(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "sleep 0.3")
        assert read_all(cluster, namespace, follow=True) == b""

    def test_log_of_a_missing_pod(self, cluster: KubeCluster, namespace: str) -> None:
        with pytest.raises(NotFound):
            cluster.read_log("nobody", namespace=namespace)

    def test_log_stream_can_be_closed_from_another_thread(
        self, cluster: KubeCluster, namespace: str
    ) -> None:
        run_pod(cluster, namespace, "echo up; exec sleep 60")
        stream = cluster.read_log(
            "worker", namespace=namespace, options=LogOptions(container="main", follow=True)
        )
        pieces = iter(stream)
        assert next(pieces) == b"up\n"
        seen: list[bytes] = []
        reader = threading.Thread(target=lambda: seen.extend(pieces))
        reader.start()
        stream.close()
        reader.join(180)
        assert not reader.is_alive()
        assert seen == []


def read_events(cluster: KubeCluster, namespace: str, since: str, last: str) -> list[str]:
    """Watch the ConfigMaps of a namespace up to one name, and return the events."""
    events = []
    with cluster.watch(
        CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=60
    ) as watch:
        for event in watch:
            events.append(f"{event.type} {event.object['metadata']['name']}")
            if event.object["metadata"]["name"] == last:
                break
    return events


class TestWatches:
    def test_watch_continues_after_a_reset(
        self, faulty: KubeCluster, faults: FaultProxy, admin: ApiClient, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        watch = faulty.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=60
        )
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        with watch:
            for number in range(6):
                admin.post(path, config_map(namespace, f"m-{number}"))
                event = next(watch)
                assert event.object["metadata"]["name"] == f"m-{number}"
                if number % 2:
                    faults.cut(verb="watch")

    def test_idle_watch_continues(
        self, faulty: KubeCluster, faults: FaultProxy, admin: ApiClient, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        faults.inject(Stall(), verb="watch", times=1)
        with pytest.raises(ClusterUnavailable):
            # With short timeouts even opening a watch counts.
            KubeCluster(
                ClusterChoice(kubeconfig=str(faults.kubeconfig)),
                timing=IMPATIENT._replace(first_patience=0.0, watch=1.0, silence=0.2),
            ).watch(CONFIG_MAPS, namespace=namespace, resource_version=since)
        admin.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map(namespace, "one"))
        assert read_events(faulty, namespace, since, "one") == ["ADDED one"]

    def test_half_open_connection_is_detected(
        self, faulty: KubeCluster, faults: FaultProxy, admin: ApiClient, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        with faulty.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=60
        ) as watch:
            faults.freeze()
            admin.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map(namespace, "one"))
            # Longer than the server's timeout of the watch plus our read timeout.
            healing = threading.Timer(IMPATIENT.watch + IMPATIENT.silence + 0.5, faults.heal)
            healing.start()
            assert next(watch).object["metadata"]["name"] == "one"
            healing.join()

    def test_watch_continues_after_the_timeout_of_the_server(
        self, faulty: KubeCluster, faults: FaultProxy, admin: ApiClient, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        with faulty.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=60
        ) as watch:
            later = threading.Timer(
                IMPATIENT.watch * 2,
                lambda: admin.post(
                    f"/api/v1/namespaces/{namespace}/configmaps", config_map(namespace, "late")
                ),
            )
            later.start()
            assert next(watch).object["metadata"]["name"] == "late"
            later.join()
        assert faults.count("watch", "configmaps") >= 2
        assert faults.count("list", "configmaps") <= 3

    def test_compacted_history_is_reported(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        with faulty.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=60
        ) as watch:
            timer = threading.Timer(0.3, lambda: faults.expire_watches("configmaps"))
            timer.start()
            with pytest.raises(Expired):
                next(watch)
            timer.join()

    def test_unreachable_server_is_reported_at_the_end(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        since = faulty.list(CONFIG_MAPS, namespace=namespace).resource_version
        with faulty.watch(CONFIG_MAPS, namespace=namespace, resource_version=since) as watch:
            faults.refuse()
            with pytest.raises(ClusterUnavailable):
                next(watch)


class TestRepeating:
    def test_reads_are_retried_after_refusals_and_resets(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        faulty.create(config_map(namespace))
        for fault in (Refuse(500), Refuse(503), Refuse(429, retry_after=1), Cut(), Cut(40)):
            with faults.inject(fault, resource="configmaps", verb="get", times=1) as injected:
                read = faulty.get(CONFIG_MAPS, "settings", namespace=namespace)
                assert read["data"] == {"colour": "red"}
                assert len(injected.hits) == 1

    def test_reads_are_retried_while_the_server_is_away(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        faulty.create(config_map(namespace))
        faults.refuse()
        back = threading.Timer(1.0, faults.accept)
        back.start()
        assert faulty.get(CONFIG_MAPS, "settings", namespace=namespace)
        back.join()

    def test_create_is_repeated_only_if_it_was_not_processed(
        self, faulty: KubeCluster, faults: FaultProxy, admin: ApiClient, namespace: str
    ) -> None:
        doubtful: tuple[Fault, ...] = (Refuse(500, is_done=True), Cut(after_bytes=10))
        for number, fault in enumerate(doubtful):
            with faults.inject(fault, resource="configmaps", verb="create") as injected:
                with pytest.raises((ClusterUnavailable, InternalError)):
                    faulty.create(config_map(namespace, f"doubtful-{number}"))
                assert len(injected.hits) == 1
            assert admin.get(f"/api/v1/namespaces/{namespace}/configmaps/doubtful-{number}")
        with faults.inject(Refuse(429, retry_after=1), resource="configmaps", times=1):
            assert faulty.create(config_map(namespace, "refused"))
        faults.refuse()
        back = threading.Timer(1.0, faults.accept)
        back.start()
        assert faulty.create(config_map(namespace, "later"))
        back.join()

    def test_processed_write_without_a_response(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        created = faulty.create(config_map(namespace))
        with faults.inject(Cut(after_bytes=10), resource="configmaps", verb="patch", times=1):
            patched = faulty.patch(
                CONFIG_MAPS, "settings", {"data": {"colour": "blue"}}, namespace=namespace
            )
        assert patched["data"] == {"colour": "blue"}
        with faults.inject(Cut(after_bytes=10), resource="configmaps", verb="delete", times=1):
            gone = faulty.delete(
                CONFIG_MAPS, "settings", namespace=namespace, uid=created["metadata"]["uid"]
            )
        assert gone["metadata"]["uid"] == created["metadata"]["uid"]
        with pytest.raises(NotFound):
            faulty.get(CONFIG_MAPS, "settings", namespace=namespace)

    def test_persistent_overload_is_reported(
        self, faulty: KubeCluster, faults: FaultProxy, namespace: str
    ) -> None:
        faults.inject(Refuse(429, retry_after=2), resource="configmaps")
        with pytest.raises(TooManyRequests) as caught:
            faulty.get(CONFIG_MAPS, "settings", namespace=namespace)
        assert caught.value.delay_seconds == 2


class TestWhoWeAre:
    def test_replaced_token_is_read_again(
        self, api_server: LocalCluster, tmp_path: Path, namespace: str
    ) -> None:
        token = tmp_path / "token"
        token.write_text("expired")
        path = api_server.write_kubeconfig(f"rotating-{uuid.uuid4().hex[:6]}", token="unused")
        path.write_text(path.read_text().replace("token: unused", f"tokenFile: {token}"))
        assert "tokenFile" in path.read_text()
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            with pytest.raises(Unauthorized):
                cluster.list(CONFIG_MAPS, namespace=namespace)
            token.write_text(f"{api_server.admin_token}\n")
            time.sleep(5.1)  # Interval at which credentials are renewed.
            assert cluster.list(CONFIG_MAPS, namespace=namespace).resource_version

    def test_forbidden_request_names_the_missing_right(
        self, api_server: LocalCluster, namespace: str
    ) -> None:
        path = api_server.kubeconfig_for("nobody", ["strangers"])
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            with pytest.raises(Forbidden) as caught:
                cluster.list(CONFIG_MAPS, namespace=namespace)
            with pytest.raises(Forbidden):
                cluster.exec("any", ["true"], namespace=namespace)
        assert 'User "nobody" cannot list resource "configmaps"' in caught.value.message

    def test_large_list_is_complete(
        self, cluster: KubeCluster, admin: ApiClient, namespace: str
    ) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for number in range(520):
            admin.post(path, config_map(namespace, f"m-{number:03}"))
        listed = cluster.list(CONFIG_MAPS, namespace=namespace, field_selector="")
        names = [
            listed_map["metadata"]["name"]
            for listed_map in listed
            if listed_map["data"].get("colour")
        ]
        assert names == [f"m-{number:03}" for number in range(520)]
        assert all(listed_map["kind"] == "ConfigMap" for listed_map in listed)
        watched = []
        with cluster.watch(CONFIG_MAPS, namespace=namespace, timeout_seconds=30) as watch:
            for event in watch:
                assert event.type is EventType.ADDED
                watched.append(event.object["metadata"]["name"])
                if len(watched) == len(listed):
                    break

    def test_unserved_kind_has_no_match(self, cluster: KubeCluster) -> None:
        with pytest.raises(NotFound):
            cluster.list(GroupVersionResource("nowhere.example.org", "v1", "things"))
