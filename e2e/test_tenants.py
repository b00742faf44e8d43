"""Two tenants on a real API server with RBAC: no ActionSet reaches the other one's objects."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
import yaml

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.conftest import Kubectl, make_namespace
from e2e.controllers import install_definitions, until
from tests.security.tenant_fields import FIELDS, NOTHING, PASSWORD, Case, grant, tenant

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "/apis/cr.kanister.io/v1alpha1"
HOME = "kanister-home"
OWN, FOREIGN, GRANTED = "mallory", "victim", "opened"
CONTROLLER = "kanister-controller"
OUTSIDE = "is outside of namespace mallory"
NODELESS = {name: case for name, case in FIELDS.items() if not case.needs_node}

SUBJECTS: Final[Mapping[str, Callable[[str], Mapping[str, str]]]] = {
    "User": lambda _: {"apiGroup": "rbac.authorization.k8s.io"},
    "ServiceAccount": lambda namespace: {"namespace": namespace},
}


def allow(
    admin: ApiClient, user: str, namespace: str, *rules: Mapping[str, Any], kind: str = "User"
) -> None:
    metadata = {"name": user, "namespace": namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata}
    admin.post(f"{RBAC}/namespaces/{namespace}/roles", {**role, "rules": list(rules)})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"kind": kind, "name": user, **SUBJECTS[kind](namespace)}],
    }
    admin.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)


def rule(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["*"]}


@pytest.fixture(scope="module")
def tenants(admin: ApiClient) -> Iterator[None]:
    """Create namespaces: two tenants, the controller, and one that grants everything."""
    install_definitions(admin)
    text = files("kanister_py.crds").joinpath("referencegrants.yaml").read_text("utf-8")
    with contextlib.suppress(ApiFailed):
        admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(text))
    paths = "/apis/kanister-py.io/v1alpha1/referencegrants"

    def is_served() -> bool:
        try:
            admin.get(paths)
        except ApiFailed:
            return False
        return True

    until(is_served)
    places = (HOME, OWN, FOREIGN, GRANTED)
    for name in places:
        make_namespace(admin, name)
        allow(admin, CONTROLLER, name, rule("*", "*"))
    allow(admin, "mallory", OWN, rule("cr.kanister.io", "actionsets", "blueprints"))
    yield
    for name in places:
        with contextlib.suppress(ApiFailed):
            admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def controller(
    tenants: None,  # noqa: ARG001 # wanted for its effect
    api_server: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Run a controller that serves all four namespaces, and return its log."""
    log = tmp_path_factory.mktemp("controller") / "log"
    named = [f"--namespace={name}" for name in (HOME, OWN, FOREIGN, GRANTED)]
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("KANISTER_PY")
    }
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kanister_py",
                "controller",
                "--no-http",
                "--kubeconfig",
                str(api_server.kubeconfig_for(CONTROLLER)),
                "--home",
                HOME,
                "--identity",
                "one-pod",
                *named,
                "--impersonate-service-accounts",
            ],
            env=environment,
            stderr=stderr,
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def mallory(api_server: LocalCluster) -> Kubectl:
    """Run kubectl as a user who can only write ActionSets and Blueprints of one namespace."""
    return Kubectl(api_server.programs.kubectl, api_server.kubeconfig_for("mallory"))


@pytest.fixture(scope="module")
def objects(admin: ApiClient, kubectl: Kubectl, controller: Path) -> None:  # noqa: ARG001 # order
    """Create a workload, Secrets and a Profile for each tenant; the third grants everything."""
    manifests = [obj for name in (OWN, FOREIGN, GRANTED) for obj in tenant(name)]
    kinds = {kind for case in FIELDS.values() for kind in case.kinds}
    manifests.append(grant(*sorted(kinds), of=GRANTED))
    done = kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests).encode())
    assert done.returncode == 0, done.stderr


class Run(Protocol):
    """Runs an ActionSet with a field that names an object of a namespace; returns its status."""

    def __call__(self, field: str, case: Case, where: str, **spec: Any) -> Mapping[str, Any]: ...


@pytest.fixture
def run(objects: None, admin: ApiClient, mallory: Kubectl, controller: Path) -> Run:  # noqa: ARG001 # order
    """Run an ActionSet of the user mallory with a field that names an object in a namespace."""

    def start(field: str, case: Case, where: str, **spec: Any) -> Mapping[str, Any]:
        name = "-".join([field, where, *map(str, spec.values())]).lower()
        phase = case.phase(where) if case.phase is not None else NOTHING
        own = {"kind": "Namespace", "name": OWN, "namespace": OWN}
        action = {"name": "go", "blueprint": name, "object": own, **case.action(where)}
        metadata = {"name": name, "namespace": OWN}
        manifests = [
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": metadata,
                "actions": {"go": {"phases": [dict(phase)]}},
            },
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "ActionSet",
                "metadata": metadata,
                "spec": {"actions": [action], **spec},
            },
        ]
        done = mallory("create", "-f", "-", stdin=yaml.safe_dump_all(manifests).encode())
        assert done.returncode == 0, done.stderr

        def ended() -> Mapping[str, Any] | None:
            status = admin.get(f"{GROUP}/namespaces/{OWN}/actionsets/{name}").get("status") or {}
            return status if status.get("state") in ("complete", "failed") else None

        try:
            status: Mapping[str, Any] = until(ended)
        except AssertionError as error:
            raise AssertionError(controller.read_text()) from error
        return status

    return start


@pytest.mark.parametrize("field", FIELDS)
def test_object_of_another_tenant_is_refused(
    run: Run, mallory: Kubectl, admin: ApiClient, controller: Path, field: str
) -> None:
    refused = mallory("get", "secret", "db", "-n", FOREIGN)
    assert b"Forbidden" in refused.stderr or b"forbidden" in refused.stderr
    before = admin.get(f"/api/v1/namespaces/{FOREIGN}/configmaps/db")
    status = run(field, FIELDS[field], FOREIGN)
    assert status["state"] == "failed"
    assert OUTSIDE in json.dumps(status)
    assert PASSWORD not in json.dumps(status)
    assert PASSWORD not in controller.read_text()
    events = admin.get(f"/api/v1/namespaces/{OWN}/events")
    assert PASSWORD not in json.dumps(events)
    assert admin.get(f"/api/v1/namespaces/{FOREIGN}/configmaps/db") == before
    own = admin.get(f"/api/v1/namespaces/{OWN}/configmaps/db")
    assert set(own["data"]) <= {"password", "a"}


@pytest.mark.parametrize("field", NODELESS)
def test_granted_object_is_allowed(run: Run, field: str) -> None:
    assert OUTSIDE not in json.dumps(run(field, FIELDS[field], GRANTED))


@pytest.mark.parametrize("field", NODELESS)
def test_own_object_needs_no_grant(run: Run, field: str) -> None:
    assert OUTSIDE not in json.dumps(run(field, FIELDS[field], OWN))


@pytest.fixture(scope="module")
def backup(admin: ApiClient, kubectl: Kubectl, objects: None) -> str:  # noqa: ARG001 # wanted for its effect
    """Create a ServiceAccount that can only use ConfigMaps of its namespace."""
    name = "backup"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    admin.post(f"/api/v1/namespaces/{OWN}/serviceaccounts", account)
    # Tests of other fields delete and change the objects of this namespace.
    done = kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(tenant(OWN)).encode())
    assert done.returncode == 0, done.stderr
    rules = [rule("", "configmaps"), {**rule("", "namespaces"), "verbs": ["get"]}]
    allow(admin, name, OWN, *rules, kind="ServiceAccount")
    user = f"--as=system:serviceaccount:{OWN}:{name}"
    # The authorizer learns of a new Role a moment later.
    until(lambda: kubectl("auth", "can-i", "get", "configmaps", "-n", OWN, user).returncode == 0)
    return name


def test_run_has_the_rights_of_its_service_account(run: Run, backup: str) -> None:
    status = run("configMaps", FIELDS["configMaps"], OWN, serviceAccountName=backup)
    assert status["state"] == "complete", status


def test_run_has_no_other_rights_than_its_service_account(run: Run, backup: str) -> None:
    status = run("secrets", FIELDS["secrets"], OWN, serviceAccountName=backup)
    assert status["state"] == "failed"
    assert "system:serviceaccount:mallory:backup" in json.dumps(status)
