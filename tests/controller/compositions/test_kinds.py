"""Composite resources on a cluster come to rest where they should."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.packages_oci.registry import OciPackages
from kanister_py.controller.compositions.part import Compositions
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.events import Subject
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.errors import Invalid, NotFound
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    GroupVersionResource,
)
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS, DEFINITIONS
from kanister_py.core.versions.deprecation import Listing, Support, support_of
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.timers import TimerService
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function_runner import FunctionRunner
from kanister_py.wiring import function_runner, read_functions
from tests.fake_clock import FakeClock

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"
BUCKETS = GroupVersionResource("example.org", "v1alpha1", "xbuckets")
LIMIT_SECONDS = 180.0


def definition(**spec: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "region": {"type": "string"},
                    "names": {"type": "array", "items": {"type": "string"}},
                },
            },
            "status": {"type": "object", "properties": {"address": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "xbuckets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "XBucket", "plural": "xbuckets"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "referenceable": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


TEMPLATE = """
{{- range .observed.composite.resource.spec.names }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: {{ . }}
    gotemplating.fn.crossplane.io/ready: "True"
data:
  region: {{ $.observed.composite.resource.spec.region | quote }}
  colour: COLOUR
{{- end }}
---
apiVersion: example.org/v1alpha1
kind: XBucket
status:
  address: COLOUR
"""


def composition(colour: str = "red", name: str = "bucket", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1alpha1", "kind": "XBucket"},
            "mode": "Pipeline",
            "pipeline": [
                {
                    "step": "template",
                    "functionRef": {"name": "function-go-templating"},
                    "input": {
                        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
                        "kind": "GoTemplate",
                        "source": "Inline",
                        "inline": {"template": TEMPLATE.replace("COLOUR", colour)},
                    },
                }
            ],
        },
    }


def bucket(name: str = "mine", names: tuple[str, ...] = ("a", "b"), **machinery: Any) -> KubeObject:
    spec: dict[str, Any] = {"region": "eu", "names": list(names)}
    if machinery:
        spec["crossplane"] = machinery
    return {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XBucket",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def cluster_with_kinds() -> MemoryCluster:
    """Make a cluster in which our own definitions are installed."""
    cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    return cluster


def templates(**listings: Listing) -> Registry[FunctionEntry]:
    """Give function-go-templating versions v0.1.0 to v0.9.0, the first one stable.

    All run the same code; `v0_2_0=Listing(…)` says what one of them is worth in 0.4.0.
    """
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    code = "kanister_py.functions.composition.go_templating.v0_1_0:GoTemplating"
    made = []
    for minor in range(1, 10):
        listing = listings.get(f"v0_{minor}_0", Listing())
        is_gone = support_of(listing, source.release) is Support.REMOVED
        made.append(
            FunctionEntry(
                "function-go-templating",
                Version(0, minor, 0),
                FunctionKind.COMPOSITION,
                source,
                None if is_gone else code,
                listing,
                is_stable=minor == 1,
            )
        )
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(made, default_of(made))
    return builder.build()


class World:
    """A cluster, and a controller that composes on it."""

    def __init__(
        self,
        settings: CompositionSettings,
        cluster: MemoryCluster | None = None,
        clock: Clock | None = None,
        *,
        through: Any = None,
        calling: Callable[[FunctionRunner], FunctionRunner] = lambda runner: runner,
        entries: Registry[FunctionEntry] | None = None,
    ) -> None:
        """`through` is how the controller sees the cluster, `calling` how it calls functions."""
        self.clock = clock or SystemClock()
        self.cluster = cluster or cluster_with_kinds()
        self.writes: list[str] = []
        self.events: list[str] = []
        entries = entries or read_functions().registry
        self.runner = calling(function_runner(entries))
        self.timers = TimerService(self.clock)
        self.metrics = ControllerMetrics()
        tools = FunctionTools(
            self.runner,
            entries,
            OciPackages(),
            X509Certificates(self.clock),
        )
        part = PartTools(
            cluster=_counting(through or self.cluster, self.writes),
            clock=self.clock,
            timers=self.timers,
            post_event=self._tell,
            metrics=self.metrics,
            check_leadership=lambda: None,
        )
        self.compositions = Compositions(part, tools, settings)

    def _tell(self, _subject: Subject, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{kind} {reason}: {message}")

    def start(self) -> None:
        self.compositions.start()

    def close(self) -> None:
        self.compositions.close()
        self.timers.close()
        self.runner.close()

    def say(self, obj: dict[str, Any]) -> KubeObject:
        return self.cluster.apply(obj, field_manager="people", force=True)

    def define(self, obj: dict[str, Any]) -> None:
        """Write a definition, and wait until its kinds are there."""
        self.say(obj)
        spec = obj["spec"]
        for names in (spec["names"], spec.get("claimNames")):
            if names is not None:
                self.until_there(f"{names['plural']}.{spec['group']}")

    def until_there(self, crd: str) -> None:
        self.until(lambda: bool(self.cluster.get(CUSTOM_RESOURCE_DEFINITIONS, crd)), crd)

    def until(self, is_so: Callable[[], bool], what: str = "") -> None:
        """Wait for something that watches bring about by themselves."""
        end = time.monotonic() + LIMIT_SECONDS
        pause = threading.Event()
        while time.monotonic() < end:
            try:
                if is_so():
                    return
            except NotFound:
                pass
            pause.wait(0.01)
        pytest.fail(f"it never came to be: {what or is_so}; told: {self.events[-8:]}")

    def until_rest(self) -> None:
        """Wait until nobody has anything to do any more, for a while."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            rests = (
                self.compositions.is_settled and not self._has_news() and self._is_timer_waiting()
            )
            calm = calm + 1 if rests else 0
            return calm > 10

        self.until(is_calm, "rest")

    def _is_timer_waiting(self) -> bool:
        """Whether the timer service sleeps until its next call, so that the clock may move."""
        if not isinstance(self.clock, FakeClock):
            return True
        next_due = self.timers.next_due
        return next_due is None or self.clock.has_waiter_until(next_due)

    def _has_news(self) -> bool:
        """Whether there is something that a watch has not told yet: its thread had no turn."""
        with self.cluster._lock:
            watches = [
                watch
                for table in self.cluster._objects.store.tables.values()
                for watch in (*table.watchers, *chain(*table.watchers_by_name.values()))
            ]
        return any(watch._pending for watch in watches)

    def bucket(self, name: str = "mine") -> KubeObject:
        return self.cluster.get(BUCKETS, name, namespace="default")

    def condition(self, kind: str, name: str = "mine") -> dict[str, Any]:
        found = (self.bucket(name).get("status") or {}).get("conditions") or ()
        return next((each for each in found if each["type"] == kind), {})

    def is_ready(self, name: str = "mine") -> bool:
        return self.condition("Ready", name).get("status") == "True"

    def composed(self, name: str = "mine") -> dict[str, KubeObject]:
        listed = self.cluster.list(
            CONFIG_MAPS, namespace="default", label_selector=f"crossplane.io/composite={name}"
        )
        key = "crossplane.io/composition-resource-name"
        return {each["metadata"]["annotations"][key]: each for each in listed.items}

    def colours(self, name: str = "mine") -> set[str]:
        return {each["data"]["colour"] for each in self.composed(name).values()}


_WRITES = ("create", "replace", "replace_status", "patch", "apply", "delete")


def _counting(cluster: MemoryCluster, writes: list[str]) -> Any:
    class Counting:
        def __getattr__(self, name: str) -> Any:
            found = getattr(cluster, name)
            if name not in _WRITES:
                return found

            def call(*args: Any, **options: Any) -> Any:
                writes.append(name)
                return found(*args, **options)

            return call

    return Counting()


REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(REVISIONS)
    made.start()
    made.define(definition())
    yield made
    made.close()


def test_a_composite_resource_is_composed_and_says_so(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    found = world.bucket()
    assert set(world.composed()) == {"a", "b"}
    assert world.condition("Synced")["status"] == "True"
    assert found["status"]["address"] == "red"
    machinery = found["spec"]["crossplane"]
    assert machinery["compositionRef"] == {"name": "bucket"}
    assert len(machinery["resourceRefs"]) == 2
    assert found["status"]["crossplane"]["pipeline"][0]["step"] == "template"
    for each in world.composed().values():
        (owner,) = each["metadata"]["ownerReferences"]
        assert owner["uid"] == found["metadata"]["uid"]


def test_the_first_pass_makes_no_more_writes_than_it_must(world: World) -> None:
    world.say(composition())
    world.until(lambda: len(world.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    world.until_rest()
    world.say(bucket("first", ("a",)))
    world.until(lambda: world.is_ready("first"))
    world.until_rest()
    world.writes.clear()
    world.say(bucket(names=("a", "b", "c")))
    world.until(world.is_ready)
    world.until_rest()
    assert len(world.writes) <= 3 + 4


def test_a_pass_over_what_has_not_changed_writes_nothing(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    world.writes.clear()
    annotated = world.bucket()
    annotated["metadata"].setdefault("annotations", {})["note"] = "x"
    world.cluster.replace(annotated)
    world.until_rest()
    assert world.writes == []


def test_after_a_restart_nothing_is_written_that_has_not_changed(world: World) -> None:
    world.say(composition())
    for index in range(5):
        world.say(bucket(f"b{index}"))
    world.until(lambda: all(world.is_ready(f"b{index}") for index in range(5)))
    world.until_rest()
    world.close()
    again = World(REVISIONS, world.cluster)
    again.start()
    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 1)
        again.until_rest()
        assert again.writes == []
    finally:
        again.close()


def test_what_is_no_longer_desired_goes(world: World) -> None:
    world.say(composition())
    world.say(bucket(names=("a", "b")))
    world.until(lambda: set(world.composed()) == {"a", "b"})
    world.say(bucket(names=("b",)))
    world.until(lambda: set(world.composed()) == {"b"})
    world.until(lambda: len(world.bucket()["spec"]["crossplane"]["resourceRefs"]) == 1)


def test_a_pipeline_that_suddenly_desires_nothing_deletes_nothing(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.say(bucket(names=()))
    world.until(lambda: "desires no resource" in world.condition("Synced").get("message", ""))
    assert set(world.composed()) == {"a", "b"}
    allowed = composition()
    allowed["metadata"]["annotations"] = {"kanister-py.io/allow-empty-desired": "true"}
    allowed["metadata"]["labels"] = {"is": "new"}
    world.say(allowed)
    world.until(lambda: world.composed() == {})


def test_what_somebody_changed_or_deleted_by_hand_is_put_right(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    changed = world.composed()["a"]
    changed["data"]["colour"] = "black"
    world.cluster.replace(changed)
    world.until(lambda: world.colours() == {"red"})
    gone = world.composed()["b"]["metadata"]
    world.cluster.delete(CONFIG_MAPS, gone["name"], namespace="default")
    world.until(lambda: set(world.composed()) == {"a", "b"})


def test_a_change_of_the_composition_reaches_those_that_follow_it_and_no_others(
    world: World,
) -> None:
    world.say(composition("red"))
    world.say(bucket("follows"))
    world.say(bucket("pinned", compositionUpdatePolicy="Manual"))
    world.until(lambda: world.is_ready("follows") and world.is_ready("pinned"))
    world.until_rest()
    before = world.bucket("pinned")
    world.say(composition("green"))
    world.until(lambda: world.colours("follows") == {"green"})
    world.until_rest()
    assert world.colours("pinned") == {"red"}
    assert world.bucket("pinned") == before
    numbers = sorted(
        each["spec"]["revision"] for each in world.cluster.list(COMPOSITION_REVISIONS).items
    )
    assert numbers == [1, 2]


def test_resources_move_one_by_one_by_the_labels_of_revisions(world: World) -> None:
    world.say(composition("red", channel="stable"))
    stable = {"matchLabels": {"channel": "stable"}}
    world.say(bucket("careful", compositionRevisionSelector=stable))
    world.until(lambda: world.is_ready("careful"))
    world.say(composition("green", channel="alpha"))
    alpha = {"matchLabels": {"channel": "alpha"}}
    world.say(bucket("brave", compositionRevisionSelector=alpha, compositionUpdatePolicy="Manual"))
    world.until(lambda: world.is_ready("brave"))
    world.until_rest()
    assert (world.colours("careful"), world.colours("brave")) == ({"red"}, {"green"})


def test_resources_select_compositions_and_revisions_by_expressions(world: World) -> None:
    world.say(composition("red", channel="stable"))

    def one_of(operator: str, *values: str) -> dict[str, Any]:
        wanted = {"key": "channel", "operator": operator, "values": list(values)}
        return {"matchExpressions": [wanted]}

    world.say(
        bucket(
            "careful",
            compositionSelector=one_of("In", "stable", "alpha"),
            compositionRevisionSelector=one_of("NotIn", "alpha"),
        )
    )
    world.until(lambda: world.is_ready("careful"))
    world.say(composition("green", channel="alpha"))
    world.say(bucket("brave", compositionRevisionSelector=one_of("In", "alpha", "beta")))
    world.until(lambda: world.is_ready("brave"))
    world.until_rest()
    assert (world.colours("careful"), world.colours("brave")) == ({"red"}, {"green"})


def test_a_revision_records_what_it_was_composed_with(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    (revision,) = world.cluster.list(COMPOSITION_REVISIONS).items
    (step,) = revision["status"]["composedWith"]
    assert step["step"] == "template"
    assert step["functionRevision"].startswith("function-go-templating")


def test_without_revisions_a_resource_uses_the_composition_itself() -> None:
    world = World(CompositionSettings("kanister-py"))
    world.start()
    try:
        world.define(definition())
        world.say(composition("red"))
        world.say(bucket())
        world.until(world.is_ready)
        world.say(composition("green"))
        world.until(lambda: world.colours() == {"green"})
        assert world.cluster.list(COMPOSITION_REVISIONS).items == []
    finally:
        world.close()


def test_a_resource_that_is_deleted_lets_go(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.cluster.delete(BUCKETS, "mine", namespace="default")

    def is_gone() -> bool:
        return not world.cluster.list(BUCKETS, namespace="default").items

    world.until(is_gone)


def test_a_paused_resource_is_left_alone_until_it_is_not(world: World) -> None:
    paused = bucket()
    paused["metadata"]["annotations"] = {"crossplane.io/paused": "true"}
    world.say(composition())
    world.say(paused)
    world.until(lambda: world.condition("Synced").get("reason") == "ReconcilePaused")
    assert world.composed() == {}
    paused["metadata"]["annotations"] = {}
    world.say(paused)
    world.until(world.is_ready)


@pytest.mark.parametrize(
    ("machinery", "message"),
    [
        pytest.param({"compositionRef": {"name": "none"}}, "none", id="a composition not there"),
        pytest.param(
            {"compositionSelector": {"matchLabels": {"a": "b"}}}, "a=b", id="labels of none"
        ),
    ],
)
def test_a_resource_that_cannot_be_composed_says_why(
    world: World, machinery: dict[str, Any], message: str
) -> None:
    world.say(composition())
    world.say(bucket(**machinery))
    world.until(lambda: message in world.condition("Synced").get("message", ""))
    assert world.condition("Synced")["status"] == "False"
    assert world.composed() == {}


def test_a_change_of_a_composition_costs_a_resource_one_status(world: World) -> None:
    world.define(definition())
    world.say(composition("red"))
    world.say(bucket("one"))
    world.until(lambda: world.is_ready("one"))
    world.until_rest()
    world.writes.clear()
    world.say(composition("green"))
    world.until(
        lambda: [each["data"]["colour"] for each in world.composed("one").values()] == ["green"] * 2
    )
    world.until_rest()
    # Of the two objects and the status, which is of the generation that the choice has made.
    assert world.writes.count("apply") == 3
    found = world.cluster.get(BUCKETS, "one", namespace="default")
    generations = {each["observedGeneration"] for each in found["status"]["conditions"]}
    assert generations == {found["metadata"]["generation"]}


def test_what_keeps_a_resource_from_being_composed_is_logged_once_and_so_is_its_end(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def messages(what: str) -> list[str]:
        found = [record.getMessage() for record in caplog.records[:]]
        return [each for each in found if each.startswith(f"XBucket default/mine {what}")]

    caplog.set_level(logging.INFO, "kanister_py")
    world.say(bucket())
    world.until(lambda: bool(messages("is failing: ")))
    asked = bucket()
    asked["metadata"]["annotations"] = {"crossplane.io/reconcile-requested-at": "now"}
    world.say(asked)
    world.until(lambda: world.bucket()["status"].get("lastHandledReconcileAt") == "now")
    world.say(composition())
    world.until(lambda: bool(messages("has recovered")))
    assert len(messages("is failing")) == 1


def test_a_resource_keeps_the_composition_that_was_chosen_for_it_though_it_fails(
    world: World,
) -> None:
    wrong = composition(name="broken")
    wrong["spec"]["pipeline"][0]["functionRef"]["name"] = "function-nobody-has"
    world.say(wrong)
    world.say(bucket())
    world.until(lambda: "function-nobody-has" in world.condition("Synced").get("message", ""))
    assert world.bucket()["spec"]["crossplane"]["compositionRef"] == {"name": "broken"}
    world.say(composition(name="another"))
    asked = world.bucket()
    asked["metadata"]["annotations"] = {"crossplane.io/reconcile-requested-at": "now"}
    world.cluster.replace(asked)
    world.until(lambda: world.bucket()["status"].get("lastHandledReconcileAt") == "now")
    assert world.bucket()["spec"]["crossplane"]["compositionRef"] == {"name": "broken"}
    assert world.condition("Synced")["status"] == "False"
    assert world.condition("Synced")["observedGeneration"] == asked["metadata"]["generation"]


def test_a_function_that_is_not_there_says_what_is(world: World) -> None:
    wrong = composition()
    wrong["spec"]["pipeline"][0]["functionRef"]["name"] = "function-go-templates"
    world.say(wrong)
    world.say(bucket())
    world.until(lambda: "function-go-templates" in world.condition("Synced").get("message", ""))
    world.until(lambda: any("function-go-templates" in each for each in [*world.events]))


class _RefusesKinds:
    """A cluster that looks at schemas as closely as a real one does."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def apply(self, obj: KubeObject, **options: Any) -> KubeObject:
        if obj["kind"] == "CustomResourceDefinition":
            raise Invalid("spec.validation.openAPIV3Schema: Unsupported value: 'nonsense'")
        return self._cluster.apply(obj, **options)


def test_a_definition_whose_schema_the_cluster_refuses_says_so() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    world = World(REVISIONS, cluster, through=_RefusesKinds(cluster))
    world.start()
    try:
        world.say(definition())
        world.until(lambda: any("ApplyCRD" in each for each in world.events), "an event")
        world.until_rest()
    finally:
        world.close()
    (condition,) = cluster.get(DEFINITIONS, "xbuckets.example.org")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Established", "False")
    assert condition["reason"] == "InvalidDefinition"
    assert "Unsupported value: 'nonsense'" in condition["message"]


def test_a_poll_interval_that_cannot_be_read_is_told_by_the_name_of_its_annotation(
    world: World,
) -> None:
    world.say(composition())
    made = bucket()
    made["metadata"]["annotations"] = {"crossplane.io/poll-interval": "banana"}
    world.say(made)
    world.until(world.is_ready)
    world.until(lambda: any("PollInterval" in each for each in world.events), "a warning")
    (warning, *_) = (each for each in world.events if "PollInterval" in each)
    assert "metadata.annotations[crossplane.io/poll-interval]" in warning
    assert "banana" in warning


def test_a_name_that_is_somebody_elses_leaves_theirs_alone(world: World) -> None:
    world.say(composition())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    (name,) = [each["metadata"]["name"] for each in world.composed().values()]
    theirs = world.cluster.get(CONFIG_MAPS, name, namespace="default")
    theirs["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "other", "controller": True}
    ]
    before = world.cluster.replace(theirs)
    world.until(lambda: "a" in world.condition("Synced").get("message", ""))
    found = world.cluster.get(CONFIG_MAPS, name, namespace="default")
    assert found["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


def test_a_composition_that_goes_leaves_what_is_composed(world: World) -> None:
    world.say(composition())
    world.say(bucket())
    world.until(world.is_ready)
    world.cluster.delete(COMPOSITIONS, "bucket")
    world.until_rest()
    assert set(world.composed()) == {"a", "b"}


def test_a_hundred_resources_come_to_rest(world: World) -> None:
    world.say(composition())
    for index in range(100):
        world.say(bucket(f"b{index}", ("a",)))
    world.until(lambda: all(world.is_ready(f"b{index}") for index in range(100)))
