"""Kubernetes adapter against a scripted server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice, ClusterConfigInvalid
from kanister_py.adapters.cluster_kube.error_responses import Subject, error_of
from kanister_py.core.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ClusterUnavailable,
    Conflict,
    Expired,
    InternalError,
    NoMatch,
    NotFound,
    RequestTimeout,
    RequestTooLarge,
    TooManyRequests,
    Unauthorized,
    UsageError,
)
from kanister_py.core.kube.managed_fields import ApplyConflict
from kanister_py.core.kube.resources import CONFIG_MAPS, GroupVersionResource
from kanister_py.ports.cluster import LogOptions
from tests.adapters.kubeconfigs import kubeconfig
from tests.fake_clock import FakeClock


class Heard(NamedTuple):
    """One request, as received by the server."""

    method: str
    path: str
    authorization: str
    body: Any
    impersonated: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


_NOTHING: Mapping[str, Any] = {}


class Answer(NamedTuple):
    """Scripted response; a body that is not text is sent as JSON. `is_cut` breaks it off."""

    body: Any = _NOTHING
    code: int = 200
    headers: Mapping[str, str] = _NOTHING
    is_cut: bool = False


class Script:
    """Server that sends its responses in order, and then only 404."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.answers: list[Answer | Callable[[Heard], Answer]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                sent = self.rfile.read(length)
                body = json.loads(sent) if sent else None
                authorization = self.headers.get("Authorization") or ""
                user = self.headers.get("Impersonate-User", "")
                heard = Heard(self.command, self.path, authorization, body, user)
                script.heard.append(heard)
                answer = script.answers.pop(0) if script.answers else Answer("", 404)
                response = answer if isinstance(answer, Answer) else answer(heard)
                text = (
                    response.body if isinstance(response.body, str) else json.dumps(response.body)
                )
                data = text.encode()
                self.send_response(response.code)
                more = 10 if response.is_cut else 0
                self.send_header("Content-Length", str(len(data) + more))
                for key, value in response.headers.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = response.is_cut

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 # as its base wants them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the base's word
                """Print nothing: tests report their failures themselves."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def says(self, *answers: Answer | Callable[[Heard], Answer]) -> None:
        self.answers.extend(answers)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Script]:
    script = Script()
    yield script
    script.close()


@pytest.fixture
def cluster(server: Script, tmp_path: Path) -> Iterator[KubeCluster]:
    choice = ClusterChoice(kubeconfig=str(kubeconfig(tmp_path, server.url)))
    with KubeCluster(choice, clock=FakeClock(jumps=True)) as cluster:
        yield cluster


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    answer = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return {**answer, "message": message or reason, "details": details}


def get(cluster: KubeCluster) -> Mapping[str, Any]:
    return cluster.get(CONFIG_MAPS, "settings", namespace="shop")


class TestImpersonation:
    USER = "system:serviceaccount:shop:backup"

    def test_impersonated_requests_have_own_credentials(
        self, cluster: KubeCluster, server: Script
    ) -> None:
        server.says(Answer({"kind": "ConfigMap"}), Answer({"kind": "ConfigMap"}))
        get(cluster.acting_as(self.USER))
        get(cluster)
        acting, own = server.heard
        assert (acting.impersonated, own.impersonated) == (self.USER, "")
        assert acting.authorization == own.authorization != ""

    def test_rejected_credentials_are_renewed(self, cluster: KubeCluster, server: Script) -> None:
        server.says(*[Answer(status(401, "Unauthorized"), 401)] * 3)
        with pytest.raises(Unauthorized):
            get(cluster.acting_as(self.USER))
        assert {heard.impersonated for heard in server.heard} == {self.USER}

    def test_user_with_a_line_break_is_rejected(self, cluster: KubeCluster) -> None:
        with pytest.raises(UsageError):
            get(cluster.acting_as("a\r\nX-Other: b"))


class TestAnswers:
    @pytest.mark.parametrize(
        ("code", "answer", "want"),
        [
            pytest.param(404, status(404, "NotFound", "gone"), NotFound, id="no such object"),
            pytest.param(404, {}, NoMatch, id="no such address"),
            pytest.param(409, status(409, "AlreadyExists"), AlreadyExists, id="the name is taken"),
            pytest.param(409, status(409, "Conflict"), Conflict, id="somebody was faster"),
            pytest.param(410, status(410, "Expired"), Expired, id="the history is gone"),
            pytest.param(410, status(410, "Gone"), Expired, id="so said by older servers"),
            pytest.param(413, {}, RequestTooLarge, id="too large for the server"),
            pytest.param(
                500,
                status(500, "", "etcdserver: request is too large"),
                RequestTooLarge,
                id="too large for its store",
            ),
            pytest.param(429, status(429, "TooManyRequests"), TooManyRequests, id="too busy"),
            pytest.param(500, {}, InternalError, id="a failure of its own"),
            pytest.param(503, {}, ClusterUnavailable, id="away for the moment"),
            pytest.param(504, status(504, "Timeout"), RequestTimeout, id="not done in time"),
            pytest.param(418, {}, BadRequest, id="a refusal nobody knows"),
            pytest.param(599, {}, InternalError, id="a failure nobody knows"),
        ],
    )
    def test_error_responses_are_classified(
        self, code: int, answer: Mapping[str, Any], want: type[ApiError]
    ) -> None:
        assert type(error_of(code, answer, Subject("configmaps", "settings"))) is want

    def test_apply_conflict_names_the_managers(self) -> None:
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "kubectl" using apps/v1',
                "field": ".spec.replicas",
            }
        ]
        error = error_of(409, status(409, "Conflict", "Apply failed", causes=causes), Subject())
        assert isinstance(error, ApplyConflict)
        assert error.conflicts == (("kubectl", ".spec.replicas"),)


class TestRequests:
    def test_reads_are_retried(self, server: Script, cluster: KubeCluster) -> None:
        server.says(
            Answer(code=503, headers={"Retry-After": "1"}),
            Answer(code=500),
            Answer('{"kind": "Conf', is_cut=True),
            Answer({"kind": "ConfigMap"}),
        )
        assert get(cluster) == {"kind": "ConfigMap"}
        assert len(server.heard) == 4

    def test_persistent_failure_is_raised_after_three_attempts(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(*[Answer(status(500, "InternalError", "no webhook"), 500)] * 9)
        with pytest.raises(InternalError) as caught:
            get(cluster)
        assert caught.value.message == "no webhook"
        assert len(server.heard) == 3

    @pytest.mark.parametrize("code", [500, 502, 503, 504])
    def test_create_is_not_retried_after_a_failure(
        self, server: Script, cluster: KubeCluster, code: int
    ) -> None:
        server.says(Answer(code=code, headers={"Retry-After": "1"}), Answer({"kind": "ConfigMap"}))
        with pytest.raises(ApiError):
            cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}})
        assert len(server.heard) == 1

    def test_create_is_retried_after_too_many_requests(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(Answer(code=429, headers={"Retry-After": "7"}), Answer({"kind": "ConfigMap"}))
        began = cluster._requests.clock.monotonic()
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}})
        assert len(server.heard) == 2
        assert cluster._requests.clock.monotonic() - began >= 7

    def test_json_patch_is_not_retried(self, server: Script, cluster: KubeCluster) -> None:
        server.says(Answer(code=503), Answer({"kind": "ConfigMap"}))
        with pytest.raises(ClusterUnavailable):
            cluster.patch(CONFIG_MAPS, "s", [{"op": "add", "path": "/data/a", "value": "b"}])
        assert len(server.heard) == 1

    def test_delete_is_retried_only_with_a_precondition(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(Answer(code=503), Answer(status(200)))
        with pytest.raises(ClusterUnavailable):
            cluster.delete(CONFIG_MAPS, "s")
        server.answers.clear()
        gone = Answer(status(404, "NotFound", 'configmaps "s" not found'), 404)
        server.says(Answer(code=503), gone)
        assert cluster.delete(CONFIG_MAPS, "s", uid="u-1")["metadata"]["uid"] == "u-1"
        server.says(gone)
        with pytest.raises(NotFound):
            cluster.delete(CONFIG_MAPS, "s", uid="u-1")

    def test_special_characters_in_names_are_escaped(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        with pytest.raises(NotFound):
            cluster.get(CONFIG_MAPS, "s?x#é", namespace="shop")
        assert server.heard[0].path == "/api/v1/namespaces/shop/configmaps/s%3Fx%23%C3%A9"
        with pytest.raises(BadRequest):
            cluster.get(CONFIG_MAPS, "")
        assert len(server.heard) == 1

    def test_unreachable_server_fails_quickly(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path, "http://127.0.0.1:1")
        clock = FakeClock(jumps=True)
        with KubeCluster(ClusterChoice(kubeconfig=str(path)), clock=clock) as cluster:
            began = clock.monotonic()
            with pytest.raises(ClusterUnavailable) as caught:
                get(cluster)
            assert clock.monotonic() - began <= 2
        assert "http://127.0.0.1:1 cannot be reached: " in caught.value.message
        assert "s3cr3t" not in caught.value.message

    def test_request_after_close_fails_without_reading_files(self, tmp_path: Path) -> None:
        path, authority = kubeconfig(tmp_path, "https://127.0.0.1:1"), tmp_path / "ca.crt"
        test_authority = X509Certificates(SystemClock()).new_authority("test", timedelta(days=1))
        authority.write_text(test_authority.certificate)
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = str(authority)
        path.write_text(json.dumps(config))
        cluster = KubeCluster(ClusterChoice(kubeconfig=str(path)), clock=FakeClock(jumps=True))
        with pytest.raises(ClusterUnavailable):
            get(cluster)
        cluster.close()
        authority.unlink()
        with pytest.raises(ClusterUnavailable):
            get(cluster)


class TestCredentials:
    def test_rejected_token_is_read_again_once(self, server: Script, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old\n")
        path = kubeconfig(tmp_path, server.url, {"tokenFile": str(token)})

        def renew(_: Heard) -> Answer:
            token.write_text("new\n")
            return Answer(status(401, "Unauthorized"), 401)

        server.says(renew, Answer({"kind": "ConfigMap"}))
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            assert get(cluster)
        assert [request.authorization for request in server.heard] == ["Bearer old", "Bearer new"]

    def test_token_that_remains_invalid_is_an_error(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(*[Answer(status(401, "Unauthorized"), 401)] * 3)
        with pytest.raises(Unauthorized) as caught:
            get(cluster)
        assert len(server.heard) == 1
        assert "s3cr3t" not in str(caught.value)

    def test_plugin_returns_credentials(self, server: Script, tmp_path: Path) -> None:
        answer = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": "from-plugin"},
        }
        plugin = {
            "apiVersion": answer["apiVersion"],
            "command": sys.executable,
            "args": ["-c", f"print('''{json.dumps(answer)}''')"],
            "interactiveMode": "Never",
        }
        path = kubeconfig(tmp_path, server.url, {"exec": plugin})
        server.says(Answer({"kind": "ConfigMap"}))
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            assert get(cluster)
        assert server.heard[0].authorization == "Bearer from-plugin"

    def test_failed_plugin_is_an_error(self, server: Script, tmp_path: Path) -> None:
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}
        path = kubeconfig(tmp_path, server.url, {"exec": plugin})
        with pytest.raises(ClusterConfigInvalid) as caught:
            KubeCluster(ClusterChoice(kubeconfig=str(path)))
        assert "/bin/false" in caught.value.why

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            pytest.param("[", "YAML", id="no YAML"),
            pytest.param("", "empty", id="nothing"),
            pytest.param("{}", "context", id="no contexts"),
            pytest.param('{"contexts": [{"name": "c"}]}', "context", id="nothing but a name"),
        ],
    )
    def test_invalid_kubeconfig_is_named(self, tmp_path: Path, text: str, why: str) -> None:
        path = tmp_path / "config"
        path.write_text(text)
        with pytest.raises(ClusterConfigInvalid) as caught:
            KubeCluster(ClusterChoice(kubeconfig=str(path)))
        assert str(path) in caught.value.message
        assert why in caught.value.why

    def test_context_sets_the_default_namespace(self, server: Script, tmp_path: Path) -> None:
        path = str(kubeconfig(tmp_path, server.url))
        for choice, want in (
            (ClusterChoice(path), "default"),
            (ClusterChoice(path, "shop"), "shop"),
            (ClusterChoice(path, "shop", "mine"), "mine"),
        ):
            with KubeCluster(choice) as cluster:
                assert cluster.default_namespace == want
        with pytest.raises(ClusterConfigInvalid) as caught:
            KubeCluster(ClusterChoice(path, "shp"))
        assert caught.value.why == "there is no context 'shp'; available: here, shop"


class TestDiscovery:
    THINGS = GroupVersionResource("example.org", "v1", "things")
    ROWS = (
        {"name": "things", "kind": "Thing", "namespaced": True},
        {"name": "things/status", "kind": "Thing", "namespaced": True},
    )

    def test_group_is_discovered_once(self, server: Script, cluster: KubeCluster) -> None:
        server.says(Answer({"resources": list(self.ROWS)}))
        kind = cluster.resource_for("example.org/v1", "Thing")
        assert (kind.gvr, kind.has_status, kind.has_scale) == (self.THINGS, True, False)
        assert cluster.describe(self.THINGS) == kind
        assert [str(request) for request in server.heard] == ["GET /apis/example.org/v1"]

    def test_unknown_kind_is_discovered_again(self, server: Script, cluster: KubeCluster) -> None:
        server.says(Answer({"resources": []}))
        with pytest.raises(NoMatch):
            cluster.resource_for("example.org/v1", "Thing")
        server.says(Answer({"resources": list(self.ROWS)}))
        assert cluster.resource_for("example.org/v1", "Thing").gvr == self.THINGS

    def test_builtin_kinds_need_no_discovery(self, server: Script, cluster: KubeCluster) -> None:
        assert cluster.resource_for("apps/v1", "Deployment").has_scale
        assert server.heard == []

    def test_changed_definition_is_discovered_after_a_minute(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(Answer({"resources": list(self.ROWS[:1])}))
        assert not cluster.describe(self.THINGS).has_status
        cluster._requests.clock.sleep(61)
        server.says(Answer({"resources": list(self.ROWS)}))
        assert cluster.describe(self.THINGS).has_status


class TestSchemas:
    def index(self, mark: str) -> Answer:
        return Answer(
            {
                "paths": {
                    "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=core"},
                    "apis/apps/v1": {"serverRelativeURL": f"/openapi/v3/apis/apps/v1?hash={mark}"},
                }
            }
        )

    def description(self, text: str) -> Answer:
        def kinds(*names: str) -> dict[str, Any]:
            gvk = [{"group": "apps", "version": "v1", "kind": name} for name in names]
            return {"type": "object", "x-kubernetes-group-version-kind": gvk}

        spec = {"allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}}
        schemas = {
            "Deployment": {**kinds("Deployment"), "properties": {"spec": spec}},
            "DaemonSet": kinds("DaemonSet"),
            "Options": kinds("Deployment", "DaemonSet"),
            "Spec": {"type": "object", "description": text},
        }
        return Answer({"paths": {}, "components": {"schemas": schemas}})

    def description_of_spec(self, cluster: KubeCluster) -> str:
        schema = cluster.schema_of("apps/v1", "Deployment")
        assert schema is not None
        (spec,) = schema["properties"]["spec"]["allOf"]
        return str(spec["description"])

    def heard_by(self, server: Script) -> list[str]:
        paths = [request.path for request in server.heard]
        server.heard.clear()
        return paths

    def test_unchanged_schema_is_fetched_once(self, server: Script, cluster: KubeCluster) -> None:
        server.says(self.index("a"), self.description("first"))
        assert [self.description_of_spec(cluster) for _again in range(3)] == ["first"] * 3
        assert self.heard_by(server) == ["/openapi/v3", "/openapi/v3/apis/apps/v1"]
        cluster._requests.clock.sleep(61)
        server.says(self.index("a"))
        assert self.description_of_spec(cluster) == "first"
        assert self.heard_by(server) == ["/openapi/v3"]
        cluster._requests.clock.sleep(61)
        server.says(self.index("b"), self.description("second"))
        assert self.description_of_spec(cluster) == "second"
        assert self.heard_by(server) == ["/openapi/v3", "/openapi/v3/apis/apps/v1"]

    def test_other_kinds_of_the_group_have_schemas(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(self.index("a"), self.description("first"), self.description("first"))
        assert self.description_of_spec(cluster) == "first"
        assert (cluster.schema_of("apps/v1", "DaemonSet") or {})["type"] == "object"
        assert self.description_of_spec(cluster) == "first"
        assert len(server.heard) == 3

    def test_missing_schema_is_fetched_again_after_a_pause(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        server.says(self.index("a"), self.description("first"))
        for _again in range(3):
            assert cluster.schema_of("apps/v1", "Sandwich") is None
            assert cluster.schema_of("kitchen.org/v1", "Sandwich") is None
        assert len(self.heard_by(server)) == 2
        cluster._requests.clock.sleep(6)
        server.says(self.index("a"))
        assert cluster.schema_of("kitchen.org/v1", "Sandwich") is None
        assert self.heard_by(server) == ["/openapi/v3"]

    @pytest.mark.parametrize("code", [403, 404, 500])
    @pytest.mark.parametrize("is_indexed", [True, False], ids=["one of them", "all of them"])
    def test_forbidden_schemas_are_missing_and_logged_once(
        self,
        server: Script,
        cluster: KubeCluster,
        caplog: pytest.LogCaptureFixture,
        code: int,
        is_indexed: bool,
    ) -> None:
        refused = [Answer(status(code), code)] * (3 if code == 500 else 1)
        for _minute in range(3):
            server.says(*([self.index("a")] if is_indexed else []), *refused)
            assert cluster.schema_of("apps/v1", "Deployment") is None
            heard = len(server.heard)
            assert cluster.schema_of("apps/v1", "DaemonSet") is None
            assert len(server.heard) == heard
            cluster._requests.clock.sleep(61)
        (answer,) = [
            record.getMessage() for record in caplog.records if record.levelname == "WARNING"
        ]
        assert "/openapi/v3" in answer
        server.says(self.index("a"), self.description("first"))
        assert self.description_of_spec(cluster) == "first"

    def test_cached_schema_is_used_while_the_server_is_down(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        away = [Answer(code=503)] * 100
        server.says(*away)
        with pytest.raises(ClusterUnavailable):
            cluster.schema_of("apps/v1", "Deployment")
        server.answers.clear()
        server.says(self.index("a"), self.description("first"))
        assert self.description_of_spec(cluster) == "first"
        for answers in (away, [self.index("b"), *away]):
            cluster._requests.clock.sleep(61)
            server.says(*answers)
            assert self.description_of_spec(cluster) == "first"
            server.answers.clear()


def pod(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"kind": "Pod", "status": status}


class TestLogs:
    def test_resumed_log_has_every_line_of_an_instant_once(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        at = "2026-01-02T03:04:05.000000001Z"
        later = "2026-01-02T03:04:05.5Z"
        ended = {
            "kind": "Pod",
            "status": {"containerStatuses": [{"name": "m", "state": {"terminated": {}}}]},
        }
        running = {
            "kind": "Pod",
            "status": {"containerStatuses": [{"name": "m", "state": {"running": {}}}]},
        }
        server.says(
            Answer(f"{at} one\n{at} one\n{at} tw", is_cut=True),
            Answer(running),
            Answer(f"{at} one\n{at} one\n{at} two\n{later} th", is_cut=True),
            Answer(running),
            # In another time zone, and with an earlier line.
            Answer(
                "2026-01-02T04:04:04.9+01:00 zero\n"
                f"{at} one\n{at} one\n{at} two\n2026-01-02T04:04:05.500000000+01:00 three"
            ),
            Answer(ended),
        )
        options = LogOptions(container="m", follow=True, tail_lines=2)
        with cluster.read_log("p", namespace="shop", options=options) as stream:
            assert b"".join(stream) == b"one\none\ntwo\nthree"
        log_paths = [request.path for request in server.heard if "/log" in request.path]
        assert "tailLines=2" in log_paths[0]
        assert "sinceTime" not in log_paths[0]
        assert all("sinceTime=2026-01-02T03%3A04%3A05" in path for path in log_paths[1:])
        assert all("tailLines" not in path for path in log_paths[1:])

    def test_log_is_resumed_after_a_server_shutdown(
        self, server: Script, cluster: KubeCluster
    ) -> None:
        ended = {
            "kind": "Pod",
            "status": {"containerStatuses": [{"name": "m", "state": {"terminated": {}}}]},
        }
        first, second = "2026-01-02T03:04:05.5Z one\n", "2026-01-02T03:04:06Z two\n"
        server.says(
            Answer(first),
            *[Answer(status(500, "InternalError"), 500)] * 3,
            Answer(first + second),
            Answer(ended),
        )
        options = LogOptions(container="m", follow=True)
        with cluster.read_log("p", namespace="shop", options=options) as stream:
            assert b"".join(stream) == b"one\ntwo\n"

    def test_restarted_container_has_a_new_log(self, server: Script, cluster: KubeCluster) -> None:
        again = {
            "name": "m",
            "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2026-01-02T03:04:06Z"}},
        }
        server.says(
            Answer("2026-01-02T03:04:05.5Z one\n"),
            Answer({"status": {"containerStatuses": [again]}}),
        )
        options = LogOptions(container="m", follow=True)
        with cluster.read_log("p", namespace="shop", options=options) as stream:
            assert b"".join(stream) == b"one\n"


def test_commands_without_cluster_do_not_import_the_client() -> None:
    code = (
        "import sys; import kanister_py.cli.run, kanister_py.cli.plan, kanister_py.cli.rbac; "
        "import kanister_py.wiring; import kanister_py.adapters.cluster_kube.cluster; "
        "print({'kubernetes', 'urllib3', 'websocket'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
