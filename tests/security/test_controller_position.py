"""The controller's position in the cluster, which runs of tenants may not use."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.core.kube.privileges import PrivilegesRaised, check_privileges
from kanister_py.executor.confinement import ConfinedStores
from kanister_py.functions.blueprint.http_request.exchange import Exchange, Security
from kanister_py.functions.blueprint.http_request.request import Address, Request
from kanister_py.ports.confinement import Confinement, ControllerPositionNotLent
from kanister_py.ports.object_store import ObjectStore, ObjectStores
from kanister_py.wiring import object_stores

TENANT = Confinement("mallory", refused_addresses=frozenset({"10.96.0.1"}))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "10.96.0.1",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:10.96.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
    ],
)
def test_addresses_of_the_controllers_surroundings_are_refused(address: str) -> None:
    with pytest.raises(ControllerPositionNotLent) as refused:
        TENANT.check_address(address)
    assert refused.value.reason == "ControllerPositionNotLent"


@pytest.mark.parametrize("address", ["10.0.0.7", "192.0.2.1", "2001:db8::1", "100.64.0.1"])
def test_other_addresses_are_allowed(address: str) -> None:
    TENANT.check_address(address)


def test_the_operator_allows_a_network() -> None:
    opened = TENANT._replace(allowed_networks=("127.0.0.0/30",))
    opened.check_address("127.0.0.1")
    opened.check_address("::ffff:127.0.0.1")
    with pytest.raises(ControllerPositionNotLent):
        opened.check_address("127.0.0.9")


class Handler(BaseHTTPRequestHandler):
    """Responds to every GET with a secret of the controller's surroundings."""

    def do_GET(self) -> None:
        self.server.heard.append(self.path)  # type: ignore[attr-defined] # set by the fixture
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"metadata")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        return


@pytest.fixture
def metadata_service() -> Iterator[HTTPServer]:
    with ExitStack() as stack:
        server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Handler))
        server.heard = []  # type: ignore[attr-defined] # recorded requests
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(server.shutdown)
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001"])
def test_a_request_to_the_loopback_is_refused_in_every_spelling(
    metadata_service: HTTPServer, host: str
) -> None:
    request = Request("GET", Address.of(f"http://{host}:{metadata_service.server_port}/x"), {})
    try:
        socket.getaddrinfo(host, 80)
    except OSError:
        pytest.skip(f"this machine's resolver does not read {host}")
    with pytest.raises(ControllerPositionNotLent):
        Exchange(Security(), 5, TENANT).run(request)
    assert metadata_service.heard == []  # type: ignore[attr-defined] # set by the fixture
    response = Exchange(Security(), 5).run(request)
    assert response.body == b"metadata"


def test_a_proxy_of_the_controller_is_refused(
    metadata_service: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{metadata_service.server_port}")
    monkeypatch.setenv("no_proxy", "")
    request = Request("GET", Address.of("http://192.0.2.1/x"), {})
    with pytest.raises(ControllerPositionNotLent):
        Exchange(Security(uses_proxy=True), 5, TENANT).run(request)
    assert metadata_service.heard == []  # type: ignore[attr-defined] # set by the fixture


class Stores:
    """Object stores that open any location."""

    def addresses_of(self, _location: Location) -> frozenset[str]:
        return frozenset()

    def open(self, location: Location) -> ObjectStore:
        return cast("ObjectStore", location)

    def place_of(self, location: Location) -> Location:
        return location

    def with_keys(self, location: Location) -> Location:
        return location


FOLDER = Location(StoreKind.FILE, "backups", "/data")
WITHOUT_KEYS = Location(StoreKind.S3, "backups", credential=Credential(role="admin"))
WITH_KEYS = Location(StoreKind.S3, "backups", credential=Credential("id", "secret"))


def confined(confinement: Confinement = TENANT) -> ObjectStores:
    return ConfinedStores(Stores(), confinement)


@pytest.mark.parametrize("location", [FOLDER, WITHOUT_KEYS], ids=["folder", "ambient"])
def test_folders_and_cloud_credentials_of_the_controller_are_refused(location: Location) -> None:
    with pytest.raises(ControllerPositionNotLent):
        confined().open(location)
    with pytest.raises(ControllerPositionNotLent):
        confined().with_keys(location)


def test_a_store_with_its_own_credential_is_opened() -> None:
    assert confined().open(WITH_KEYS) == cast("Any", WITH_KEYS)


@pytest.mark.parametrize(
    "location",
    [
        WITH_KEYS._replace(endpoint="http://169.254.169.254"),
        WITH_KEYS._replace(endpoint="127.0.0.1:9000"),
        WITH_KEYS._replace(endpoint="https://10.96.0.1"),
        WITH_KEYS._replace(region="x@[::1]:6443/"),
        Location(StoreKind.AZURE, "backups", credential=Credential("127.0.0.1/", "secret")),
        Location(StoreKind.GCS, "backups", "localhost:9000", credential=Credential("p", "{}")),
    ],
    ids=["metadata", "loopback", "API server", "region", "storage account", "host name"],
)
def test_a_profile_cannot_name_a_server_of_the_controllers_surroundings(location: Location) -> None:
    stores = ConfinedStores(object_stores(), TENANT)
    with pytest.raises(ControllerPositionNotLent):
        stores.open(location)
    with pytest.raises(ControllerPositionNotLent):
        stores.with_keys(location)


def test_the_operator_allows_the_address_of_a_store() -> None:
    opened = TENANT._replace(allowed_networks=("127.0.0.0/30",))
    location = WITH_KEYS._replace(endpoint="http://127.0.0.1:9000")
    assert ConfinedStores(object_stores(), opened).with_keys(location) == location


def test_a_folder_that_replaces_buckets_has_no_address(tmp_path: Path) -> None:
    location = WITH_KEYS._replace(endpoint="http://127.0.0.1:9000")
    ConfinedStores(object_stores(tmp_path), TENANT).open(location)


def test_the_operator_allows_folders_and_cloud_credentials() -> None:
    with_folders = TENANT._replace(allows_file_locations=True)
    assert confined(with_folders).open(FOLDER) == cast("Any", FOLDER)
    with_roles = TENANT._replace(allows_ambient_credentials=True)
    assert confined(with_roles).open(WITHOUT_KEYS) == cast("Any", WITHOUT_KEYS)


SPEC: Mapping[str, Any] = {
    "containers": [
        {
            "name": "main",
            "securityContext": {
                "runAsNonRoot": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            },
        }
    ],
    "serviceAccountName": "backup",
}
MAIN = SPEC["containers"][0]


def secured(**context: Any) -> list[dict[str, Any]]:
    return [{**MAIN, "securityContext": {**MAIN["securityContext"], **context}}]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"hostNetwork": True}, id="hostNetwork"),
        pytest.param({"hostPID": True}, id="hostPID"),
        pytest.param({"hostIPC": True}, id="hostIPC"),
        pytest.param({"nodeName": "n"}, id="nodeName"),
        pytest.param({"serviceAccountName": "admin"}, id="serviceAccountName"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, id="hostPath"),
        pytest.param({"securityContext": {"runAsUser": 0}}, id="root"),
        pytest.param({"containers": secured(privileged=True)}, id="privileged"),
        pytest.param({"containers": secured(runAsNonRoot=None)}, id="restriction removed"),
        pytest.param({"containers": secured(runAsUser=0)}, id="root in a container"),
        pytest.param(
            {"containers": secured(allowPrivilegeEscalation=True)}, id="privilege escalation"
        ),
        pytest.param(
            {"containers": secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})},
            id="capability",
        ),
        pytest.param({"containers": secured(capabilities={})}, id="dropped capability"),
        pytest.param(
            {"containers": [MAIN, {"name": "new", "securityContext": {"privileged": True}}]},
            id="privileged sidecar",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "ports": [{"hostPort": 22}]}]}, id="hostPort"
        ),
    ],
)
def test_an_override_cannot_raise_privileges(change: Mapping[str, Any]) -> None:
    with pytest.raises(PrivilegesRaised):
        check_privileges(SPEC, {**SPEC, **change}, "podOverride")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="nodeSelector"),
        pytest.param({"containers": [{**MAIN, "image": "other"}]}, id="image"),
        pytest.param({"containers": secured(readOnlyRootFilesystem=True)}, id="restriction"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, id="emptyDir"),
    ],
)
def test_other_overrides_are_allowed(change: Mapping[str, Any]) -> None:
    check_privileges(SPEC, {**SPEC, **change}, "podOverride")
