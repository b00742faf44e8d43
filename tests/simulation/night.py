"""A night of schedules and composite resources, over several replicas, in simulated time.

Everything is real but two things: the cluster is the embedded one, and time passes only when
nobody has anything to do. So nothing waits for a slow machine, and what a replica does in a
night can be counted in minutes.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from sys import getsizeof
from threading import get_native_id
from typing import Any, NamedTuple, Self

from kanister_py import Func, OnRestart, PhaseContext
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import ACTION_SETS, EVENTS, GroupVersionResource
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
from kanister_py.executor.loading import load_function
from kanister_py.executor.run.actions import FunctionSource
from kanister_py.wiring import FunctionAccess, composing_part, read_functions
from tests.fake_clock import FakeClock

EVENING = datetime(2026, 1, 1, 22, tzinfo=UTC)
_EVERY_MINUTES = 5
_POD_SECONDS, _WORK_SECONDS = 20.0, 1.0
_STEP_SECONDS = 30.0
_IDLE_LOOKS, _LOOK_SECONDS, _IDLE_SECONDS = 3, 0.001, 0.0003
_PATIENCE_SECONDS = 3600.0
_LOOK_AT_RUNS_SECONDS, _LOOK_AT_MEMORY_SECONDS = 600, 3600
_REQUESTS = (
    *("get", "list", "create", "replace", "replace_status", "patch", "apply", "delete"),
)  # fmt: skip
# Renewed as often as time moves, so that a night is no matter of Leases.
_TERMS = LeaseTerms(term_seconds=400, acts_for_seconds=300, renews_every_seconds=_STEP_SECONDS)
BUCKETS = GroupVersionResource("example.org", "v1alpha1", "xbuckets")


class Plan(NamedTuple):
    """How much there is to do in a night, and by how many it is done."""

    replicas: int
    namespaces: int = 1000
    hours: float = 8.0
    by_hand: int = 2
    """ActionSets that people create in each namespace in the evening."""
    composites: int = 10_000

    @property
    def action_sets(self) -> int:
        each = int(self.hours * 60 / _EVERY_MINUTES) + self.by_hand
        return self.namespaces * each


class Share(NamedTuple):
    """What one replica did, and what it kept at most."""

    runs: int
    requests: int
    events_seen: int
    kept_kilobytes: int
    longest_wait_seconds: float


class Night(NamedTuple):
    """What came of a night."""

    plan: Plan
    shares: tuple[Share, ...]
    completed: int
    attempts: int
    composed: int
    requests: Mapping[str, int]
    """Of all replicas, by verb and kind, Leases apart."""
    bytes_of_run: int
    """What one ActionSet that ended takes in a cluster, as JSON."""
    bytes_of_composite: int
    processor_seconds: float
    """Of the replicas together, without what the cluster took."""
    cluster_seconds: float
    peak_megabytes: float

    def as_dict(self) -> dict[str, Any]:
        shares = [each._asdict() for each in self.shares]
        return {**self._asdict(), "plan": self.plan._asdict(), "shares": shares}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Night:
        shares = tuple(Share(**each) for each in data["shares"])
        return cls(**{**data, "plan": Plan(**data["plan"]), "shares": shares})


class Backup(Func):
    """Waits for a pod as long as a backup takes, and then works for a second."""

    name = "Backup"
    on_restart = OnRestart.REPEAT
    clock = FakeClock()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        ctx.sleep(_POD_SECONDS)
        self.clock.sleep(_WORK_SECONDS)


class SimulatedClock(FakeClock):
    """Moves on to whatever is due next, once nobody has anything to do."""

    def next_due(self) -> float:
        with self._changed:
            now = self.monotonic()
            dues = (due for due, _ in self._waiting.values() if due > now)
            return min(dues, default=now + _STEP_SECONDS)

    def until_idle(self) -> None:
        """Wait, in real time, until this process has used no processor for a few looks.

        Nor may any of its threads want it: on a busy machine one may wait for its turn.
        """
        idle, end = 0, time.monotonic() + _PATIENCE_SECONDS
        while idle < _IDLE_LOOKS or _wants_processor():
            assert time.monotonic() < end, "somebody never comes to rest"
            before = time.process_time()
            time.sleep(_LOOK_SECONDS)
            idle = idle + 1 if time.process_time() - before < _IDLE_SECONDS else 0


def _wants_processor() -> bool:
    """Say whether any thread but this one runs, or waits for its turn, as Linux sees it."""
    own = str(get_native_id())
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 # a thousand threads are read often
        if task == own:
            continue
        try:
            file = os.open(f"/proc/self/task/{task}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            state = os.read(file, 512).rpartition(b") ")[2][:1]
        except OSError:
            continue
        finally:
            os.close(file)
        if state in (b"R", b"D"):
            return True
    return False


class Counting:
    """A replica's way to the cluster: counts what it asks for and hears."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.requests: Counter[str] = Counter()
        self.events_seen = 0
        self.cluster_seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name == "watch":
            return partial(self._watch, found)
        if name not in _REQUESTS:
            return found

        def call(*args: Any, **options: Any) -> Any:
            of = args[0]
            kind = of["kind"] if isinstance(of, Mapping) else of.resource
            if kind not in ("Lease", "leases"):
                self.requests[f"{name} {kind}"] += 1
            began = time.thread_time()
            try:
                return found(*args, **options)
            finally:
                self.cluster_seconds += time.thread_time() - began

        return call

    def _watch(
        self,
        watch: Callable[..., Any],
        *args: Any,
        leaves_out: Callable[[str], bool] | None = None,
        **options: Any,
    ) -> Any:
        def counted(namespace: str) -> bool:
            # A server sends it all the same.
            is_left_out = leaves_out is not None and leaves_out(namespace)
            self.events_seen += is_left_out
            return is_left_out

        return _CountedWatch(watch(*args, leaves_out=counted, **options), self)


class _CountedWatch:
    def __init__(self, watch: Any, counting: Counting) -> None:
        self._watch = watch
        self._counting = counting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watch, name)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._watch.__exit__(*raised)

    def __iter__(self) -> Iterator[Any]:
        for event in self._watch:
            self._counting.events_seen += 1
            yield event


def simulate(plan: Plan) -> Night:
    """Have the replicas live through a night, and say what that took.

    Garbage is collected now and then: what Python would look through each time is the
    cluster, which a replica does not have.
    """
    gc.disable()
    try:
        with ExitStack() as stack:
            return _Simulation(plan, stack).run()
    finally:
        gc.enable()


class _Simulation:
    def __init__(self, plan: Plan, stack: ExitStack) -> None:
        self._plan = plan
        self._clock = clock = SimulatedClock(EVENING - timedelta(minutes=3))
        Backup.clock = clock
        self._cluster = MemoryCluster(clock=clock, history_limit=20_000)
        self._spaces = [f"team-{number}" for number in range(plan.namespaces)]
        self._fill()
        self._ways = [Counting(self._cluster) for _ in range(plan.replicas)]
        self._controllers = [
            self._controller(way, number, stack) for number, way in enumerate(self._ways)
        ]
        self._waits: list[float] = [0.0] * plan.replicas
        self._runs: Counter[int] = Counter()
        self._kept = [0] * plan.replicas
        self._completed = self._attempts = self._bytes = 0
        self._weigh_at = 0.0
        self._owner_of: dict[str, int] = {}

    def _controller(self, way: Counting, number: int, stack: ExitStack) -> Controller:
        functions = read_functions()
        made = Controller(
            way,
            FunctionSource(_registry(), load_function),
            clock=self._clock,
            settings=ControllerSettings(
                identity=f"replica-{number}",
                shards=max(1, self._plan.replicas),
                terms=_TERMS,
                allows_other_namespaces=True,
                neighbours_every_seconds=1e9,
            ),
            parts=[
                composing_part(
                    functions,
                    CompositionSettings("default", uses_revisions=True),
                    FunctionAccess(),
                    stack,
                )
            ],
        )
        stack.callback(made.kill)
        return made

    def _fill(self) -> None:
        for path in sorted(files("kanister_py.crds").iterdir(), key=lambda each: each.name):
            if path.name.endswith(".yaml"):
                for document in parse_documents(path.read_text("utf-8")):
                    self._cluster.create(document.value)
        self._cluster.create(_BLUEPRINT)

    # The night

    def run(self) -> Night:
        began, own_began = time.process_time(), time.thread_time()
        for each in self._controllers:
            each.start()
            self._settle()
        self._pass(_STEP_SECONDS * 8)
        shards = sorted(at for each in self._controllers for at in each.shards)
        assert shards == list(range(max(1, self._plan.replicas))), shards
        for number, controller in enumerate(self._controllers):
            for space in self._spaces:
                if controller._shards.owns(space):  # who has what is what is asked
                    self._owner_of[space] = number
        self._compose()
        for space in self._spaces:
            self._cluster.create(_schedule(space))
            for number in range(self._plan.by_hand):
                self._cluster.create(_by_hand(space, number))
        self._settle()
        self._pass(self._plan.hours * 3600)
        self._settle()
        self._change_composition()
        self._weigh()
        self._look_at_runs()
        composed = self._composed("green")
        found = self._cluster.list(BUCKETS).items
        # What moves time, and does people's part, is this thread.
        own_seconds = time.thread_time() - own_began
        spent = time.process_time() - began - own_seconds
        cluster_seconds = sum(way.cluster_seconds for way in self._ways)
        requests: Counter[str] = Counter()
        for way in self._ways:
            requests.update(way.requests)
        return Night(
            self._plan,
            tuple(self._share(number) for number in range(self._plan.replicas)),
            self._completed,
            self._attempts,
            composed,
            requests,
            self._bytes,
            _size_in_json(found[0]) if found else 0,
            spent - cluster_seconds,
            cluster_seconds,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )

    def _share(self, number: int) -> Share:
        way = self._ways[number]
        return Share(
            self._runs[number],
            way.requests.total(),
            way.events_seen,
            self._kept[number] // 1024,
            self._waits[number],
        )

    def _pass(self, seconds: float) -> None:
        until, look_at = self._clock.monotonic() + seconds, 0.0
        while (left := until - self._clock.monotonic()) > 0:
            step = min(self._clock.next_due() - self._clock.monotonic(), left, _STEP_SECONDS)
            self._clock.advance(step)
            self._clock.until_idle()
            if self._clock.monotonic() >= look_at:
                self._look_at_runs()
                look_at = self._clock.monotonic() + _LOOK_AT_RUNS_SECONDS

    def _settle(self) -> None:
        self._clock.until_idle()

    def _look_at_runs(self) -> None:
        """Take in the runs that ended, and take away what a cluster keeps for an hour."""
        if self._clock.monotonic() >= self._weigh_at:
            self._weigh()
        for obj in self._cluster.list(ACTION_SETS).items:
            status = status_of(obj)
            if status.get("state") not in ("complete", "failed"):
                continue
            metadata = obj["metadata"]
            number = self._owner_of[metadata["namespace"]]
            created = parse_time(metadata["creationTimestamp"])
            phase = status["actions"][0]["phases"][0]
            ended = parse_time(phase["completionTime"])
            assert created is not None
            assert ended is not None
            waited = (ended - created).total_seconds() - _POD_SECONDS - _WORK_SECONDS
            self._waits[number] = max(self._waits[number], waited)
            self._completed += status["state"] == "complete"
            self._attempts += int(phase["attempt"])
            self._runs[number] += 1
            self._bytes = max(self._bytes, _size_in_json(obj))
            self._cluster.delete(ACTION_SETS, metadata["name"], namespace=metadata["namespace"])
        for event in self._cluster.list(EVENTS):
            metadata = event["metadata"]
            self._cluster.delete(EVENTS, metadata["name"], namespace=metadata["namespace"])
        self._clock.until_idle()
        # Of what has outlived one look, much would be gone through, and little found.
        gc.collect(0)

    def _weigh(self) -> None:
        """Take in what the replicas keep, and say how far the night is."""
        self._weigh_at = self._clock.monotonic() + _LOOK_AT_MEMORY_SECONDS
        gc.collect()
        for number, controller in enumerate(self._controllers):
            self._kept[number] = max(self._kept[number], _kept_by(controller))
        seconds, now = time.process_time(), self._clock.now()
        progress = f"{self._plan.replicas} replicas at {now:%H:%M}: {self._completed:,} runs"
        print(f"{progress}, {seconds:.0f} s of processor time", file=sys.stderr, flush=True)

    # Composite resources

    def _compose(self) -> None:
        from tests.controller.compositions.test_kinds import bucket, composition, definition

        if not self._plan.composites:
            return
        self._cluster.apply(definition(), field_manager="people", force=True)
        self._pass(_STEP_SECONDS * 2)
        self._cluster.apply(composition("red"), field_manager="people", force=True)
        self._settle()
        for number in range(self._plan.composites):
            self._cluster.create(bucket(f"bucket-{number}", ("a",)))
        self._settle()
        self._pass(_STEP_SECONDS * 4)
        assert self._composed("red") == self._plan.composites

    def _change_composition(self) -> None:
        from tests.controller.compositions.test_kinds import composition

        if self._plan.composites:
            self._cluster.apply(composition("green"), field_manager="people", force=True)
            self._settle()
            self._pass(_STEP_SECONDS * 4)

    def _composed(self, colour: str) -> int:
        try:
            found = self._cluster.list(BUCKETS).items
        except NotFound:
            return 0
        return sum(status_of(each).get("address") == colour for each in found)


def _registry() -> Registry[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    entries = entries_of(Backup, Source("local", Version(1, 0, 0)))
    builder.add(entries, default_of(entries))
    return builder.build()


_BLUEPRINT: Mapping[str, Any] = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "backup", "namespace": "default"},
    "actions": {"backup": {"phases": [{"func": "Backup", "name": "dump", "args": {}}]}},
}


def _spec(space: str) -> dict[str, Any]:
    action = {
        "name": "backup",
        "blueprint": "default/backup",
        "object": {"kind": "Namespace", "name": space, "namespace": space},
    }
    return {"actions": [action]}


def _by_hand(space: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": f"by-hand-{number}", "namespace": space},
        "spec": _spec(space),
    }


def _schedule(space: str) -> dict[str, Any]:
    return {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": "backup", "namespace": space},
        "spec": {"schedule": f"*/{_EVERY_MINUTES} * * * *", "template": {"spec": _spec(space)}},
    }


def _kept_by(controller: Controller) -> int:
    """Count the bytes of what a replica keeps of objects, each object once."""
    parts = controller._parts  # what is kept is nobody's but the controller's
    if parts is None:
        # It has not begun.
        return 0
    seen: set[int] = set()
    total = 0
    for part in parts.all:
        stores = [getattr(part, "store", None), getattr(part, "_runs", None)]
        known = getattr(part, "seen", None)
        if known is not None:
            stores += known._stores.values()  # as above
        for store in filter(None, stores):
            total += _deep_size((value for _, value in store.items()), seen)
    return total


def _deep_size(values: Iterable[Any], seen: set[int]) -> int:
    # These live on: what ends meanwhile would leave its place, and its id, to another one.
    waiting, total = [*values], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        total += getsizeof(each)
        if isinstance(each, dict):
            waiting += each.keys()
            waiting += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
    return total


def _size_in_json(obj: Any) -> int:
    return len(json.dumps(obj, separators=(",", ":")))
