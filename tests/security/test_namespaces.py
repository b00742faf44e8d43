"""Namespaces as a boundary: access of an ActionSet to objects of another tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, cast

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.reference_grants import REFERENCE_GRANTS, ReferenceNotGranted
from kanister_py.core.kube.resources import ACTION_SETS, CONFIG_MAPS, PODS, SECRETS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.confinement import ConfinedCluster, ReferenceGrants
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.wiring import read_functions
from tests.security.tenant_fields import (
    FIELDS,
    NOTHING,
    PASSWORD,
    Case,
    grant,
    kube_ops,
    manifest,
    tenant,
)

PATIENCE_SECONDS = 120.0
REASON = "ReferenceNotGranted"


def definitions() -> Iterator[Mapping[str, Any]]:
    for name in ("actionsets", "blueprints", "profiles", "referencegrants"):
        text = files("kanister_py.crds").joinpath(f"{name}.yaml").read_text("utf-8")
        yield from (document.value for document in parse_documents(text))


class RecordingCluster:
    """Cluster that records the kinds and namespaces of requests."""

    runs_pods = False

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.asked: list[tuple[str, str]] = []

    def as_cluster(self) -> Cluster:
        return cast("Cluster", self)

    def note(self, kind: str, namespace: str) -> None:
        self.asked.append((kind, namespace))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            first = args[0] if args else None
            if isinstance(first, Mapping):
                namespace = str((first.get("metadata") or {}).get("namespace") or "")
                self.note(str(first.get("kind")), namespace)
            else:
                resource = getattr(first, "resource", "pods")
                self.note(resource, str(options.get("namespace") or ""))
            return method(*args, **options)

        return call


class Tenants:
    """Cluster with two tenants, served by a controller in a third namespace."""

    def __init__(
        self, recording: type[RecordingCluster] = RecordingCluster, **settings: Any
    ) -> None:
        clock = SystemClock()
        self.cluster = MemoryCluster(clock=clock)
        for obj in (*definitions(), *tenant("mallory"), *tenant("victim")):
            self.cluster.create(obj)
        self.requests = recording(self.cluster)
        functions = read_functions()
        self.controller = Controller(
            self.requests.as_cluster(),
            FunctionSource(functions.registry, load_function),
            clock=clock,
            settings=ControllerSettings(
                namespaces=("kanister", "mallory", "victim"),
                home="kanister",
                terms=LeaseTerms(term_seconds=600, acts_for_seconds=500),
                **settings,
            ),
        )
        self.controller.start()

    def run(
        self, namespace: str, action: Mapping[str, Any], *phases: Any, **spec: Any
    ) -> Mapping[str, Any]:
        """Run an ActionSet and its Blueprint in a namespace, and return its status."""
        blueprint = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "b", "namespace": namespace},
            "actions": {"go": {"phases": list(phases)}},
        }
        own = {"kind": "Namespace", "name": namespace, "namespace": namespace}
        go = {"name": "go", "blueprint": "b", "object": own, **action}
        actionset = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "ActionSet",
            "metadata": {"name": "one", "namespace": namespace},
            "spec": {"actions": [go], **spec},
        }
        self.requests.asked.clear()
        self.cluster.create(blueprint)
        self.cluster.create(actionset)
        with self.cluster.watch(
            ACTION_SETS, namespace=namespace, timeout_seconds=PATIENCE_SECONDS
        ) as watch:
            for event in watch:
                status = event.object.get("status") or {}
                if status.get("state") in ("complete", "failed"):
                    return cast("Mapping[str, Any]", status)
        raise AssertionError("the ActionSet did not end")

    def requested_kinds(self, namespace: str) -> set[str]:
        """Return the requested kinds in a namespace, without requests of the controller itself."""
        own = {"referencegrants", "actionsets", "blueprints", "events", "Event"}
        return {kind for kind, where in self.requests.asked if where == namespace} - own


@pytest.fixture
def tenants() -> Iterator[Tenants]:
    created_tenants = Tenants()
    try:
        yield created_tenants
    finally:
        created_tenants.controller.kill()


def run_case(tenants: Tenants, case: Case, where: str) -> Mapping[str, Any]:
    phase = case.phase(where) if case.phase is not None else NOTHING
    return tenants.run("mallory", case.action(where), phase)


COMMAND: dict[str, Any] = {"image": "i", "command": ["true"]}
TASK = {"func": "KubeTask", "name": "task", "args": COMMAND}

# Cases that need a node are in the end-to-end tests.
NODELESS = [pytest.param(case, id=name) for name, case in FIELDS.items() if not case.needs_node]


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in FIELDS.items()])
def test_a_foreign_object_is_refused_before_it_is_read(tenants: Tenants, case: Case) -> None:
    # Pods are enabled, so that phases are refused because of the boundary.
    tenants.requests.runs_pods = True
    status = run_case(tenants, case, "victim")
    assert status["state"] == "failed"
    assert "is outside of namespace mallory" in str(status)
    assert PASSWORD not in str(status)
    assert tenants.requested_kinds("victim") == set()
    stolen = tenants.cluster.get(CONFIG_MAPS, "db", namespace="mallory")["data"]
    assert set(stolen) == {"password"}


@pytest.mark.parametrize("case", NODELESS)
def test_a_granted_object_is_reached(tenants: Tenants, case: Case) -> None:
    tenants.cluster.create(grant(*case.kinds))
    status = run_case(tenants, case, "victim")
    assert "is outside of namespace" not in str(status)
    assert tenants.requested_kinds("victim") != set()


@pytest.mark.parametrize("case", NODELESS)
def test_an_own_object_needs_no_grant(tenants: Tenants, case: Case) -> None:
    status = run_case(tenants, case, "mallory")
    assert "is outside of namespace" not in str(status)


def test_an_actionset_of_the_home_namespace_reaches_every_namespace(tenants: Tenants) -> None:
    case = FIELDS["KubeOps-patch"]
    assert case.phase is not None
    status = tenants.run("kanister", {}, case.phase("victim"))
    assert status["state"] == "complete"


def test_kube_ops_without_a_namespace_uses_default_and_is_refused(tenants: Tenants) -> None:
    reference = {"apiVersion": "v1", "resource": "configmaps", "name": "db"}
    status = tenants.run("mallory", {}, kube_ops(operation="delete", objectReference=reference))
    assert status["error"]["reason"] == REASON
    assert "default" in status["error"]["message"]


@pytest.mark.parametrize(
    "spec",
    [
        "{apiVersion: v1, kind: Namespace, metadata: {name: new}}",
        "{apiVersion: v1, kind: Namespace, metadata: {name: new, namespace: mallory}}",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: new}}",
        (
            "{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent, "
            "metadata: {name: new}, spec: {volumeSnapshotRef: {namespace: victim, name: s}}}"
        ),
    ],
)
def test_cluster_scoped_objects_are_refused(tenants: Tenants, spec: str) -> None:
    status = tenants.run("mallory", {}, kube_ops(operation="create", spec=spec))
    assert status["state"] == "failed"
    assert REASON in str(status)


def test_an_actionset_cannot_create_a_privileged_pod(tenants: Tenants) -> None:
    tenants.requests.runs_pods = True
    args = {"namespace": "mallory", "image": "i", "command": ["true"]}
    action = {"podOverride": {"hostPID": True, "containers": [{"name": "container"}]}}
    status = tenants.run("mallory", action, {"func": "KubeTask", "name": "task", "args": args})
    assert status["error"]["reason"] == "PrivilegesRaised"
    assert tenants.cluster.list(PODS, namespace="mallory", label_selector="createdBy").items == []


def test_a_pod_without_a_namespace_is_created_in_that_of_the_actionset(tenants: Tenants) -> None:
    # The pod is created, and the phase waits until its timeout.
    tenants.requests.runs_pods = True
    tenants.run("mallory", {}, {**TASK, "timeout": "1s"})
    created = [where for kind, where in tenants.requests.asked if kind == "Pod"]
    assert created == ["mallory"]


class ImpersonatingCluster(RecordingCluster):
    """Cluster that records the account of every request."""

    user = ""

    def acting_as(self, user: str) -> Cluster:
        acting = ImpersonatingCluster(self._cluster)
        acting.user, acting.asked, acting.runs_pods = user, self.asked, self.runs_pods
        return acting.as_cluster()

    def note(self, kind: str, _: str) -> None:
        self.asked.append((kind, self.user))


ACCOUNT = "system:serviceaccount:mallory:backup"


@pytest.fixture
def impersonating() -> Iterator[Tenants]:
    created_tenants = Tenants(ImpersonatingCluster, impersonates=True)
    try:
        yield created_tenants
    finally:
        created_tenants.controller.kill()


@pytest.mark.parametrize("where", ["spec", "annotation"])
def test_a_run_and_its_pods_act_as_the_named_account(impersonating: Tenants, where: str) -> None:
    annotations = {"kanister-py.io/service-account": "backup"} if where == "annotation" else {}
    metadata = {"name": "mallory", "annotations": annotations}
    impersonating.cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, field_manager="test"
    )
    spec = {"serviceAccountName": "backup"} if where == "spec" else {}
    impersonating.requests.runs_pods = True
    args = {**COMMAND, "podOverride": {"serviceAccountName": "admin"}}
    phase = {**TASK, "args": args, "timeout": "1s"}
    before = impersonating.cluster.list(PODS, namespace="mallory").resource_version
    impersonating.run("mallory", FIELDS["secrets"].action("mallory"), phase, **spec)
    requests = impersonating.requests.asked
    # The controller watches pods, and the run then reads them under its account.
    assert {user for kind, user in requests if kind in ("secrets", "Pod")} == {ACCOUNT}
    with impersonating.cluster.watch(
        PODS, namespace="mallory", resource_version=before, timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        pod = next(watch).object
    assert pod["spec"]["serviceAccountName"] == "backup"


def test_an_account_is_refused_if_impersonation_is_off(tenants: Tenants) -> None:
    status = tenants.run("mallory", {}, TASK, serviceAccountName="backup")
    assert status["error"]["reason"] == "ImpersonationDisabled"


# The confined cluster itself


@pytest.fixture
def confined() -> Cluster:
    clock = SystemClock()
    cluster = MemoryCluster(clock=clock)
    for obj in (*definitions(), *tenant("mallory"), *tenant("victim")):
        cluster.create(obj)
    return ConfinedCluster(cluster, "mallory", ReferenceGrants(cluster, clock)).as_cluster()


SECRET = manifest("Secret", "victim", "db")
REQUESTS: dict[str, Callable[[Cluster], Any]] = {
    "get": lambda cluster: cluster.get(SECRETS, "db", namespace="victim"),
    "list": lambda cluster: cluster.list(SECRETS, namespace="victim"),
    "watch": lambda cluster: cluster.watch(SECRETS, namespace="victim"),
    "create": lambda cluster: cluster.create(SECRET),
    "replace": lambda cluster: cluster.replace(SECRET),
    "replace_status": lambda cluster: cluster.replace_status(SECRET),
    "apply": lambda cluster: cluster.apply(SECRET, field_manager="m"),
    "patch": lambda cluster: cluster.patch(SECRETS, "db", {}, namespace="victim"),
    "delete": lambda cluster: cluster.delete(SECRETS, "db", namespace="victim"),
    "scale": lambda cluster: cluster.scale(SECRETS, "db", 0, namespace="victim"),
    "read_log": lambda cluster: cluster.read_log("db-0", namespace="victim"),
    "exec": lambda cluster: cluster.exec("db-0", ["true"], namespace="victim"),
}


def test_every_request_of_the_port_is_listed() -> None:
    answers = {
        "resource_for",
        "describe",
        "schema_of",
        "runs_pods",
        "default_namespace",
        "acting_as",
    }
    names = {name for name in vars(Cluster) if not name.startswith("_")}
    assert names - answers == set(REQUESTS)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_every_request_to_another_namespace_is_refused(
    confined: Cluster, request_: Callable[[Cluster], Any]
) -> None:
    with pytest.raises(ReferenceNotGranted) as refused:
        request_(confined)
    assert refused.value.target.namespace == "victim"


def test_a_list_without_a_namespace_uses_the_own_one(confined: Cluster) -> None:
    secrets = confined.list(SECRETS)
    assert {obj["metadata"]["namespace"] for obj in secrets} == {"mallory"}
    assert {obj["metadata"]["namespace"] for obj in confined.list(PODS)} == {"mallory"}


def test_an_object_without_a_namespace_is_created_in_the_own_one(confined: Cluster) -> None:
    created = confined.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}})
    assert created["metadata"]["namespace"] == "mallory"
    assert confined.default_namespace == "mallory"


MALLORY = [{"namespace": "mallory"}]
A_SECRET = {"group": "", "kind": "Secret"}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"from": [{"namespace": "other"}], "to": [A_SECRET]}, id="other namespace"),
        pytest.param({"from": MALLORY, "to": [{"group": "", "kind": "Pod"}]}, id="other kind"),
        pytest.param({"from": MALLORY, "to": [{**A_SECRET, "name": "x"}]}, id="other name"),
        pytest.param({"from": MALLORY, "to": [{**A_SECRET, "nmae": "x"}]}, id="unknown key"),
        pytest.param(
            {"from": [{"namespace": "*"}], "to": [{"group": "*", "kind": "*"}]}, id="wildcards"
        ),
        pytest.param({}, id="empty"),
    ],
)
def test_a_grant_only_allows_the_objects_that_it_names(spec: Mapping[str, Any]) -> None:
    clock = SystemClock()
    cluster = MemoryCluster(clock=clock)
    for obj in tenant("victim"):
        cluster.create(obj) if obj["kind"] != "Profile" else None

    class GrantingCluster:
        def list(self, resource: Any, **options: Any) -> Any:
            listed = cluster.list(SECRETS, **options)
            if resource != REFERENCE_GRANTS:
                return listed
            listed.items[:] = [{**grant(), "spec": spec}]
            return listed

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

    granting = cast("Cluster", GrantingCluster())
    confined = ConfinedCluster(granting, "mallory", ReferenceGrants(granting, clock))
    with pytest.raises(ReferenceNotGranted):
        confined.get(SECRETS, "db", namespace="victim")


def test_a_deleted_grant_has_no_effect() -> None:
    class Clock:
        time = 0.0

        def monotonic(self) -> float:
            return self.time

    clock = Clock()
    cluster = MemoryCluster(clock=SystemClock())
    for obj in (*definitions(), *tenant("victim")):
        cluster.create(obj)
    cluster.create(grant(("", "Secret")))
    grants = ReferenceGrants(cluster, cast("Any", clock))
    confined = ConfinedCluster(cluster, "mallory", grants)
    secret: KubeObject = confined.get(SECRETS, "db", namespace="victim")
    assert secret["metadata"]["namespace"] == "victim"
    cluster.delete(REFERENCE_GRANTS, "opened", namespace="victim")
    clock.time = 10.0
    with pytest.raises(KanisterError, match="mallory"):
        confined.get(SECRETS, "db", namespace="victim")
