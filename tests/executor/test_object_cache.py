"""Object cache: latest states of objects, including our own writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.resources import CONFIG_MAPS, SECRETS, GroupVersionResource
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject

KEY = ObjectKey("default", "settings")
LIMIT_SECONDS = 180.0


class Watched:
    """A cache over a cluster whose watch events can be held back."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(clock=SystemClock())
        self.is_open = threading.Event()
        self.is_open.set()
        self.watched: list[GroupVersionResource] = []
        self.changes: list[tuple[str, str]] = []
        self.own: list[bool] = []
        self._changed = threading.Condition()
        self.seen = ObjectCache(self._holding(), SystemClock(), self._on_change)

    def _holding(self) -> Any:
        outer = self

        class Holding:
            def __getattr__(self, name: str) -> Any:
                return getattr(outer.cluster, name)

            def watch(self, resource: GroupVersionResource, **options: Any) -> Any:
                held = _Held(outer.cluster.watch(resource, **options), outer.is_open)
                with outer._changed:
                    outer.watched.append(resource)
                    outer._changed.notify_all()
                return held

        return Holding()

    def _on_change(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        cached = self.seen.get_cached(resource, key)
        is_own = new is not None and self.seen.is_own_write(resource, new)
        with self._changed:
            self.changes.append((key.name, colour_of(cached)))
            self.own.append(is_own)
            self._changed.notify_all()

    def until(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(is_so, LIMIT_SECONDS), self.changes

    def write(self, colour: str) -> KubeObject:
        return self.cluster.apply(settings(colour), field_manager="people", force=True)


class _Held:
    def __init__(self, watch: Any, is_open: threading.Event) -> None:
        self._watch = watch
        self._is_open = is_open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        self._watch.close()

    def __iter__(self) -> Iterator[Any]:
        for event in self._watch:
            self._is_open.wait(LIMIT_SECONDS)
            yield event

    def close(self) -> None:
        self._watch.close()


def settings(colour: str, name: str = "settings", **labels: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {"colour": colour},
    }


def colour_of(obj: KubeObject | None) -> str:
    return str((obj or {}).get("data", {}).get("colour", ""))


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.is_open.set()
    watched.seen.close()


def colour_seen(watched: Watched) -> str:
    return colour_of(watched.seen.get_cached(CONFIG_MAPS, KEY))


def test_writes_of_others_are_reported_by_the_watch(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.write("red")
    watched.until(lambda: ("settings", "red") in watched.changes)
    assert colour_seen(watched) == "red"
    assert watched.own == [False]


def test_own_writes_are_visible_immediately(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.until(lambda: bool(watched.watched))
    watched.is_open.clear()
    watched.seen.remember(watched.write("red"))
    assert colour_seen(watched) == "red"
    assert colour_of(watched.seen.get(CONFIG_MAPS, KEY)) == "red"


def test_an_older_event_does_not_undo_an_own_write(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.write("red")
    watched.until(lambda: ("settings", "red") in watched.changes)
    watched.is_open.clear()
    watched.write("green")
    watched.seen.remember(watched.write("blue"))
    watched.is_open.set()
    watched.until(lambda: len(watched.changes) == 3)
    assert [colour for _name, colour in watched.changes] == ["red", "blue", "blue"]
    assert watched.own == [False, False, True]


def test_a_newer_event_replaces_an_own_write(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.until(lambda: bool(watched.watched))
    watched.is_open.clear()
    watched.seen.remember(watched.write("red"))
    watched.write("green")
    watched.is_open.set()
    watched.until(lambda: ("settings", "green") in watched.changes)
    assert colour_seen(watched) == "green"


def test_an_own_write_that_was_deleted_since_is_gone(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.until(lambda: bool(watched.watched))
    watched.is_open.clear()
    watched.seen.remember(watched.write("red"))
    watched.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    watched.is_open.set()
    watched.until(lambda: ("settings", "") in watched.changes)
    assert watched.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert watched.seen.get(CONFIG_MAPS, KEY) is None


def test_a_deletion_event_before_our_own_response_counts(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    written = watched.write("red")
    watched.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    watched.until(lambda: len(watched.changes) == 2)
    watched.seen.remember(written)
    assert watched.seen.get_cached(CONFIG_MAPS, KEY) is None
    # An object created again with the same name is a different object.
    watched.is_open.clear()
    watched.seen.remember(watched.write("green"))
    assert colour_seen(watched) == "green"


def test_an_object_deleted_before_the_watch_is_gone(watched: Watched) -> None:
    watched.seen.remember(watched.write("red"))
    assert colour_seen(watched) == "red"
    watched.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    watched.seen.watch(CONFIG_MAPS)
    watched.cluster.apply(settings("x", "other"), field_manager="people", force=True)
    # The dependents are notified of the deletion.
    watched.until(lambda: {("settings", ""), ("other", "x")} <= set(watched.changes))
    assert watched.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert watched.seen.get(CONFIG_MAPS, KEY) is None


def test_lists_contain_own_writes_and_only_selected_objects(watched: Watched) -> None:
    for name, labels in (("a", {"tier": "db"}), ("b", {"tier": "web"}), ("c", {"tier": "db"})):
        watched.cluster.apply(settings("red", name, **labels), field_manager="people", force=True)
    watched.seen.watch(CONFIG_MAPS)
    watched.until(lambda: len(watched.changes) == 3)
    watched.is_open.clear()
    changed = copy_json(settings("blue", "c", tier="db"))
    watched.seen.remember(watched.cluster.apply(changed, field_manager="people", force=True))
    objects = watched.seen.list(CONFIG_MAPS, "", {"tier": "db"})
    assert [(obj["metadata"]["name"], colour_of(obj)) for obj in objects] == [
        ("a", "red"),
        ("c", "blue"),
    ]
    assert watched.seen.list(CONFIG_MAPS, "elsewhere", {}) == []


def test_secrets_are_read_and_never_watched(watched: Watched) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "door", "namespace": "default", "labels": {"of": "house"}},
        "data": {"key": "eA=="},
    }
    key = ObjectKey("default", "door")
    watched.seen.remember(watched.cluster.create(secret))
    watched.seen.watch(SECRETS)
    cached = watched.seen.get(SECRETS, key)
    assert cached is not None
    assert [obj["metadata"]["name"] for obj in watched.seen.list(SECRETS, "", {"of": "house"})] == [
        "door"
    ]
    watched.cluster.delete(SECRETS, "door", namespace="default")
    assert watched.seen.get(SECRETS, key) is None
    assert watched.seen.get_cached(SECRETS, key) is None
    assert watched.seen.watched == ()
    assert watched.watched == []


def test_a_kind_that_is_no_longer_watched_is_dropped(watched: Watched) -> None:
    watched.seen.watch(CONFIG_MAPS)
    watched.seen.remember(watched.write("red"))
    watched.seen.stop(CONFIG_MAPS)
    assert watched.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert not watched.seen.has_synced(CONFIG_MAPS)


def test_a_reference_to_a_missing_kind_finds_nothing(watched: Watched) -> None:
    reference = {"apiVersion": "x.org/v1", "kind": "Nowhere", "name": "a"}
    assert watched.seen.find(reference) is None
