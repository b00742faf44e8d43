"""A local Kubernetes on loopback: etcd, the API server and the workload controllers."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import yaml

from e2e.cluster.certificates import Certificate, CertificateAuthority, write_signing_key
from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.programs import Programs
from tests.ports import free_port

ADMIN: Final = "e2e-admin"
MASTERS: Final = "system:masters"
READY_SECONDS: Final = 180.0

_LOOPBACK: Final = "127.0.0.1"
_SERVICES: Final = "10.88.0.0/16"
_FIRST_SERVICE: Final = "10.88.0.1"
_GOODBYE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05

# Audit policy: record the requests of ServiceAccounts and the decision on each.
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}

# The kernel kills our children when we end, in whatever way. Children are tied to the thread
# that started them, so that thread has to live as long as they do.
_KEPT: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)


class ClusterNotReady(Exception):
    """A part of the cluster ended, or took too long to start."""


class AuditedRequest(NamedTuple):
    """A request in the audit log. `resource` is written as in a Role: `pods/log`."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    is_allowed: bool

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        target = entry.get("objectRef") or {}
        parts = (target.get("resource", ""), target.get("subresource", ""))
        notes = entry.get("annotations") or {}
        return cls(
            entry["user"]["username"].rpartition(":")[2],
            entry["verb"],
            target.get("apiGroup", ""),
            "/".join(filter(None, parts)),
            target.get("namespace", ""),
            notes.get("authorization.k8s.io/decision") == "allow",
        )


class LocalCluster:
    """One cluster on loopback and below one folder. Stops every process that it starts.

    The API server can be stopped, frozen and started again on the same port with its data.
    `stop` stops everything.
    """

    def __init__(
        self, programs: Programs, folder: Path, *, api_server_flags: Sequence[str] = ()
    ) -> None:
        self.programs = programs
        self.folder = folder
        self.admin_token = secrets.token_hex(16)
        self._flags = tuple(api_server_flags)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("pki", "logs", "etcd"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.ca = CertificateAuthority(folder / "pki")
        self._etcd_port, self._etcd_peer_port, self._port, self._controllers_port = free_ports(4)
        self.url = f"https://{_LOOPBACK}:{self._port}"
        self._write_credentials()
        self.kubeconfig = self.write_kubeconfig(
            "admin", certificate=self.ca.sign_client("admin", ADMIN, [MASTERS])
        )
        self.client = ApiClient(self.url, self.ca.certificate, token=self.admin_token)

    @property
    def version(self) -> str:
        return self.programs.version

    def start(self) -> Self:
        """Start all processes and return when the cluster is usable."""
        try:
            self._start_etcd()
            self.start_api_server()
            self.start_controllers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill all processes. The data is lost."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        self.client.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # API server

    def start_api_server(self, *, wait: bool = True) -> None:
        """Start the API server, always on the same port."""
        self._run("kube-apiserver", self.programs.kube_apiserver, self._api_server_flags())
        if wait:
            self.wait_for_api_server()

    def stop_api_server(self, *, kill: bool = False) -> None:
        """Stop the API server: gracefully if that is quick, otherwise by killing it."""
        self._end("kube-apiserver", signal.SIGKILL if kill else signal.SIGTERM)

    def restart_api_server(self, *, kill: bool = False) -> None:
        self.stop_api_server(kill=kill)
        self.start_api_server()

    def freeze_api_server(self) -> None:
        """Freeze the API server. Connections stay open."""
        self._processes["kube-apiserver"].send_signal(signal.SIGSTOP)

    def thaw_api_server(self) -> None:
        self._processes["kube-apiserver"].send_signal(signal.SIGCONT)

    def wait_for_api_server(self) -> None:
        self._wait("kube-apiserver", self.client.is_ready)

    def audited_requests(self, namespace: str) -> list[AuditedRequest]:
        """Return the recorded requests of the ServiceAccounts of a namespace."""
        account = f"system:serviceaccount:{namespace}:"
        if not self._audit_log.exists():
            return []
        entries = map(json.loads, self._audit_log.read_text(encoding="utf-8").splitlines())
        return [
            AuditedRequest.of(entry)
            for entry in entries
            if entry["user"]["username"].startswith(account)
        ]

    # Workload controllers

    def start_controllers(self, *, wait: bool = True) -> None:
        """Start the controllers that create pods of Deployments and collect garbage."""
        self._run("kube-controller-manager", self.programs.kube_controller_manager, self._manager())
        if wait:
            self._wait("kube-controller-manager", self._has_default_account)

    def stop_controllers(self) -> None:
        self._end("kube-controller-manager", signal.SIGKILL)

    # etcd

    def freeze_etcd(self) -> None:
        """Freeze etcd. The API server waits for it, and fails requests that take too long."""
        self._processes["etcd"].send_signal(signal.SIGSTOP)

    def thaw_etcd(self) -> None:
        self._processes["etcd"].send_signal(signal.SIGCONT)

    def compact_etcd(self) -> int:
        """Compact the history, so that watches from older versions are answered with 410."""
        revision = int(self._ask_etcd("kv/range", {"key": _base64("\0")})["header"]["revision"])
        self._ask_etcd("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    # Credentials

    def write_kubeconfig(
        self,
        name: str,
        *,
        certificate: Certificate | None = None,
        token: str = "",
        url: str = "",
        namespace: str = "default",
    ) -> Path:
        """Write a kubeconfig for a user, directly for the API server or for the proxy at `url`."""
        user: dict[str, str] = {"token": token} if token else {}
        if certificate is not None:
            user = {
                "client-certificate-data": _file_base64(certificate.certificate),
                "client-key-data": _file_base64(certificate.key),
            }
        cluster = {
            "server": url or self.url,
            "certificate-authority-data": _file_base64(self.ca.certificate),
        }
        context = {"cluster": name, "user": name, "namespace": namespace}
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": name, "cluster": cluster}],
                    "users": [{"name": name, "user": user}],
                    "contexts": [{"name": name, "context": context}],
                    "current-context": name,
                }
            ),
            encoding="utf-8",
        )
        return path

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), *, url: str = "") -> Path:
        """Write a kubeconfig for a user who has only the permissions granted by RBAC."""
        name = user.replace(":", "-").replace("/", "-")
        return self.write_kubeconfig(
            name, certificate=self.ca.sign_client(name, user, groups), url=url
        )

    # Internals

    def _write_credentials(self) -> None:
        names = [_LOOPBACK, "localhost", "kubernetes", "kubernetes.default.svc", _FIRST_SERVICE]
        self._serving = self.ca.sign_server("kube-apiserver", names)
        self._signing = write_signing_key(self.folder / "pki")
        # Client certificate of the API server towards nodes.
        self._to_kubelet = self.ca.sign_client("to-kubelet", "kube-apiserver", [MASTERS])
        self._tokens = self.folder / "pki" / "tokens.csv"
        self._tokens.touch(mode=0o600)
        self._tokens.write_text(f'{self.admin_token},{ADMIN},{ADMIN},"{MASTERS}"\n')
        self._audit_log = self.folder / "logs" / "audit.log"
        self._audit_policy = self.folder / "audit-policy.yaml"
        self._audit_policy.write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
        self._manager_config = self.write_kubeconfig(
            "kube-controller-manager",
            certificate=self.ca.sign_client(
                "kube-controller-manager", "system:kube-controller-manager"
            ),
        )

    def _start_etcd(self) -> None:
        client, peer = (
            f"http://{_LOOPBACK}:{port}" for port in (self._etcd_port, self._etcd_peer_port)
        )
        self._run(
            "etcd",
            self.programs.etcd,
            [
                "--name=e2e",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=e2e={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )

    def _api_server_flags(self) -> list[str]:
        minor = int(self.version.split(".")[1])
        # Before 1.36 an API server speaks SPDY to nodes unless this is off. The node of these tests
        # supports WebSocket only.
        speaks_spdy = 31 <= minor < 36
        gates = ["--feature-gates=TranslateStreamCloseWebsocketRequests=false"] * speaks_spdy
        return [
            f"--etcd-servers=http://{_LOOPBACK}:{self._etcd_port}",
            f"--bind-address={_LOOPBACK}",
            f"--advertise-address={_LOOPBACK}",
            f"--secure-port={self._port}",
            # EndpointSlices must not contain loopback addresses, not even those of the API server.
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={_SERVICES}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.ca.certificate}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self._audit_log}",
            "--allow-privileged=true",
            f"--kubelet-certificate-authority={self.ca.certificate}",
            f"--kubelet-client-certificate={self._to_kubelet.certificate}",
            f"--kubelet-client-key={self._to_kubelet.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing.certificate}",
            f"--service-account-signing-key-file={self._signing.key}",
            # Call webhooks at the addresses of their pods, because there is no kube-proxy.
            "--enable-aggregator-routing=true",
            "--profiling=false",
            "--v=1",
            *gates,
            *self._flags,
        ]

    def _manager(self) -> list[str]:
        config = self._manager_config
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--bind-address={_LOOPBACK}",
            f"--secure-port={self._controllers_port}",
            f"--root-ca-file={self.ca.certificate}",
            f"--service-account-private-key-file={self._signing.key}",
            f"--cluster-signing-cert-file={self.ca.pair.certificate}",
            f"--cluster-signing-key-file={self.ca.pair.key}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            # Detect lost nodes quickly.
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=15s",
            "--v=1",
        ]

    def _has_default_account(self) -> bool:
        with contextlib.suppress(ApiFailed, ApiUnreachable):
            self.client.get("/api/v1/namespaces/default/serviceaccounts/default")
            return True
        return False

    def _ask_etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{_LOOPBACK}:{self._etcd_port}/v3/{what}", data=json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            result: dict[str, Any] = json.load(answer)
        return result

    def _run(self, name: str, program: Path, words: Sequence[str]) -> None:
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEPT, str(os.getpid()), program, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Keep Ctrl-C from these processes: they are stopped explicitly.
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if not _is_proxy(key)},
            )

    def _end(self, name: str, number: int) -> None:
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(timeout=_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, name: str, is_ready: Any) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            if self._processes[name].poll() is not None:
                raise ClusterNotReady(f"{name} has ended: {self._last_words(name)}")
            if time.monotonic() > deadline:
                raise ClusterNotReady(f"{name} is not ready: {self._last_words(name)}")
            time.sleep(_LOOK_SECONDS)

    def _last_words(self, name: str) -> str:
        text = (self.folder / "logs" / f"{name}.log").read_text(errors="replace")
        return "\n" + "\n".join(text.splitlines()[-15:])


def free_ports(count: int) -> list[int]:
    """Return free ports on loopback that stay reserved while a server restarts."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


def _is_proxy(variable: str) -> bool:
    return variable.lower() in {"http_proxy", "https_proxy", "all_proxy"}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _file_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
