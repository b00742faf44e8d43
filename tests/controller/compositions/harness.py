"""Harness for tests of compositions: a controller part on a cluster in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
from kanister_py.core.errors import NotFound
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
    """Create a cluster with our CustomResourceDefinitions."""
    cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    return cluster


def templates(**listings: Listing) -> Registry[FunctionEntry]:
    """Build a registry with v0.1.0 (stable) to v0.9.0 of function-go-templating.

    All run the same code. `v0_2_0=Listing(…)` sets the deprecation of one version in 0.4.0.
    """
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    code = "kanister_py.functions.composition.go_templating.v0_1_0:GoTemplating"
    entries = []
    for minor in range(1, 10):
        listing = listings.get(f"v0_{minor}_0", Listing())
        is_gone = support_of(listing, source.release) is Support.REMOVED
        entries.append(
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
    builder.add(entries, default_of(entries))
    return builder.build()


class Harness:
    """A cluster in memory, and the compositions part of a controller on it."""

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
        """`through` and `calling` wrap the cluster and the function runner of the controller."""
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
            post_event=self._post_event,
            metrics=self.metrics,
            check_leadership=lambda: None,
        )
        self.compositions = Compositions(part, tools, settings)

    def _post_event(self, _subject: Subject, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{kind} {reason}: {message}")

    def start(self) -> None:
        self.compositions.start()

    def close(self) -> None:
        self.compositions.close()
        self.timers.close()
        self.runner.close()

    def apply(self, obj: dict[str, Any]) -> KubeObject:
        return self.cluster.apply(obj, field_manager="people", force=True)

    def define(self, obj: dict[str, Any]) -> None:
        """Apply a definition, and wait until its kinds are served."""
        self.apply(obj)
        spec = obj["spec"]
        for names in (spec["names"], spec.get("claimNames")):
            if names is not None:
                self.until_crd_exists(f"{names['plural']}.{spec['group']}")

    def until_crd_exists(self, crd: str) -> None:
        self.until(lambda: bool(self.cluster.get(CUSTOM_RESOURCE_DEFINITIONS, crd)), crd)

    def until(self, is_done: Callable[[], bool], description: str = "") -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + LIMIT_SECONDS
        pause = threading.Event()
        while time.monotonic() < end:
            try:
                if is_done():
                    return
            except NotFound:
                pass
            pause.wait(0.01)
        pytest.fail(f"timed out waiting for {description or is_done}; events: {self.events[-8:]}")

    def until_idle(self) -> None:
        """Wait until the controller has been idle for several checks in a row."""
        idle_checks = 0

        def is_idle() -> bool:
            nonlocal idle_checks
            is_idle_now = (
                self.compositions.is_settled
                and not self._has_pending_events()
                and self._is_timer_waiting()
            )
            idle_checks = idle_checks + 1 if is_idle_now else 0
            return idle_checks > 10

        self.until(is_idle, "an idle controller")

    def _is_timer_waiting(self) -> bool:
        """Whether the timer service sleeps until its next call, so that the clock may move."""
        if not isinstance(self.clock, FakeClock):
            return True
        next_due = self.timers.next_due
        return next_due is None or self.clock.has_waiter_until(next_due)

    def _has_pending_events(self) -> bool:
        """Whether a watch has events that its thread has not processed yet."""
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
        conditions = (self.bucket(name).get("status") or {}).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def is_ready(self, name: str = "mine") -> bool:
        return self.condition("Ready", name).get("status") == "True"

    def composed(self, name: str = "mine") -> dict[str, KubeObject]:
        listed = self.cluster.list(
            CONFIG_MAPS, namespace="default", label_selector=f"crossplane.io/composite={name}"
        )
        key = "crossplane.io/composition-resource-name"
        return {obj["metadata"]["annotations"][key]: obj for obj in listed.items}

    def colours(self, name: str = "mine") -> set[str]:
        return {obj["data"]["colour"] for obj in self.composed(name).values()}


_WRITES = ("create", "replace", "replace_status", "patch", "apply", "delete")


def _counting(cluster: MemoryCluster, writes: list[str]) -> Any:
    class Counting:
        def __getattr__(self, name: str) -> Any:
            attribute = getattr(cluster, name)
            if name not in _WRITES:
                return attribute

            def call(*args: Any, **options: Any) -> Any:
                writes.append(name)
                return attribute(*args, **options)

            return call

    return Counting()


REVISIONS = CompositionSettings("kanister-py", uses_revisions=True)
