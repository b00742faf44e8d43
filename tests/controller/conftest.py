"""Environment of the controller's tests: a cluster, functions with effects, and controllers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.resources import files
from threading import Event, Lock
from typing import Any

import pytest

from kanister_py import Args, Func, OnRestart, PhaseContext, VersionedFunc
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.errors import AlreadyExists, LeadershipLost, NotFound
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import ACTION_SETS, CONFIG_MAPS, NAMESPACES
from kanister_py.core.registry.declared import entries_of
from kanister_py.core.registry.entries import (
    FunctionEntry,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.functions.blueprint.pods import Job, PodArgs, pod_of, running, spec_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

PATIENCE_SECONDS = 180.0


def until(is_so: Callable[[], bool]) -> None:
    """Wait, in real time, until a condition is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    pause = Event()
    while not is_so():
        assert time.monotonic() < end, "timed out"
        pause.wait(0.01)


class Echo(Func):
    """Returns its argument."""

    name = "Echo"
    on_restart = OnRestart.REPEAT

    class Args(Args):
        say: str = ""

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        ctx.log(f"echo {args.say}")
        return {"said": args.say}


class Fails(Func):
    """Fails."""

    name = "Fails"
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        raise RuntimeError("no luck")


class Once(Func):
    """Creates a ConfigMap named after its run's key, and adopts it after a restart."""

    name = "Once"
    on_restart = OnRestart.ADOPT

    class Args(Args):
        name: str

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "configmaps", ("create",), "default")]

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{args.name}-{ctx.run.key()}",
                "namespace": "default",
                "labels": {"made-by": "once", **ctx.labels()},
            },
        }
        try:
            ctx.cluster.create(config_map)
        except AlreadyExists:
            return {"adopted": "yes"}
        return {"adopted": "no"}


class Gate(Func):
    """Waits until a ConfigMap opens the gate."""

    name = "Gate"
    on_restart = OnRestart.ADOPT

    class Args(Args):
        gate: str = "gate"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        def is_open() -> bool:
            try:
                gate = ctx.cluster.get(CONFIG_MAPS, args.gate, namespace="default")
            except NotFound:
                return False
            return bool((gate.get("data") or {}).get("open"))

        ctx.wait(is_open, what="the gate to open")
        return {}


class Touchy(Func):
    """Waits for an event of the test. Cannot be resumed."""

    name = "Touchy"
    on_restart = OnRestart.FAIL
    gate = Event()
    began = Event()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        self.began.set()
        with ctx.idle():
            self.gate.wait(PATIENCE_SECONDS)


class Hangs(Func):
    """Waits for an event of the test, and keeps its worker until then."""

    name = "Hangs"
    on_restart = OnRestart.REPEAT
    goes_on = Event()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        self.goes_on.wait(PATIENCE_SECONDS)


class Counted(Func):
    """Records its attempts, across controllers."""

    name = "Counted"
    on_restart = OnRestart.FAIL
    calls: list[str] = []  # noqa: RUF012 # it is shared on purpose
    lock = Lock()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        with self.lock:
            self.calls.append(ctx.run.key())


class Leaves(Func):
    """Creates three pods, and waits for longer than a test lasts."""

    name = "Leaves"
    on_restart = OnRestart.FAIL

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        for part in ("", "one", "two"):
            helper = Job("helper-", "default", spec_of("image", ["sh"]), PodArgs(), part=part)
            ctx.cluster.create(pod_of(ctx, params, helper))
        ctx.sleep(PATIENCE_SECONDS)


class Stays(Func):
    """Creates a pod, or adopts the one of a former process, and waits for an hour."""

    name = "Stays"
    on_restart = OnRestart.ADOPT

    Args = PodArgs

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        pod = Job("stays-", "default", spec_of("image", ["sh"]), args)
        with running(ctx, self.name, pod_of(ctx, params, pod)):
            ctx.sleep(3600)


class Brand(Func):
    """Sets a label of a namespace, and returns the label that it reads back."""

    name = "Brand"
    on_restart = OnRestart.REPEAT

    class Args(Args):
        colour: str

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        ctx.cluster.patch(NAMESPACES, "default", {"metadata": {"labels": {"colour": args.colour}}})
        namespace = ctx.cluster.get(NAMESPACES, "default")
        return {"found": (namespace["metadata"].get("labels") or {}).get("colour", "")}


class AgeingV010(Func):
    """The deprecated version."""

    name = "Ageing"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        ctx.log("done")


class AgeingV100(AgeingV010):
    """The stable version."""


class Ageing(VersionedFunc):
    """Has a deprecated version and a removed one."""

    name = "Ageing"
    stable_version = "v1.0.0"
    versions = {"v0.1.0": AgeingV010, "v1.0.0": AgeingV100}  # noqa: RUF012 # as authors write it
    lifecycle = {  # noqa: RUF012 # as above
        "releases": [{"version": f"{number}.0.0"} for number in range(1, 10)],
        "versions": {
            "v0.0.1": {
                "since": "1.0.0",
                "deprecatedIn": "2.0.0",
                "removedIn": "4.0.0",
                "replacement": "v1.0.0",
            },
            "v0.1.0": {
                "since": "1.0.0",
                "deprecatedIn": "5.0.0",
                "removedIn": "9.0.0",
                "replacement": "v1.0.0",
            },
            "v1.0.0": {"since": "1.0.0"},
        },
    }


FUNCTIONS = (Echo, Fails, Once, Gate, Touchy, Hangs, Counted, Brand, Leaves, Stays, Ageing)


def registry() -> Registry[FunctionEntry]:
    """Return a registry of all functions, as of the fifth release of a distribution."""
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for function in FUNCTIONS:
        entries = entries_of(function, Source("local", Version(5, 0, 0)))
        builder.add(entries, default_of(entries))
    return builder.build()


def phase(func: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"func": func, "name": name or func.lower(), "args": more.pop("args", {}), **more}


def blueprint(
    *phases: Mapping[str, Any],
    name: str = "made-up",
    deferred: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    action: dict[str, Any] = {"phases": list(phases), **more}
    if deferred is not None:
        action["deferPhase"] = deferred
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": name, "namespace": "default"},
        "actions": {"act": action},
    }


def actionset(name: str = "one", **spec: Any) -> dict[str, Any]:
    metadata = spec.pop("metadata", {})
    action = {
        "name": "act",
        "blueprint": spec.pop("blueprint", "made-up"),
        "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
        **spec.pop("action", {}),
    }
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"actions": [action], **spec},
    }


class SetClock(SystemClock):
    """A system clock whose date can be set; monotonic time is the real one."""

    def __init__(self) -> None:
        self.set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.set_by


class Mortal:
    """A cluster that raises `LeadershipLost` from its n-th write on, as if its user had died.

    With `before`, the n-th write is lost; otherwise it succeeds first.
    """

    def __init__(self, cluster: Cluster, writes: int, *, before: bool = True) -> None:
        self._cluster = cluster
        self._left = writes
        self._before = before
        self._lock = Lock()
        self.died = Event()
        self.last = ""

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if not callable(attribute):
            return attribute
        writes = name in ("create", "replace", "replace_status", "patch", "apply", "delete")

        def call(*args: Any, **options: Any) -> Any:
            if self.died.is_set():
                raise LeadershipLost
            if not writes or _is_of_no_account(args):
                return attribute(*args, **options)
            with self._lock:
                self._left -= 1
                dies = self._left == 0
                if dies and self._before:
                    self.last = name
                    self.died.set()
                    raise LeadershipLost
                answer = attribute(*args, **options)
                if dies:
                    self.last = name
                    self.died.set()
                    raise LeadershipLost
                return answer

        return call


def _is_of_no_account(args: Sequence[Any]) -> bool:
    """Return whether a request concerns Leases or events, which are no part of a run."""
    first = args[0]
    kind = first.get("kind") if isinstance(first, Mapping) else getattr(first, "resource", "")
    return kind in ("Lease", "leases", "Event", "events")


# Terms that are long enough for a busy machine.
LASTING = LeaseTerms(term_seconds=600, acts_for_seconds=500)


class Environment:
    """A cluster, and the controllers that a test starts on it."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.controllers: list[Controller] = []
        self._names = 0

    def controller(
        self, cluster: Any = None, *, starts: bool = True, **settings: Any
    ) -> Controller:
        self._names += 1
        settings.setdefault("identity", f"replica-{self._names}")
        settings.setdefault("terms", LASTING)
        started = Controller(
            cluster or self.cluster,
            FunctionSource(registry(), load_function),
            clock=self.clock,
            settings=ControllerSettings(**settings),
        )
        self.controllers.append(started)
        if starts:
            started.start()
        return started

    def close(self) -> None:
        for controller in self.controllers:
            if controller.has_begun:
                controller.kill()

    def create(self, *objects: Mapping[str, Any]) -> list[KubeObject]:
        return [self.cluster.create(obj) for obj in objects]

    def get(self, name: str = "one") -> KubeObject:
        return self.cluster.get(ACTION_SETS, name, namespace="default")

    def status(self, name: str = "one") -> dict[str, Any]:
        return read_status_data(self.get(name)) or {}

    def until(
        self, wanted: Callable[[KubeObject], Any], name: str = "one", *, resource: Any = ACTION_SETS
    ) -> KubeObject:
        """Wait, in real time, until an object satisfies a predicate; return it."""
        with self.cluster.watch(
            resource,
            namespace="default",
            field_selector=f"metadata.name={name}",
            timeout_seconds=PATIENCE_SECONDS,
        ) as watch:
            for event in watch:
                if event.type in ("ADDED", "MODIFIED") and wanted(event.object):
                    return event.object
        raise AssertionError(f"{name} never was as wanted; it is {self.get(name)}")

    def until_state(self, state: str, name: str = "one") -> dict[str, Any]:
        reached = self.until(lambda obj: (obj.get("status") or {}).get("state") == state, name)
        return read_status_data(reached) or {}

    def until_gone(self, name: str) -> None:
        with self.cluster.watch(
            ACTION_SETS, namespace="default", timeout_seconds=PATIENCE_SECONDS
        ) as watch:
            try:
                self.get(name)
            except NotFound:
                return
            for event in watch:
                if event.type == "DELETED" and event.object["metadata"]["name"] == name:
                    return
        raise AssertionError(f"{name} is still there")

    def put_status(self, status: dict[str, Any], name: str = "one") -> None:
        """Write a status as another client."""
        has_status = self.cluster.describe(ACTION_SETS).has_status
        subresource = "status" if has_status else ""
        self.cluster.replace({**self.get(name), "status": status}, subresource=subresource)

    def open_gate(self, name: str = "gate") -> None:
        self.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
                "data": {"open": "yes"},
            }
        )


def definitions() -> Iterator[dict[str, Any]]:
    """Yield the definitions of this package."""
    for name in ("actionsets", "blueprints", "profiles", "schedules"):
        text = files("kanister_py.crds").joinpath(f"{name}.yaml").read_text("utf-8")
        yield from (document.value for document in parse_documents(text))


@pytest.fixture
def env(request: pytest.FixtureRequest) -> Iterator[Environment]:
    """Return an environment with our definitions, or without them for the parameter "kanisters"."""
    clock = SystemClock()
    Touchy.gate.clear()
    Touchy.began.clear()
    Hangs.goes_on.clear()
    Counted.calls.clear()
    environment = Environment(MemoryCluster(clock=clock), clock)
    if getattr(request, "param", "ours") == "ours":
        environment.create(*definitions())
    try:
        yield environment
    finally:
        Touchy.gate.set()
        Hangs.goes_on.set()
        environment.close()
