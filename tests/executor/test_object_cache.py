"""Known objects: what was seen last is what is there, also right after a write of ours."""

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
    """A cluster whose watches tell nothing while they are held back."""

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
        known = self.seen.get_cached(resource, key)
        is_own = new is not None and self.seen.is_own_write(resource, new)
        with self._changed:
            self.changes.append((key.name, colour_of(known)))
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
def there() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.is_open.set()
    made.seen.close()


def colour_seen(there: Watched) -> str:
    return colour_of(there.seen.get_cached(CONFIG_MAPS, KEY))


def test_what_others_write_is_seen_by_the_watch(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.write("red")
    there.until(lambda: ("settings", "red") in there.changes)
    assert colour_seen(there) == "red"
    assert there.own == [False]


def test_what_we_write_is_known_at_once(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.until(lambda: bool(there.watched))
    there.is_open.clear()
    there.seen.remember(there.write("red"))
    assert colour_seen(there) == "red"
    assert colour_of(there.seen.get(CONFIG_MAPS, KEY)) == "red"


def test_older_news_does_not_undo_what_we_wrote(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.write("red")
    there.until(lambda: ("settings", "red") in there.changes)
    there.is_open.clear()
    there.write("green")
    there.seen.remember(there.write("blue"))
    there.is_open.set()
    there.until(lambda: len(there.changes) == 3)
    assert [each for _name, each in there.changes] == ["red", "blue", "blue"]
    assert there.own == [False, False, True]


def test_newer_news_replaces_what_we_wrote(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.until(lambda: bool(there.watched))
    there.is_open.clear()
    there.seen.remember(there.write("red"))
    there.write("green")
    there.is_open.set()
    there.until(lambda: ("settings", "green") in there.changes)
    assert colour_seen(there) == "green"


def test_what_we_wrote_and_somebody_deleted_is_gone(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.until(lambda: bool(there.watched))
    there.is_open.clear()
    there.seen.remember(there.write("red"))
    there.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    there.is_open.set()
    there.until(lambda: ("settings", "") in there.changes)
    assert there.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert there.seen.get(CONFIG_MAPS, KEY) is None


def test_news_of_an_end_that_overtake_our_own_answer_count(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    written = there.write("red")
    there.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    there.until(lambda: len(there.changes) == 2)
    there.seen.remember(written)
    assert there.seen.get_cached(CONFIG_MAPS, KEY) is None
    # One that is made anew under the same name is another one.
    there.is_open.clear()
    there.seen.remember(there.write("green"))
    assert colour_seen(there) == "green"


def test_what_was_deleted_before_anybody_watched_is_gone(there: Watched) -> None:
    there.seen.remember(there.write("red"))
    assert colour_seen(there) == "red"
    there.cluster.delete(CONFIG_MAPS, "settings", namespace="default")
    there.seen.watch(CONFIG_MAPS)
    there.cluster.apply(settings("x", "other"), field_manager="people", force=True)
    # Its dependents hear of that.
    there.until(lambda: {("settings", ""), ("other", "x")} <= set(there.changes))
    assert there.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert there.seen.get(CONFIG_MAPS, KEY) is None


def test_lists_hold_what_we_wrote_and_only_what_is_asked_for(there: Watched) -> None:
    for name, labels in (("a", {"tier": "db"}), ("b", {"tier": "web"}), ("c", {"tier": "db"})):
        there.cluster.apply(settings("red", name, **labels), field_manager="people", force=True)
    there.seen.watch(CONFIG_MAPS)
    there.until(lambda: len(there.changes) == 3)
    there.is_open.clear()
    changed = copy_json(settings("blue", "c", tier="db"))
    there.seen.remember(there.cluster.apply(changed, field_manager="people", force=True))
    found = there.seen.list(CONFIG_MAPS, "", {"tier": "db"})
    assert [(each["metadata"]["name"], colour_of(each)) for each in found] == [
        ("a", "red"),
        ("c", "blue"),
    ]
    assert there.seen.list(CONFIG_MAPS, "elsewhere", {}) == []


def test_secrets_are_read_and_never_watched(there: Watched) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "door", "namespace": "default", "labels": {"of": "house"}},
        "data": {"key": "eA=="},
    }
    key = ObjectKey("default", "door")
    there.seen.remember(there.cluster.create(secret))
    there.seen.watch(SECRETS)
    found = there.seen.get(SECRETS, key)
    assert found is not None
    assert [each["metadata"]["name"] for each in there.seen.list(SECRETS, "", {"of": "house"})] == [
        "door"
    ]
    there.cluster.delete(SECRETS, "door", namespace="default")
    assert there.seen.get(SECRETS, key) is None
    assert there.seen.get_cached(SECRETS, key) is None
    assert there.seen.watched == ()
    assert there.watched == []


def test_a_kind_that_is_watched_no_longer_is_forgotten(there: Watched) -> None:
    there.seen.watch(CONFIG_MAPS)
    there.seen.remember(there.write("red"))
    there.seen.stop(CONFIG_MAPS)
    assert there.seen.get_cached(CONFIG_MAPS, KEY) is None
    assert not there.seen.has_synced(CONFIG_MAPS)


def test_a_reference_to_a_kind_that_is_not_there_finds_nothing(there: Watched) -> None:
    reference = {"apiVersion": "x.org/v1", "kind": "Nowhere", "name": "a"}
    assert there.seen.find(reference) is None
