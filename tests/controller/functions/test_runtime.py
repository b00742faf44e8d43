"""Runtimes of active FunctionRevisions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.controller.functions.runtime import FunctionRuntime
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import DEPLOYMENTS, SECRETS, SERVICES
from kanister_py.core.revisions.functions import revision_of
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.functions.function_entries import ENTRIES
from tests.controller.part_tools import function_tools, part_tools
from tests.fake_clock import FakeClock

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"
SYSTEM = "kanister-py"
NAME = "function-x-1234567"


class RuntimeHarness(NamedTuple):
    """A cluster whose Deployments become ready when a test decides."""

    cluster: MemoryCluster
    clock: FakeClock
    runtime: FunctionRuntime
    addresses: dict[str, list[str]]

    def revision(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        self.cluster.create(
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "FunctionRevision",
                "metadata": {
                    "name": NAME,
                    "labels": {"pkg.crossplane.io/package": "function-x"},
                    "annotations": annotations or {},
                },
                "spec": {
                    "desiredState": "Active",
                    "image": f"r.example.org/team/function-x@sha256:{'0' * 64}",
                    "revision": 1,
                    **spec,
                },
            }
        )

    def revision_object(self) -> KubeObject:
        return self.cluster.get(FUNCTION_REVISIONS, NAME)

    def deployment(self) -> KubeObject:
        return self.cluster.get(DEPLOYMENTS, NAME, namespace=SYSTEM)

    def come_up(self) -> None:
        """Make the Deployment and the endpoints of its Service ready."""
        deployment = self.deployment()
        status = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "conditions": [{"type": "Available", "status": "True"}],
        }
        self.cluster.replace_status({**deployment, "status": status})
        self.addresses[NAME] = ["10.0.0.1"]

    def set_state(self, state: str) -> None:
        obj = self.revision_object()
        obj["spec"]["desiredState"] = state
        self.cluster.replace(obj)

    def health(self) -> tuple[str, str]:
        for condition in self.revision_object()["status"]["conditions"]:
            if condition["type"] == "RuntimeHealthy":
                return condition["status"], condition.get("message", "")
        raise AssertionError("there is no condition RuntimeHealthy")


@pytest.fixture
def harness() -> RuntimeHarness:
    clock = FakeClock()
    cluster = MemoryCluster(clock=clock)
    for name in ("functionrevisions", "deploymentruntimeconfigs"):
        path = CRDS / f"{name}.yaml"
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    certificates = X509Certificates(clock)
    addresses: dict[str, list[str]] = {}
    runtime = FunctionRuntime(
        part_tools(cluster, clock),
        function_tools(ENTRIES, certificates=certificates),
        CompositionSettings(SYSTEM, drains_for=timedelta(seconds=30)),
        CertificateKeeper(cluster, certificates, clock),
        lambda name: addresses.get(name, []),
    )
    return RuntimeHarness(cluster, clock, runtime, addresses)


def test_an_active_revision_gets_a_deployment_and_serves_when_it_is_ready(
    harness: RuntimeHarness,
) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    assert harness.health()[0] == "False"
    assert not revision_of(harness.revision_object()).is_routable
    harness.come_up()
    harness.runtime.reconcile(NAME)
    assert harness.health() == ("True", "")
    revision = revision_of(harness.revision_object())
    assert revision.is_routable
    assert revision.endpoint == f"dns:///{NAME}.{SYSTEM}:9443"
    service = harness.cluster.get(SERVICES, NAME, namespace=SYSTEM)
    assert service["spec"]["clusterIP"] == "None"
    pod = harness.deployment()["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_its_pods_run_the_package_by_digest_without_privileges(harness: RuntimeHarness) -> None:
    harness.revision(packagePullSecrets=[{"name": "pull"}])
    harness.runtime.reconcile(NAME)
    pod = harness.deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"].endswith(f"@sha256:{'0' * 64}")
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["TLS_SERVER_CERTS_DIR"] == "/tls/server"
    assert environment["REVISION_NAME"] == NAME


def test_its_certificate_has_the_names_of_its_service(harness: RuntimeHarness) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    secret = harness.cluster.get(SECRETS, f"{NAME}-tls-server", namespace=SYSTEM)
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner["name"] == NAME


def test_a_runtime_config_is_merged_into_the_deployment(harness: RuntimeHarness) -> None:
    harness.cluster.create(
        {
            "apiVersion": "pkg.crossplane.io/v1beta1",
            "kind": "DeploymentRuntimeConfig",
            "metadata": {"name": "big"},
            "spec": {
                "deploymentTemplate": {
                    "metadata": {"labels": {"team": "data"}},
                    "spec": {
                        "replicas": 3,
                        "selector": {"matchLabels": {"not": "ours"}},
                        "template": {
                            "spec": {
                                "containers": [
                                    {"name": "package-runtime", "command": ["serve", "--debug"]}
                                ]
                            }
                        },
                    },
                }
            },
        }
    )
    harness.revision(runtimeConfigRef={"name": "big"})
    harness.runtime.reconcile(NAME)
    deployment = harness.deployment()
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["labels"]["team"] == "data"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["serve", "--debug"]
    assert container["image"]
    assert "not" not in deployment["spec"]["selector"]["matchLabels"]


def test_a_missing_runtime_config_is_an_error(harness: RuntimeHarness) -> None:
    harness.revision(runtimeConfigRef={"name": "gone"})
    with pytest.raises(NotFound):
        harness.runtime.reconcile(NAME)


def test_the_pods_of_an_inactive_revision_are_deleted_after_a_delay(
    harness: RuntimeHarness,
) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    harness.come_up()
    harness.runtime.reconcile(NAME)
    harness.set_state("Inactive")
    left = harness.runtime.reconcile(NAME)
    assert left is not None
    assert 0 < left <= 30
    assert harness.deployment()
    harness.clock.advance(31)
    assert harness.runtime.reconcile(NAME) is None
    with pytest.raises(NotFound):
        harness.deployment()


def test_a_revision_that_is_active_again_is_healthy_again(harness: RuntimeHarness) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    harness.set_state("Inactive")
    harness.runtime.reconcile(NAME)
    harness.clock.advance(31)
    harness.runtime.reconcile(NAME)
    harness.set_state("Active")
    harness.runtime.reconcile(NAME)
    harness.come_up()
    harness.runtime.reconcile(NAME)
    assert harness.health()[0] == "True"


def test_a_renewed_certificate_rolls_out_new_pods_first(
    harness: RuntimeHarness,
) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    before = harness.deployment()["spec"]["template"]["metadata"]["annotations"]
    harness.clock.advance(timedelta(days=61).total_seconds())
    harness.runtime.reconcile(NAME)
    after = harness.deployment()["spec"]["template"]["metadata"]["annotations"]
    assert before != after
    assert harness.deployment()["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_a_second_reconcile_writes_nothing(harness: RuntimeHarness) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    harness.come_up()
    harness.runtime.reconcile(NAME)

    def versions() -> list[str]:
        kept = [(DEPLOYMENTS, NAME), (SERVICES, NAME), (SECRETS, f"{NAME}-tls-server")]
        objects = [harness.cluster.get(kind, name, namespace=SYSTEM) for kind, name in kept]
        return [
            revision["metadata"]["resourceVersion"]
            for revision in [*objects, harness.revision_object()]
        ]

    before = versions()
    harness.runtime.reconcile(NAME)
    assert versions() == before


def test_a_manually_changed_deployment_is_reverted(harness: RuntimeHarness) -> None:
    harness.revision()
    harness.runtime.reconcile(NAME)
    changed = harness.deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "something:else"
    harness.cluster.replace(changed)
    harness.runtime.reconcile(NAME)
    (container,) = harness.deployment()["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("r.example.org")


@pytest.mark.parametrize(
    ("image", "tag", "endpoint", "detail"),
    [
        pytest.param(
            "function-auto-ready",
            "",
            "v0.3.0",
            "Runs function-auto-ready v0.3.0, the stable",
            id="without a tag, the stable version",
        ),
        pytest.param("function-auto-ready", "v0.4.0", "v0.4.0", "", id="a version"),
        pytest.param("function-auto-ready", "0.4.0", "v0.4.0", "", id="a version without v"),
        pytest.param(
            "function-auto-ready",
            "v0.2.0",
            "v0.2.0",
            "is deprecated since release 0.3.0",
            id="deprecated version with a notice",
        ),
        pytest.param(
            "function-auto-ready",
            "v0.1.0",
            "",
            "v0.1.0 was removed in release 0.4.0; set the tag of spec.package to v0.3.0",
            id="removed version with its replacement",
        ),
        pytest.param(
            "function-auto-ready",
            "v9.9.9",
            "",
            "has no version that matches v9.9.9: v0.1.0 was "
            "removed in release 0.4.0; v0.2.0 is deprecated; v0.3.0 is stable",
            id="unknown version with the existing ones",
        ),
        pytest.param(
            "function-auto-ready",
            "v0.5.0",
            "",
            "has no version that matches v0.5.0",
            id="planned version",
        ),
        pytest.param(
            "function-auto-ready", "main", "", "'main' is not a version", id="tag is not a version"
        ),
        pytest.param("function-none", "", "", "function-none", id="not a built-in function"),
    ],
)
def test_an_in_process_revision_runs_the_version_that_its_tag_names(
    harness: RuntimeHarness, image: str, tag: str, endpoint: str, detail: str
) -> None:
    annotations = {"kanister-py.io/runtime": "InProcess"}
    if tag:
        annotations["kanister-py.io/package-tag"] = tag
    harness.revision(annotations=annotations, image=f"r.example.org/contrib/{image}@sha256:1")
    harness.runtime.reconcile(NAME)
    status, message = harness.health()
    assert status == ("True" if endpoint else "False")
    assert detail in message
    actual = revision_of(harness.revision_object()).endpoint
    assert actual == (f"builtin:{image}@{endpoint}" if endpoint else "")
    assert harness.cluster.list(DEPLOYMENTS).items == []


def test_an_external_revision_has_the_annotated_endpoint(harness: RuntimeHarness) -> None:
    annotations = {"kanister-py.io/runtime": "External"}
    harness.revision(annotations=annotations)
    harness.runtime.reconcile(NAME)
    assert harness.health()[0] == "False"
    obj = harness.revision_object()
    obj["metadata"]["annotations"]["kanister-py.io/endpoint"] = "dns:///elsewhere:9443"
    harness.cluster.replace(obj)
    harness.runtime.reconcile(NAME)
    assert harness.health()[0] == "True"
    assert revision_of(harness.revision_object()).endpoint == "dns:///elsewhere:9443"
