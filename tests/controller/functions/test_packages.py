"""Packages of functions: their revisions, and which of them serve."""

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
from tests.controller.functions.test_runtime import ENTRIES
from tests.controller.part_tools import function_tools, part_tools
from tests.fake_clock import FakeClock
from tests.oci_registry import RunningRegistry, running_registry

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"
SYSTEM = "kanister-py"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


class World(NamedTuple):
    """A cluster, a registry, and the one reconciler between them."""

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
        return sorted((revision_of(each) for each in listed), key=lambda each: each.number)

    def states(self) -> dict[str, str]:
        """Say of each revision, by its package's version, whether it is active."""
        return {str(each.version): str(each.desired_state) for each in self.revisions()}

    def come_up(self, number: int, *, is_well: bool = True) -> None:
        """Let what runs a revision be well, as its runtime would say."""
        name = next(each.name for each in self.revisions() if each.number == number)
        found = self.cluster.get(FUNCTION_REVISIONS, name)
        health = {"type": "RuntimeHealthy", "status": "True" if is_well else "False"}
        status = {**(found.get("status") or {}), "conditions": [health], "endpoint": "dns:///x"}
        self.cluster.replace_status({**found, "status": status})

    def condition(self, kind: str) -> Any:
        found = self.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
        return next(each for each in found if each["type"] == kind)


@pytest.fixture
def world(registry: RunningRegistry, tmp_path: Path) -> World:
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
        return {each.name: used[str(each.version)] for each in facts if str(each.version) in used}

    tools = function_tools(ENTRIES, OciPackages(tmp_path / "cache"))
    part = part_tools(cluster, clock, tell)
    reconciler = FunctionReconciler(part, tools, CompositionSettings(SYSTEM), users)
    return World(cluster, registry, reconciler, events, used)


def test_a_function_gets_a_revision_that_is_its_package_for_ever(world: World) -> None:
    digest = world.push("v1.0.0", channel="stable")
    world.function("v1.0.0", {"team": "data", "helm.sh/chart": "x"})
    world.reconcile()
    (revision,) = world.revisions()
    assert revision.digest == digest
    assert revision.name.startswith("function-x-")
    assert {"team": "data", "release-channel": "stable"}.items() <= dict(revision.labels).items()
    assert "helm.sh/chart" not in revision.labels
    assert str(revision.version) == "v1.0.0"
    assert world.states() == {"v1.0.0": "Active"}


def test_a_revision_whose_maker_died_too_early_still_says_what_it_is_made_for(
    world: World,
) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    world.reconcile()
    (made,) = world.revisions()
    assert made.capabilities == ("composition",)
    # As it is between the two writes that make it.
    world.cluster.replace_status({**world.cluster.get(FUNCTION_REVISIONS, made.name), "status": {}})
    world.reconcile()
    assert world.revisions()[0].capabilities == ("composition",)
    before = world.cluster.get(FUNCTION_REVISIONS, made.name)
    world.reconcile()
    assert world.cluster.get(FUNCTION_REVISIONS, made.name) == before


def test_an_upgrade_makes_before_it_breaks(world: World) -> None:
    world.push("v1.0.0")
    world.push("v2.0.0")
    world.function("v1.0.0", revisionHistoryLimit=3)
    world.reconcile()
    world.come_up(1)
    world.function("v2.0.0", revisionHistoryLimit=3)
    world.reconcile()
    assert world.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    assert "serves until then" in world.condition("Healthy")["message"]
    world.reconcile()
    assert world.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    world.come_up(2)
    world.reconcile()
    assert world.states() == {"v1.0.0": "Inactive", "v2.0.0": "Active"}
    assert world.condition("Healthy")["status"] == "True"


def test_going_back_raises_the_old_revision(world: World) -> None:
    world.push("v1.0.0")
    world.push("v2.0.0")
    for tag in ("v1.0.0", "v2.0.0", "v1.0.0"):
        world.function(tag, revisionHistoryLimit=3)
        world.reconcile()
    assert {str(each.version): each.number for each in world.revisions()} == {
        "v2.0.0": 2,
        "v1.0.0": 3,
    }


def test_as_many_serve_as_the_limit_says_and_labels_tell_them_apart(world: World) -> None:
    world.push("v1.0.0")
    world.push("v2.0.0")
    limits: dict[str, Any] = {"revisionHistoryLimit": 4, "activeRevisionLimit": 2}
    world.function("v1.0.0", {"release-channel": "stable"}, **limits)
    world.reconcile()
    world.come_up(1)
    world.function("v2.0.0", {"release-channel": "alpha"}, **limits)
    world.reconcile()
    world.come_up(2)
    world.reconcile()
    assert world.states() == {"v1.0.0": "Active", "v2.0.0": "Active"}
    channels = [each.labels["release-channel"] for each in world.revisions()]
    assert channels == ["stable", "alpha"]


def test_under_manual_people_decide(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0", revisionActivationPolicy="Manual")
    world.reconcile()
    assert world.states() == {"v1.0.0": "Inactive"}
    assert world.condition("Installed")["reason"] == "InactivePackageRevision"
    (revision,) = world.revisions()
    found = world.cluster.get(FUNCTION_REVISIONS, revision.name)
    found["spec"]["desiredState"] = "Active"
    world.cluster.replace(found)
    world.reconcile()
    assert world.states() == {"v1.0.0": "Active"}


def test_what_is_used_is_kept_beyond_the_history(world: World) -> None:
    for number in range(1, 5):
        tag = f"v{number}.0.0"
        world.push(tag)
        world.function(tag, revisionHistoryLimit=2)
        world.used["v1.0.0"] = ("is referenced by Composition/a",)
        world.reconcile()
        world.come_up(number)
        world.reconcile()
    assert list(world.states()) == ["v1.0.0", "v3.0.0", "v4.0.0"]
    assert any("GarbageCollect" in each for each in world.events)


def test_settings_that_are_no_content_reach_the_revision_in_force(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    world.reconcile()
    world.function("v1.0.0", runtimeConfigRef={"name": "big"})
    world.reconcile()
    (revision,) = world.cluster.list(FUNCTION_REVISIONS).items
    assert revision["spec"]["runtimeConfigRef"] == {"name": "big"}
    assert revision["spec"]["revision"] == 1


def test_nothing_is_written_where_nothing_changed(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    for _pass in range(2):
        world.reconcile()

    def everything() -> list[KubeObject]:
        return [
            *world.cluster.list(FUNCTIONS).items,
            *world.cluster.list(FUNCTION_REVISIONS).items,
        ]

    before = everything()
    world.reconcile()
    assert everything() == before


def test_a_tag_that_moves_is_followed_only_if_asked_for(world: World) -> None:
    first = world.push("v1.0.0", text="first", repository="moves")
    world.function("v1.0.0", repository="moves", revisionHistoryLimit=3)
    world.reconcile()
    second = world.push("v1.0.0", text="second", repository="moves")
    world.reconcile()
    assert [each.digest for each in world.revisions()] == [first]
    world.function("v1.0.0", repository="moves", revisionHistoryLimit=3, packagePullPolicy="Always")
    assert world.reconcile() is not None
    assert [each.digest for each in world.revisions()] == [first, second]


def test_what_runs_keeps_running_while_the_registry_is_down(world: World, tmp_path: Path) -> None:
    with running_registry(tmp_path / "other") as running:
        other = world._replace(registry=running)
        secret = {"auths": {running.address: {"username": "ann", "password": "s3cret-word"}}}
        world.cluster.patch(
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
        pytest.param("nothing", "UnpackingPackage", "not a reference to a package", id="no place"),
        pytest.param("{registry}/none:v1", "UnpackingPackage", "does not have it", id="not there"),
    ],
)
def test_a_package_that_cannot_be_had_says_so(
    world: World, package: str, reason: str, message: str
) -> None:
    world.function("v1.0.0")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["spec"]["package"] = package.format(registry=world.registry.address)
    world.cluster.replace(found)
    world.reconcile()
    installed = world.condition("Installed")
    assert installed["status"] == "False"
    assert installed["reason"] == reason
    assert message in installed["message"]


def test_a_paused_function_is_left_alone(world: World) -> None:
    world.function("v1.0.0")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["metadata"]["annotations"] = {"crossplane.io/paused": "true"}
    world.cluster.replace(found)
    world.reconcile()
    assert world.revisions() == []
    assert world.condition("Synced")["reason"] == "ReconcilePaused"


def test_a_function_that_comes_with_us_needs_no_registry(world: World) -> None:
    world.function("v1.0.0", repository="crossplane-contrib/function-auto-ready")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["metadata"]["annotations"] = {"kanister-py.io/runtime": "InProcess"}
    found["spec"]["package"] = "nowhere.example.org/crossplane-contrib/function-auto-ready:v0.7.0"
    world.cluster.replace(found)
    world.reconcile()
    (revision,) = world.revisions()
    assert str(revision.version) == "v0.7.0"
    stored = world.cluster.get(FUNCTION_REVISIONS, revision.name)
    assert stored["metadata"]["annotations"]["kanister-py.io/runtime"] == "InProcess"


def test_a_package_whose_record_of_versions_cannot_be_read_is_not_installed(world: World) -> None:
    annotations = {"kanister-py.io/lifecycle": '{"releases": [], "version": {}}'}
    world.push("v1.0.0", annotations=annotations)
    world.function("v1.0.0")
    world.reconcile()
    assert world.revisions() == []
    (condition,) = world.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Installed", "False")
    assert "did you mean versions?" in condition["message"]


def test_annotations_of_a_package_do_not_configure_its_revision(world: World) -> None:
    settings = {
        "kanister-py.io/runtime": "InProcess",
        "kanister-py.io/max-answer-size": "1Gi",
        "kanister-py.io/package-tag": "v9.0.0",
        "crossplane.io/paused": "true",
        "render.crossplane.io/runtime": "Development",
    }
    about = {"example.org/team": "storage", "meta.example.org/readme": "x"}
    digest = world.push("v1.0.0", annotations={**settings, **about}, repository="settings")
    world.function("v1.0.0", package=f"{world.registry.address}/settings@{digest}")
    world.reconcile()
    (revision,) = world.revisions()
    stored = world.cluster.get(FUNCTION_REVISIONS, revision.name)
    assert stored["metadata"]["annotations"] == about


def test_the_record_of_a_package_goes_to_its_revision(world: World) -> None:
    versions = {"v1.0.0": {"since": "1.0.0"}}
    record = json.dumps({"releases": [{"version": "1.0.0"}], "versions": versions})
    world.push("v1.0.0", annotations={"kanister-py.io/lifecycle": record})
    world.function("v1.0.0")
    world.reconcile()
    (revision,) = world.revisions()
    assert revision.lifecycle == record


def test_the_record_of_a_package_deprecates_its_versions(world: World) -> None:
    record = {
        "releases": [{"version": "1.0.0"}, {"version": "1.1.0"}, {"version": "1.2.0"}],
        "versions": {"v1.0.0": {"since": "1.0.0", "deprecatedIn": "1.0.0", "removedIn": "1.2.0"}},
    }
    world.push("v1.0.0", annotations={"kanister-py.io/lifecycle": json.dumps(record)})
    world.function("v1.0.0")
    world.reconcile()
    (revision,) = with_lifecycles(world.revisions())
    assert revision.support_at() is Support.DEPRECATED
    assert revision.origin is Origin.PACKAGE


def test_a_version_of_ours_that_was_removed_is_not_installed(world: World) -> None:
    world.function("v1.0.0")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["metadata"]["annotations"] = {"kanister-py.io/runtime": "InProcess"}
    found["spec"]["package"] = "nowhere.example.org/kanister-py/function-auto-ready:v0.1.0"
    world.cluster.replace(found)
    world.reconcile()
    assert world.revisions() == []
    (condition,) = world.cluster.get(FUNCTIONS, "function-x")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Installed", "False")
    assert (
        "was removed in release 0.4.0; set the tag of spec.package to v0.3.0"
        in (condition["message"])
    )


def test_who_runs_functions_unless_they_say_counts_for_their_packages_too(world: World) -> None:
    reconciler = FunctionReconciler(
        part_tools(world.cluster, FakeClock()),
        function_tools(ENTRIES, OciPackages()),
        CompositionSettings(SYSTEM, default_runtime=Runtime.IN_PROCESS),
        lambda *_asked: {},
    )
    world.function("v1.0.0")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["spec"]["package"] = "nowhere.example.org/crossplane-contrib/function-auto-ready:v0.7.0"
    world.cluster.replace(found)
    reconciler.reconcile("function-x")
    assert [str(each.version) for each in world.revisions()] == ["v0.7.0"]


def test_a_runtime_that_nobody_knows_is_refused_before_anything_is_installed(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["metadata"]["annotations"] = {"kanister-py.io/runtime": "Inprocess"}
    world.cluster.replace(found)
    world.reconcile()
    installed = world.condition("Installed")
    assert (installed["status"], installed["reason"]) == ("False", "InvalidRuntime")
    assert "one of Deployment, InProcess, External, found 'Inprocess'" in installed["message"]
    assert world.revisions() == []


def test_how_large_an_answer_may_be_reaches_the_revision_and_makes_no_other(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    world.reconcile()
    _annotate(world, "32Mi")
    world.reconcile()
    assert [each.answer_limit_bytes for each in world.revisions()] == [32 << 20]
    _annotate(world, "")
    world.reconcile()
    assert [each.answer_limit_bytes for each in world.revisions()] == [0]


def test_a_size_that_is_none_is_refused(world: World) -> None:
    world.push("v1.0.0")
    world.function("v1.0.0")
    _annotate(world, "much")
    world.reconcile()
    assert "max-answer-size]: 'much' is not a quantity" in world.condition("Installed")["message"]
    assert world.revisions() == []


def _annotate(world: World, size: str) -> None:
    found = world.cluster.get(FUNCTIONS, "function-x")
    found["metadata"]["annotations"] = {"kanister-py.io/max-answer-size": size} if size else {}
    world.cluster.replace(found)


# What a package needs


def installed(world: World) -> dict[str, str]:
    listed = world.cluster.list(FUNCTIONS).items
    return {each["metadata"]["name"]: each["spec"]["package"] for each in listed}


def needing(
    world: World, repository: str, version: str, kind: str = "function", tag: str = "v1.0.0"
) -> None:
    needed = {kind: f"{world.registry.address}/{repository}", "version": version}
    world.push(tag, repository=f"x-{repository}", needs=[needed])
    world.function(tag, repository=f"x-{repository}")
    world.reconcile()


def test_what_a_package_needs_is_installed_in_the_highest_version_that_does(world: World) -> None:
    for tag in ("v1.0.0", "v1.4.0", "v1.10.0", "v2.0.0", "latest"):
        world.push(tag, repository="team/needed", text=tag)
    needing(world, "team/needed", ">=v1.1.0 <v2.0.0")
    package = f"{world.registry.address}/team/needed:v1.10.0"
    assert installed(world)["needed"] == package
    made = world.cluster.get(FUNCTIONS, "needed")
    assert made["spec"]["packagePullSecrets"] == [{"name": "pull"}]
    assert any("Installed Function needed" in each for each in world.events)
    world.events.clear()
    world.reconcile()
    assert not [each for each in world.events if "ResolveDependencies" in each]
    assert len(installed(world)) == 2


def test_a_function_that_is_there_is_left_as_it_is(world: World) -> None:
    world.cluster.create(
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Function",
            "metadata": {"name": "theirs"},
            "spec": {"package": f"{world.registry.address}/there:v1.0.0"},
        }
    )
    needing(world, "there", ">=v1.0.0")
    assert set(installed(world)) == {"theirs", "function-x"}
    needing(world, "there", ">=v2.0.0", tag="v1.1.0")
    assert set(installed(world)) == {"theirs", "function-x"}
    assert any("but Function theirs is" in each for each in world.events)


def test_what_cannot_be_had_is_said_and_the_function_serves_all_the_same(world: World) -> None:
    world.push("v1.0.0", repository="old")
    needing(world, "old", ">=v3.0.0")
    assert any("has no such version; the newest are v1.0.0" in each for each in world.events)
    needing(world, "provider", "v1.0.0", kind="provider")
    assert any("needs the Provider" in each for each in world.events)
    assert set(installed(world)) == {"function-x"}
    assert "Active" in world.states().values()


def test_nothing_is_installed_for_one_that_asks_for_nothing(world: World) -> None:
    world.push("v1.0.0", repository="unasked")
    needed = {"function": f"{world.registry.address}/unasked"}
    world.push("v1.0.0", repository="alone", needs=[needed])
    world.function("v1.0.0", repository="alone", skipDependencyResolution=True)
    world.reconcile()
    assert set(installed(world)) == {"function-x"}
