"""Watch cache: all existing objects and all changes are reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from queue import Queue
from threading import Event
from typing import Any, NamedTuple, Self, cast

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import ClusterUnavailable, Forbidden
from kanister_py.core.kube.resources import CONFIG_MAPS, GroupVersionResource
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.cluster import Cluster, KubeObject, ObjectList, WatchEvent
from tests.fake_clock import FakeClock


def config_map(name: str, colour: str = "red", namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"c": colour}}


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


class ChangeRecorder:
    def __init__(self, cluster: MemoryCluster, *namespaces: str) -> None:
        self.changes: Queue[tuple[str, str | None, str | None]] = Queue()
        self.store: WatchCache[str] = WatchCache(
            cluster=cluster,
            clock=SystemClock(),
            resource=CONFIG_MAPS,
            keep=lambda obj: str(obj["data"]["c"]),
            on_change=lambda key, old, new: self.changes.put((key.name, old, new)),
            namespaces=namespaces or ("",),
        )

    def next(self) -> tuple[str, str | None, str | None]:
        return self.changes.get(timeout=180)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=SystemClock())


@pytest.fixture
def seen(cluster: MemoryCluster) -> Iterator[ChangeRecorder]:
    recorder = ChangeRecorder(cluster)
    yield recorder
    recorder.store.close()


def test_existing_and_new_objects_are_reported_once(
    cluster: MemoryCluster, seen: ChangeRecorder
) -> None:
    cluster.create(config_map("old"))
    seen.store.start()
    assert seen.next() == ("old", None, "red")
    created = cluster.create(config_map("new"))
    assert seen.next() == ("new", None, "red")
    cluster.replace({**created, "data": {"c": "blue"}})
    assert seen.next() == ("new", "red", "blue")
    cluster.delete(CONFIG_MAPS, "old", namespace="default")
    assert seen.next() == ("old", "red", None)
    assert seen.store.items() == [(ObjectKey("default", "new"), "blue")]
    assert seen.store.has_synced


class _Guarded:
    """A cluster that refuses some namespaces."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.refused: set[str] = set()
        self._watches: list[Any] = []

    def list(self, *args: Any, **options: Any) -> ObjectList:
        self._check(options["namespace"])
        return self._cluster.list(*args, **options)

    def watch(self, *args: Any, **options: Any) -> Any:
        self._check(options["namespace"])
        watch = self._cluster.watch(*args, **options)
        self._watches.append(watch)
        return watch

    def _check(self, namespace: str) -> None:
        if namespace in self.refused:
            raise Forbidden(f"configmaps is forbidden in {namespace}")

    def refuse(self, *namespaces: str) -> None:
        self.refused.update(namespaces)
        for watch in self._watches:
            watch.close()


def test_a_forbidden_namespace_is_a_problem_only_if_all_are_forbidden(
    cluster: MemoryCluster,
) -> None:
    guarded = _Guarded(cluster)
    seen = ChangeRecorder(guarded, "one", "two")  # type: ignore[arg-type] # only the used methods exist
    seen.store.start()
    until(lambda: seen.store.open_watches == 2)
    guarded.refuse("two")
    until(lambda: any(reflector.is_refused for reflector in seen.store.reflectors))
    assert seen.store.trouble == ""
    assert seen.store.has_synced
    cluster.create(config_map("a", namespace="one"))
    assert seen.next() == ("a", None, "red")
    guarded.refuse("one")
    until(lambda: "forbidden in one" in seen.store.trouble)
    seen.store.close()


def test_a_namespace_that_was_never_readable_is_a_problem(cluster: MemoryCluster) -> None:
    guarded = _Guarded(cluster)
    guarded.refuse("two")
    seen = ChangeRecorder(guarded, "one", "two")  # type: ignore[arg-type] # only the used methods exist
    seen.store.start()
    until(lambda: "forbidden in two" in seen.store.trouble)
    assert not seen.store.has_synced
    seen.store.close()


def test_a_deletion_between_two_watches_is_noticed(cluster: MemoryCluster) -> None:
    interrupted = _Interrupted(cluster)
    seen = ChangeRecorder(interrupted)  # type: ignore[arg-type] # only the used methods exist
    cluster.create(config_map("a"))
    cluster.create(config_map("b"))
    seen.store.start()
    assert {seen.next()[0], seen.next()[0]} == {"a", "b"}
    interrupted.break_off()
    changes = [seen.next() for _ in range(2)]
    assert ("a", "red", None) in changes
    assert seen.store.items() == [(ObjectKey("default", "b"), "red")]
    seen.store.close()


class _Interrupted:
    """A cluster whose watch ends, and which has lost its history by then."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._watch: Any = None
        self._watches = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, *args: Any, **options: Any) -> Any:
        self._watch = self._cluster.watch(*args, **options)
        self._watches.set()
        return self._watch

    def break_off(self) -> None:
        assert self._watches.wait(180)
        watch, cluster = self._watch, self._cluster
        # The watch reports nothing, so that the deletion is not seen.
        watch.offer = lambda _change: None
        cluster.delete(CONFIG_MAPS, "a", namespace="default")
        cluster.compact()
        watch.close()


def test_only_the_given_namespaces_are_watched(cluster: MemoryCluster) -> None:
    for namespace in ("one", "two", "three"):
        cluster.create(config_map(namespace, namespace=namespace))
    seen = ChangeRecorder(cluster, "one", "two")
    seen.store.start()
    assert {seen.next()[0], seen.next()[0]} == {"one", "two"}
    assert len(seen.store) == 2
    seen.store.close()


class FailingCluster:
    """A cluster that does not answer while it is down, and whose watches can be interrupted."""

    def __init__(self) -> None:
        self.is_down = False
        self._breaks = Event()

    def _answer(self) -> None:
        if self.is_down:
            raise ClusterUnavailable("The API server is down")

    def list(self, *_args: Any, **_options: Any) -> ObjectList:
        self._answer()
        return ObjectList([], "5", "")

    def watch(self, *_args: Any, **_options: Any) -> Self:
        self._answer()
        self._breaks.clear()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchEvent:
        self._breaks.wait(180)
        raise ClusterUnavailable("The connection broke")

    def close(self) -> None:
        self._breaks.set()


@pytest.fixture
def ailing() -> Iterator[tuple[FailingCluster, FakeClock, WatchCache[KubeObject]]]:
    cluster, clock = FailingCluster(), FakeClock()
    store: WatchCache[KubeObject] = WatchCache(
        cluster=cast("Cluster", cluster),
        clock=clock,
        resource=CONFIG_MAPS,
        keep=lambda obj: obj,
        on_change=lambda _key, _old, _new: None,
    )
    yield cluster, clock, store
    store.close()


def _wait_out(clock: FakeClock, *pauses: float) -> None:
    for seconds in pauses:
        until(lambda: clock.has_waiter_until(clock.monotonic() + seconds))  # noqa: B023 # called at once
        clock.advance(seconds)


@pytest.mark.parametrize(
    "had_listed",
    [
        pytest.param(False, id="with a list"),
        pytest.param(True, id="with a watch that has held for a while"),
    ],
)
def test_pauses_start_again_at_the_shortest_after_a_recovery(
    ailing: tuple[FailingCluster, FakeClock, WatchCache[KubeObject]], had_listed: bool
) -> None:
    cluster, clock, store = ailing
    cluster.is_down = not had_listed
    store.start()
    if had_listed:
        until(lambda: store.open_watches == 1)
        cluster.is_down = True
        cluster.close()
    _wait_out(clock, 0.5, 1, 2, 4)
    until(lambda: clock.has_waiter_until(clock.monotonic() + 8))
    cluster.is_down = False
    clock.advance(8)
    until(lambda: store.open_watches == 1)
    if had_listed:
        clock.advance(30)
    cluster.close()
    assert clock.wait_for_sleepers(1)
    assert clock.has_waiter_until(clock.monotonic() + 0.5)


def test_watches_that_break_immediately_are_opened_with_growing_pauses(
    ailing: tuple[FailingCluster, FakeClock, WatchCache[KubeObject]],
) -> None:
    cluster, clock, store = ailing
    store.start()
    for seconds in (0.5, 1, 2):
        until(lambda: store.open_watches == 1)
        cluster.close()
        _wait_out(clock, seconds)


# Order of notifications


class Aged(NamedTuple):
    created_at: datetime


class ByAge:
    """Cache that notifies by age."""

    def __init__(self, cluster: Any, *namespaces: str) -> None:
        self.keys: Queue[str] = Queue()
        self.store: WatchCache[Aged] = WatchCache(
            cluster=cast("Cluster", cluster),
            clock=SystemClock(),
            resource=CONFIG_MAPS,
            keep=lambda obj: Aged(datetime.fromisoformat(obj["metadata"]["creationTimestamp"])),
            on_change=lambda key, _old, _new: self.keys.put(str(key)),
            namespaces=namespaces or ("",),
        )
        self.store.notify_by_age(lambda aged: aged.created_at)

    def next(self, count: int) -> list[str]:
        return [self.keys.get(timeout=180) for _ in range(count)]


class Slow:
    """A cluster that lists one namespace only after a signal, or never."""

    def __init__(self, cluster: MemoryCluster, namespace: str, *, is_forbidden: bool) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._is_forbidden = is_forbidden
        self.asked, self.may_answer, self.others_answered = Event(), Event(), Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def list(
        self, resource: GroupVersionResource, *, namespace: str = "", **options: Any
    ) -> ObjectList:
        if namespace == self._namespace:
            self.asked.set()
            assert self.may_answer.wait(180)
            if self._is_forbidden:
                raise Forbidden("configmaps is forbidden")
            return self._cluster.list(resource, namespace=namespace, **options)
        answer = self._cluster.list(resource, namespace=namespace, **options)
        self.others_answered.set()
        return answer


def created_one_after_the_other(*objects: KubeObject) -> MemoryCluster:
    clock = FakeClock()
    cluster = MemoryCluster(clock=clock)
    for obj in objects:
        cluster.create(obj)
        clock.advance(60)
    return cluster


def test_existing_objects_are_reported_from_the_oldest_on() -> None:
    cluster = created_one_after_the_other(*map(config_map, ("c", "a", "b")))
    seen = ByAge(cluster)
    seen.store.start()
    assert seen.next(3) == ["default/c", "default/a", "default/b"]
    cluster.create(config_map("0"))
    assert seen.next(1) == ["default/0"]
    seen.store.close()


def test_objects_of_the_same_age_are_reported_by_name() -> None:
    cluster = MemoryCluster(clock=FakeClock())
    for name, namespace in (("b", "one"), ("a", "two"), ("a", "one")):
        cluster.create(config_map(name, namespace=namespace))
    seen = ByAge(cluster)
    seen.store.start()
    assert seen.next(3) == ["one/a", "one/b", "two/a"]
    seen.store.close()


@pytest.mark.parametrize(
    ("is_forbidden", "keys"),
    [
        pytest.param(False, ["late/a", "soon/b", "late/c"], id="once all have answered"),
        pytest.param(True, ["soon/b"], id="though one may not be read"),
    ],
)
def test_objects_of_several_namespaces_are_reported_by_age(
    is_forbidden: bool, keys: list[str]
) -> None:
    slow = Slow(
        created_one_after_the_other(
            config_map("a", namespace="late"),
            config_map("b", namespace="soon"),
            config_map("c", namespace="late"),
        ),
        "late",
        is_forbidden=is_forbidden,
    )
    seen = ByAge(slow, "soon", "late")
    seen.store.start()
    assert slow.asked.wait(180)
    assert slow.others_answered.wait(180)
    slow.may_answer.set()
    assert seen.next(len(keys)) == keys
    assert seen.keys.empty()
    seen.store.close()
