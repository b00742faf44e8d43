"""Runtime of functions: something answers for each active revision, and for no other."""

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
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.revisions.functions import revision_of
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.part_tools import function_tools, part_tools
from tests.fake_clock import FakeClock

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"
SYSTEM = "kanister-py"
NAME = "function-x-1234567"


def entries() -> Registry[FunctionEntry]:
    """A function with versions in every stage of their lives, as of release 0.4.0."""
    lives = {
        "v0.1.0": Listing(
            deprecated_in=parse_version("0.2.0"),
            removed_in=parse_version("0.4.0"),
            replacement=parse_version("v0.3.0"),
        ),
        "v0.2.0": Listing(
            deprecated_in=parse_version("0.3.0"), replacement=parse_version("v0.3.0")
        ),
        "v0.3.0": Listing(),
        "v0.4.0": Listing(),
        "v0.5.0": Listing(since=parse_version("0.5.0")),
    }
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    made = [
        FunctionEntry(
            "function-auto-ready",
            parse_version(text),
            FunctionKind.COMPOSITION,
            source,
            None if text == "v0.1.0" else object,
            listing,
            is_stable=text == "v0.3.0",
        )
        for text, listing in lives.items()
    ]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(made, default_of(made))
    return builder.build()


ENTRIES = entries()


class World(NamedTuple):
    """A cluster whose Deployments come up when a test says so."""

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

    def found(self) -> KubeObject:
        return self.cluster.get(FUNCTION_REVISIONS, NAME)

    def deployment(self) -> KubeObject:
        return self.cluster.get(DEPLOYMENTS, NAME, namespace=SYSTEM)

    def come_up(self) -> None:
        """Do what a cluster's controllers do for a Deployment and its Service."""
        deployment = self.deployment()
        status = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "conditions": [{"type": "Available", "status": "True"}],
        }
        self.cluster.replace_status({**deployment, "status": status})
        self.addresses[NAME] = ["10.0.0.1"]

    def set_state(self, state: str) -> None:
        found = self.found()
        found["spec"]["desiredState"] = state
        self.cluster.replace(found)

    def health(self) -> tuple[str, str]:
        for each in self.found()["status"]["conditions"]:
            if each["type"] == "RuntimeHealthy":
                return each["status"], each.get("message", "")
        raise AssertionError("nothing is said of its health")


@pytest.fixture
def world() -> World:
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
    return World(cluster, clock, runtime, addresses)


def test_an_active_revision_gets_all_that_runs_it_and_serves_when_it_is_up(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    assert world.health()[0] == "False"
    assert not revision_of(world.found()).is_routable
    world.come_up()
    world.runtime.reconcile(NAME)
    assert world.health() == ("True", "")
    found = revision_of(world.found())
    assert found.is_routable
    assert found.endpoint == f"dns:///{NAME}.{SYSTEM}:9443"
    service = world.cluster.get(SERVICES, NAME, namespace=SYSTEM)
    assert service["spec"]["clusterIP"] == "None"
    pod = world.deployment()["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_its_pods_run_the_package_by_its_digest_and_may_do_nothing(world: World) -> None:
    world.revision(packagePullSecrets=[{"name": "pull"}])
    world.runtime.reconcile(NAME)
    pod = world.deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"].endswith(f"@sha256:{'0' * 64}")
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["TLS_SERVER_CERTS_DIR"] == "/tls/server"
    assert environment["REVISION_NAME"] == NAME


def test_its_certificate_bears_the_names_of_its_own_service(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    secret = world.cluster.get(SECRETS, f"{NAME}-tls-server", namespace=SYSTEM)
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner["name"] == NAME


def test_a_runtime_config_is_laid_over_the_deployment(world: World) -> None:
    world.cluster.create(
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
    world.revision(runtimeConfigRef={"name": "big"})
    world.runtime.reconcile(NAME)
    deployment = world.deployment()
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["labels"]["team"] == "data"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["serve", "--debug"]
    assert container["image"]
    assert "not" not in deployment["spec"]["selector"]["matchLabels"]


def test_a_runtime_config_that_is_not_there_is_an_error(world: World) -> None:
    world.revision(runtimeConfigRef={"name": "gone"})
    with pytest.raises(NotFound):
        world.runtime.reconcile(NAME)


def test_what_is_no_longer_active_answers_for_a_while_and_then_goes(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    world.come_up()
    world.runtime.reconcile(NAME)
    world.set_state("Inactive")
    left = world.runtime.reconcile(NAME)
    assert left is not None
    assert 0 < left <= 30
    assert world.deployment()
    world.clock.advance(31)
    assert world.runtime.reconcile(NAME) is None
    with pytest.raises(NotFound):
        world.deployment()


def test_a_revision_that_is_active_again_comes_back(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    world.set_state("Inactive")
    world.runtime.reconcile(NAME)
    world.clock.advance(31)
    world.runtime.reconcile(NAME)
    world.set_state("Active")
    world.runtime.reconcile(NAME)
    world.come_up()
    world.runtime.reconcile(NAME)
    assert world.health()[0] == "True"


def test_a_renewed_certificate_brings_new_pods_before_the_old_ones_go(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    before = world.deployment()["spec"]["template"]["metadata"]["annotations"]
    world.clock.advance(timedelta(days=61).total_seconds())
    world.runtime.reconcile(NAME)
    after = world.deployment()["spec"]["template"]["metadata"]["annotations"]
    assert before != after
    assert world.deployment()["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_nothing_is_written_where_nothing_changed(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    world.come_up()
    world.runtime.reconcile(NAME)

    def versions() -> list[str]:
        kept = [(DEPLOYMENTS, NAME), (SERVICES, NAME), (SECRETS, f"{NAME}-tls-server")]
        found = [world.cluster.get(kind, name, namespace=SYSTEM) for kind, name in kept]
        return [each["metadata"]["resourceVersion"] for each in [*found, world.found()]]

    before = versions()
    world.runtime.reconcile(NAME)
    assert versions() == before


def test_a_deployment_that_somebody_changed_is_put_right(world: World) -> None:
    world.revision()
    world.runtime.reconcile(NAME)
    changed = world.deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "something:else"
    world.cluster.replace(changed)
    world.runtime.reconcile(NAME)
    (container,) = world.deployment()["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("r.example.org")


@pytest.mark.parametrize(
    ("image", "tag", "endpoint", "detail"),
    [
        pytest.param(
            "function-auto-ready",
            "",
            "v0.3.0",
            "Runs function-auto-ready v0.3.0, the stable",
            id="without a tag, the stable version, and which that is",
        ),
        pytest.param("function-auto-ready", "v0.4.0", "v0.4.0", "", id="a version"),
        pytest.param("function-auto-ready", "0.4.0", "v0.4.0", "", id="in its other spelling"),
        pytest.param(
            "function-auto-ready",
            "v0.2.0",
            "v0.2.0",
            "is deprecated since release 0.3.0",
            id="a deprecated one works, and says so",
        ),
        pytest.param(
            "function-auto-ready",
            "v0.1.0",
            "",
            "v0.1.0 was removed in release 0.4.0; set the tag of spec.package to v0.3.0",
            id="a removed one is refused with its replacement",
        ),
        pytest.param(
            "function-auto-ready",
            "v9.9.9",
            "",
            "has no version that answers v9.9.9: v0.1.0 was "
            "removed in release 0.4.0; v0.2.0 is deprecated; v0.3.0 is stable",
            id="one that nobody knows, with what exists",
        ),
        pytest.param(
            "function-auto-ready",
            "v0.5.0",
            "",
            "has no version that answers v0.5.0",
            id="one that is planned is not known yet",
        ),
        pytest.param(
            "function-auto-ready", "main", "", "'main' is not a version", id="no version at all"
        ),
        pytest.param("function-none", "", "", "function-none", id="none of ours"),
    ],
)
def test_a_function_in_this_process_runs_exactly_the_version_that_its_tag_names(
    world: World, image: str, tag: str, endpoint: str, detail: str
) -> None:
    annotations = {"kanister-py.io/runtime": "InProcess"}
    if tag:
        annotations["kanister-py.io/package-tag"] = tag
    world.revision(annotations=annotations, image=f"r.example.org/contrib/{image}@sha256:1")
    world.runtime.reconcile(NAME)
    status, message = world.health()
    assert status == ("True" if endpoint else "False")
    assert detail in message
    found = revision_of(world.found()).endpoint
    assert found == (f"builtin:{image}@{endpoint}" if endpoint else "")
    assert world.cluster.list(DEPLOYMENTS).items == []


def test_what_somebody_else_runs_answers_where_they_say(world: World) -> None:
    annotations = {"kanister-py.io/runtime": "External"}
    world.revision(annotations=annotations)
    world.runtime.reconcile(NAME)
    assert world.health()[0] == "False"
    found = world.found()
    found["metadata"]["annotations"]["kanister-py.io/endpoint"] = "dns:///elsewhere:9443"
    world.cluster.replace(found)
    world.runtime.reconcile(NAME)
    assert world.health()[0] == "True"
    assert revision_of(world.found()).endpoint == "dns:///elsewhere:9443"
