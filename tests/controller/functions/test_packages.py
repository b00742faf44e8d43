"""Packages of functions: resolution, revisions and activation."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kanister_py.adapters.packages_oci.registry import OciPackages
from kanister_py.controller.functions.packages import FunctionReconciler
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.events import Subject
from kanister_py.core.kube.resources import SECRETS
from kanister_py.core.registry.entries import FunctionRevision, Origin
from kanister_py.core.revisions.functions import Runtime, revision_of
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.revisions.lifecycles import with_lifecycles
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.packages import RegistryUnavailable
from tests.controller.functions.function_entries import ENTRIES
from tests.controller.part_tools import function_tools, part_tools
from tests.fake_clock import FakeClock
from tests.oci_registry import RunningRegistry, running_registry

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"
SYSTEM = "kanister-py"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


class PackageHarness(NamedTuple):
    """A cluster, a registry and a reconciler of Functions."""

    cluster: MemoryCluster
    registry: RunningRegistry
    reconciler: FunctionReconciler
    events: list[str]
    used: dict[str, tuple[str, ...]]

    def push(
        self,
        tag: str,
        channel: str = "",
        text: str = "",
        repository: str = "x",
        annotations: dict[str, str] | None = None,
        needs: Sequence[dict[str, str]] = (),
    ) -> str:
        labels = f"  labels: {{release-channel: {channel}}}\n" if channel else ""
        if annotations:
            labels += f"  annotations: {json.dumps(annotations)}\n"
        package = (
            "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\n"
            f"metadata:\n  name: function-x\n{labels}"
            f"spec: {{dependsOn: {json.dumps(needs)}}}\n# {tag} {text}\n"
        )
        return self.registry.push(self.registry.reference(repository, tag), package.encode())

    def function(
        self, tag: str, labels: dict[str, str] | None = None, repository: str = "x", **spec: Any
    ) -> None:
        package = f"{self.registry.address}/{repository}:{tag}"
        self.cluster.apply(
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Function",
                "metadata": {"name": "function-x", "labels": labels or {}},
                "spec": {"package": package, "packagePullSecrets": [{"name": "pull"}], **spec},
            },
            field_manager="people",
            force=True,
        )

    def reconcile(self) -> float | None:
        return self.reconciler.reconcile("function-x")

    def revisions(self) -> list[FunctionRevision]:
        listed = self.cluster.list(FUNCTION_REVISIONS).items
        return sorted(
            (revision_of(revision) for revision in listed), key=lambda revision: revision.number
        )

    def states(self) -> dict[str, str]:
        """Map the versions of packages to the states of their revisions."""
        return {str(revision.version): str(revision.desired_state) for revision in self.revisions()}

    def come_up(self, number: int, *, is_well: bool = True) -> None:
        """Set the health of a revision as its runtime does."""
        name = next(revision.name for revision in self.revisions() if revision.number == number)
        stored = self.cluster.get(FUNCTION_REVISIONS, name)
        health = {"type": "RuntimeHealthy", "status": "True" if is_well else "False"}
        status = {**(stored.get("status") or {}), "conditions": [health], "endpoint": "dns:///x"}
        self.cluster.replace_status({**stored, "status": status})

    def condition(self, kind: str) -> Any:
        function = self.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
        return next(condition for condition in function if condition["type"] == kind)


@pytest.fixture
def harness(registry: RunningRegistry, tmp_path: Path) -> PackageHarness:
    clock = FakeClock()
    cluster = MemoryCluster(clock=clock)
    for name in ("functions", "functionrevisions"):
        path = CRDS / f"{name}.yaml"
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    login = {"auths": {registry.address: {"username": "ann", "password": "s3cret-word"}}}
    encoded = base64.b64encode(json.dumps(login).encode()).decode()
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": SYSTEM, "name": "pull"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": encoded},
        }
    )
    events: list[str] = []
    used: dict[str, tuple[str, ...]] = {}

    def tell(_subject: Subject, _kind: str, reason: str, message: str) -> None:
        events.append(f"{reason}: {message}")

    def users(_name: str, facts: Sequence[FunctionRevision]) -> dict[str, tuple[str, ...]]:
        return {fact.name: used[str(fact.version)] for fact in facts if str(fact.version) in used}

    tools = function_tools(ENTRIES, OciPackages(tmp_path / "cache"))
    part = part_tools(cluster, clock, tell)
    reconciler = FunctionReconciler(part, tools, CompositionSettings(SYSTEM), users)
    return PackageHarness(cluster, registry, reconciler, events, used)


def test_a_revision_pins_the_digest_of_its_package(harness: PackageHarness) -> None:
    digest = harness.push("v1.0.0", channel="stable")
    harness.function("v1.0.0", {"team": "data", "helm.sh/chart": "x"})
    harness.reconcile()
    (revision,) = harness.revisions()
    assert revision.digest == digest
    assert revision.name.startswith("function-x-")
    assert {"team": "data", "release-channel": "stable"}.items() <= dict(revision.labels).items()
    assert "helm.sh/chart" not in revision.labels
    assert str(revision.version) == "v1.0.0"
    assert harness.states() == {"v1.0.0": "Active"}


def test_capabilities_are_written_after_a_crash_between_two_writes(
    harness: PackageHarness,
) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    harness.reconcile()
    (revision,) = harness.revisions()
    assert revision.capabilities == ("composition",)
    # The state between the two writes of its creation.
    harness.cluster.replace_status(
        {**harness.cluster.get(FUNCTION_REVISIONS, revision.name), "status": {}}
    )
    harness.reconcile()
    assert harness.revisions()[0].capabilities == ("composition",)
    before = harness.cluster.get(FUNCTION_REVISIONS, revision.name)
    harness.reconcile()
    assert harness.cluster.get(FUNCTION_REVISIONS, revision.name) == before


def test_the_old_revision_serves_until_the_new_one_is_healthy(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.push("v2.0.0")
    harness.function("v1.0.0", revisionHistoryLimit=3)
    harness.reconcile()
    harness.come_up(1)
    harness.function("v2.0.0", revisionHistoryLimit=3)
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    assert "serves until then" in harness.condition("Healthy")["message"]
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    harness.come_up(2)
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Inactive", "v2.0.0": "Active"}
    assert harness.condition("Healthy")["status"] == "True"


def test_going_back_renumbers_the_old_revision(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.push("v2.0.0")
    for tag in ("v1.0.0", "v2.0.0", "v1.0.0"):
        harness.function(tag, revisionHistoryLimit=3)
        harness.reconcile()
    assert {str(revision.version): revision.number for revision in harness.revisions()} == {
        "v2.0.0": 2,
        "v1.0.0": 3,
    }


def test_the_active_revision_limit_applies_and_revisions_have_their_own_labels(
    harness: PackageHarness,
) -> None:
    harness.push("v1.0.0")
    harness.push("v2.0.0")
    limits: dict[str, Any] = {"revisionHistoryLimit": 4, "activeRevisionLimit": 2}
    harness.function("v1.0.0", {"release-channel": "stable"}, **limits)
    harness.reconcile()
    harness.come_up(1)
    harness.function("v2.0.0", {"release-channel": "alpha"}, **limits)
    harness.reconcile()
    harness.come_up(2)
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    channels = [revision.labels["release-channel"] for revision in harness.revisions()]
    assert channels == ["stable", "alpha"]


def test_a_manual_policy_activates_nothing(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0", revisionActivationPolicy="Manual")
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Inactive"}
    assert harness.condition("Installed")["reason"] == "InactivePackageRevision"
    (revision,) = harness.revisions()
    stored = harness.cluster.get(FUNCTION_REVISIONS, revision.name)
    stored["spec"]["desiredState"] = "Active"
    harness.cluster.replace(stored)
    harness.reconcile()
    assert harness.states() == {"v1.0.0": "Active"}


def test_a_revision_in_use_is_kept_beyond_the_history_limit(harness: PackageHarness) -> None:
    for number in range(1, 5):
        tag = f"v{number}.0.0"
        harness.push(tag)
        harness.function(tag, revisionHistoryLimit=2)
        harness.used["v1.0.0"] = ("is referenced by Composition/a",)
        harness.reconcile()
        harness.come_up(number)
        harness.reconcile()
    assert list(harness.states()) == ["v1.0.0", "v3.0.0", "v4.0.0"]
    assert any("GarbageCollect" in event for event in harness.events)


def test_changed_settings_update_the_current_revision(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    harness.reconcile()
    harness.function("v1.0.0", runtimeConfigRef={"name": "big"})
    harness.reconcile()
    (revision,) = harness.cluster.list(FUNCTION_REVISIONS).items
    assert revision["spec"]["runtimeConfigRef"] == {"name": "big"}
    assert revision["spec"]["revision"] == 1


def test_a_second_reconcile_writes_nothing(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    for _pass in range(2):
        harness.reconcile()

    def everything() -> list[KubeObject]:
        return [
            *harness.cluster.list(FUNCTIONS).items,
            *harness.cluster.list(FUNCTION_REVISIONS).items,
        ]

    before = everything()
    harness.reconcile()
    assert everything() == before


def test_a_moved_tag_is_resolved_again_only_under_the_always_policy(
    harness: PackageHarness,
) -> None:
    first = harness.push("v1.0.0", text="first", repository="moves")
    harness.function("v1.0.0", repository="moves", revisionHistoryLimit=3)
    harness.reconcile()
    second = harness.push("v1.0.0", text="second", repository="moves")
    harness.reconcile()
    assert [revision.digest for revision in harness.revisions()] == [first]
    harness.function(
        "v1.0.0", repository="moves", revisionHistoryLimit=3, packagePullPolicy="Always"
    )
    assert harness.reconcile() is not None
    assert [revision.digest for revision in harness.revisions()] == [first, second]


def test_active_revisions_keep_running_while_the_registry_is_down(
    harness: PackageHarness, tmp_path: Path
) -> None:
    with running_registry(tmp_path / "other") as running:
        other = harness._replace(registry=running)
        secret = {"auths": {running.address: {"username": "ann", "password": "s3cret-word"}}}
        harness.cluster.patch(
            SECRETS,
            "pull",
            {"data": {".dockerconfigjson": base64.b64encode(json.dumps(secret).encode()).decode()}},
            namespace=SYSTEM,
        )
        other.push("v1.0.0")
        other.function("v1.0.0", packagePullPolicy="Always")
        other.reconcile()
        other.come_up(1)
        other.reconcile()
    with pytest.raises(RegistryUnavailable):
        other.reconcile()
    assert other.states() == {"v1.0.0": "Active"}
    assert other.condition("Installed")["status"] == "True"
    other.function("v1.0.0")
    other.reconcile()
    assert other.condition("Healthy")["status"] == "True"


@pytest.mark.parametrize(
    ("package", "reason", "message"),
    [
        pytest.param(
            "nothing", "UnpackingPackage", "not a reference to a package", id="invalid reference"
        ),
        pytest.param(
            "{registry}/none:v1", "UnpackingPackage", "does not have it", id="missing tag"
        ),
    ],
)
def test_a_package_that_cannot_be_pulled_is_reported(
    harness: PackageHarness, package: str, reason: str, message: str
) -> None:
    harness.function("v1.0.0")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["spec"]["package"] = package.format(registry=harness.registry.address)
    harness.cluster.replace(function)
    harness.reconcile()
    installed = harness.condition("Installed")
    assert installed["status"] == "False"
    assert installed["reason"] == reason
    assert message in installed["message"]


def test_a_paused_function_is_not_reconciled(harness: PackageHarness) -> None:
    harness.function("v1.0.0")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["metadata"]["annotations"] = {"crossplane.io/paused": "true"}
    harness.cluster.replace(function)
    harness.reconcile()
    assert harness.revisions() == []
    assert harness.condition("Synced")["reason"] == "ReconcilePaused"


def test_a_built_in_function_needs_no_registry(harness: PackageHarness) -> None:
    harness.function("v1.0.0", repository="crossplane-contrib/function-auto-ready")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["metadata"]["annotations"] = {"kanister-py.io/runtime": "InProcess"}
    function["spec"]["package"] = (
        "nowhere.example.org/crossplane-contrib/function-auto-ready:v0.7.0"
    )
    harness.cluster.replace(function)
    harness.reconcile()
    (revision,) = harness.revisions()
    assert str(revision.version) == "v0.7.0"
    stored = harness.cluster.get(FUNCTION_REVISIONS, revision.name)
    assert stored["metadata"]["annotations"]["kanister-py.io/runtime"] == "InProcess"


def test_a_package_with_an_unreadable_lifecycle_record_is_not_installed(
    harness: PackageHarness,
) -> None:
    annotations = {"kanister-py.io/lifecycle": '{"releases": [], "version": {}}'}
    harness.push("v1.0.0", annotations=annotations)
    harness.function("v1.0.0")
    harness.reconcile()
    assert harness.revisions() == []
    (condition,) = harness.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Installed", "False")
    assert "did you mean versions?" in condition["message"]


def test_annotations_of_a_package_do_not_configure_its_revision(harness: PackageHarness) -> None:
    settings = {
        "kanister-py.io/runtime": "InProcess",
        "kanister-py.io/max-answer-size": "1Gi",
        "kanister-py.io/package-tag": "v9.0.0",
        "crossplane.io/paused": "true",
        "render.crossplane.io/runtime": "Development",
    }
    about = {"example.org/team": "storage", "meta.example.org/readme": "x"}
    digest = harness.push("v1.0.0", annotations={**settings, **about}, repository="settings")
    harness.function("v1.0.0", package=f"{harness.registry.address}/settings@{digest}")
    harness.reconcile()
    (revision,) = harness.revisions()
    stored = harness.cluster.get(FUNCTION_REVISIONS, revision.name)
    assert stored["metadata"]["annotations"] == about


def test_the_lifecycle_record_of_a_package_is_copied_to_its_revision(
    harness: PackageHarness,
) -> None:
    versions = {"v1.0.0": {"since": "1.0.0"}}
    record = json.dumps({"releases": [{"version": "1.0.0"}], "versions": versions})
    harness.push("v1.0.0", annotations={"kanister-py.io/lifecycle": record})
    harness.function("v1.0.0")
    harness.reconcile()
    (revision,) = harness.revisions()
    assert revision.lifecycle == record


def test_the_lifecycle_record_of_a_package_deprecates_its_versions(harness: PackageHarness) -> None:
    record = {
        "releases": [{"version": "1.0.0"}, {"version": "1.1.0"}, {"version": "1.2.0"}],
        "versions": {"v1.0.0": {"since": "1.0.0", "deprecatedIn": "1.0.0", "removedIn": "1.2.0"}},
    }
    harness.push("v1.0.0", annotations={"kanister-py.io/lifecycle": json.dumps(record)})
    harness.function("v1.0.0")
    harness.reconcile()
    (revision,) = with_lifecycles(harness.revisions())
    assert revision.support_at() is Support.DEPRECATED
    assert revision.origin is Origin.PACKAGE


def test_a_removed_built_in_version_is_not_installed(harness: PackageHarness) -> None:
    harness.function("v1.0.0")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["metadata"]["annotations"] = {"kanister-py.io/runtime": "InProcess"}
    function["spec"]["package"] = "nowhere.example.org/kanister-py/function-auto-ready:v0.1.0"
    harness.cluster.replace(function)
    harness.reconcile()
    assert harness.revisions() == []
    (condition,) = harness.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Installed", "False")
    assert (
        "was removed in release 0.4.0; set the tag of spec.package to v0.3.0"
        in (condition["message"])
    )


def test_the_default_runtime_applies_to_packages(
    harness: PackageHarness,
) -> None:
    reconciler = FunctionReconciler(
        part_tools(harness.cluster, FakeClock()),
        function_tools(ENTRIES, OciPackages()),
        CompositionSettings(SYSTEM, default_runtime=Runtime.IN_PROCESS),
        lambda *_asked: {},
    )
    harness.function("v1.0.0")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["spec"]["package"] = (
        "nowhere.example.org/crossplane-contrib/function-auto-ready:v0.7.0"
    )
    harness.cluster.replace(function)
    reconciler.reconcile("function-x")
    assert [str(revision.version) for revision in harness.revisions()] == ["v0.7.0"]


def test_an_unknown_runtime_is_refused_before_the_installation(
    harness: PackageHarness,
) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["metadata"]["annotations"] = {"kanister-py.io/runtime": "Inprocess"}
    harness.cluster.replace(function)
    harness.reconcile()
    installed = harness.condition("Installed")
    assert (installed["status"], installed["reason"]) == ("False", "InvalidRuntime")
    assert "one of Deployment, InProcess, External, found 'Inprocess'" in installed["message"]
    assert harness.revisions() == []


def test_a_changed_response_limit_updates_the_revision(
    harness: PackageHarness,
) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    harness.reconcile()
    _annotate(harness, "32Mi")
    harness.reconcile()
    assert [revision.answer_limit_bytes for revision in harness.revisions()] == [32 << 20]
    _annotate(harness, "")
    harness.reconcile()
    assert [revision.answer_limit_bytes for revision in harness.revisions()] == [0]


def test_an_invalid_size_is_refused(harness: PackageHarness) -> None:
    harness.push("v1.0.0")
    harness.function("v1.0.0")
    _annotate(harness, "much")
    harness.reconcile()
    assert "max-answer-size]: 'much' is not a quantity" in harness.condition("Installed")["message"]
    assert harness.revisions() == []


def _annotate(harness: PackageHarness, size: str) -> None:
    function = harness.cluster.get(FUNCTIONS, "function-x")
    function["metadata"]["annotations"] = {"kanister-py.io/max-answer-size": size} if size else {}
    harness.cluster.replace(function)


# Dependencies of packages


def installed(harness: PackageHarness) -> dict[str, str]:
    listed = harness.cluster.list(FUNCTIONS).items
    return {obj["metadata"]["name"]: obj["spec"]["package"] for obj in listed}


def needing(
    harness: PackageHarness,
    repository: str,
    version: str,
    kind: str = "function",
    tag: str = "v1.0.0",
) -> None:
    needed = {kind: f"{harness.registry.address}/{repository}", "version": version}
    harness.push(tag, repository=f"x-{repository}", needs=[needed])
    harness.function(tag, repository=f"x-{repository}")
    harness.reconcile()


def test_a_dependency_is_installed_in_the_highest_matching_version(
    harness: PackageHarness,
) -> None:
    for tag in ("v1.0.0", "v1.4.0", "v1.10.0", "v2.0.0", "latest"):
        harness.push(tag, repository="team/needed", text=tag)
    needing(harness, "team/needed", ">=v1.1.0 <v2.0.0")
    package = f"{harness.registry.address}/team/needed:v1.10.0"
    assert installed(harness)["needed"] == package
    function = harness.cluster.get(FUNCTIONS, "needed")
    assert function["spec"]["packagePullSecrets"] == [{"name": "pull"}]
    assert any("Installed Function needed" in event for event in harness.events)
    harness.events.clear()
    harness.reconcile()
    assert not [event for event in harness.events if "ResolveDependencies" in event]
    assert len(installed(harness)) == 2


def test_an_installed_dependency_is_unchanged(harness: PackageHarness) -> None:
    harness.cluster.create(
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Function",
            "metadata": {"name": "theirs"},
            "spec": {"package": f"{harness.registry.address}/there:v1.0.0"},
        }
    )
    needing(harness, "there", ">=v1.0.0")
    assert set(installed(harness)) == {"theirs", "function-x"}
    needing(harness, "there", ">=v2.0.0", tag="v1.1.0")
    assert set(installed(harness)) == {"theirs", "function-x"}
    assert any("but Function theirs is" in event for event in harness.events)


def test_a_missing_dependency_is_reported_and_the_function_still_serves(
    harness: PackageHarness,
) -> None:
    harness.push("v1.0.0", repository="old")
    needing(harness, "old", ">=v3.0.0")
    assert any("has no such version; the newest are v1.0.0" in event for event in harness.events)
    needing(harness, "provider", "v1.0.0", kind="provider")
    assert any("needs the Provider" in event for event in harness.events)
    assert set(installed(harness)) == {"function-x"}
    assert "Active" in harness.states().values()


def test_dependencies_are_not_installed_when_resolution_is_skipped(harness: PackageHarness) -> None:
    harness.push("v1.0.0", repository="unasked")
    needed = {"function": f"{harness.registry.address}/unasked"}
    harness.push("v1.0.0", repository="alone", needs=[needed])
    harness.function("v1.0.0", repository="alone", skipDependencyResolution=True)
    harness.reconcile()
    assert set(installed(harness)) == {"function-x"}
