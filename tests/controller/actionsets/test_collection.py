"""Collection of ActionSets: how many that ended are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kanister_py.controller.actionsets.projection import CachedActionSet, Ended, Live, cached_form
from kanister_py.controller.actionsets.tidying import parents_of_active, surplus
from kanister_py.executor.watch_cache import ObjectKey
from tests.controller.conftest import actionset

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def ended(minute: int, *blueprints: str) -> Ended:
    return Ended("uid", True, NOON + timedelta(minutes=minute), blueprints or ("b",))


def test_the_newest_of_each_blueprint_stay_and_the_oldest_go_first() -> None:
    sets: dict[ObjectKey, CachedActionSet] = {key(str(at)): ended(at) for at in range(5)}
    sets[key("other")] = ended(0, "c")
    assert surplus(sets, 2, frozenset()) == [key("0"), key("1"), key("2")]


def test_active_actionsets_and_their_parents_are_not_deleted() -> None:
    child = Live("uid", {"metadata": {}}, parents=("0",))
    sets: dict[ObjectKey, CachedActionSet] = {
        key("0"): ended(0),
        key("1"): ended(1),
        key("child"): child,
    }
    needed = parents_of_active(sets.items())
    assert surplus(sets, 0, needed) == [key("1")]


def test_an_actionset_of_several_blueprints_is_deleted_when_it_is_surplus_for_all() -> None:
    sets: dict[ObjectKey, CachedActionSet] = {
        key("both"): ended(0, "a", "b"),
        key("a"): ended(1, "a"),
    }
    assert surplus(sets, 1, frozenset()) == []
    sets[key("b")] = ended(2, "b")
    assert surplus(sets, 1, frozenset()) == [key("both")]


def test_ended_actionsets_are_cached_in_a_reduced_form() -> None:
    manifest = actionset(ttlSecondsAfterFinished=60, ttlSecondsAfterFailure=0)
    manifest["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T10:00:00Z"}
    lives = cached_form({**manifest, "metadata": {**manifest["metadata"]}})
    assert isinstance(lives, Live)
    assert lives.obj["spec"] == manifest["spec"]
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}
    over = cached_form({**manifest, "status": {"state": "failed", "conditions": [condition]}})
    assert over == Ended("u", False, NOON, ("made-up",), ttl_seconds=0)


def test_an_actionset_with_artifacts_is_kept_until_they_are_marked_as_deleted() -> None:
    manifest = actionset(ttlSecondsAfterFinished=60)
    left = [{"name": "act", "artifacts": {"dump": {"keyValue": {"path": "x"}}}}]
    manifest["status"] = {"state": "complete", "actions": left}
    manifest["metadata"] |= {"uid": "u"}

    def kept(note: str = "", **labels: str) -> Ended:
        notes = {"kanister-py.io/artifacts": note} if note else {}
        metadata = {**manifest["metadata"], "annotations": notes, "labels": labels}
        form = cached_form({**manifest, "metadata": metadata})
        assert isinstance(form, Ended)
        return form

    assert kept().ttl_seconds is None
    assert kept("Deleted").ttl_seconds == 60
    assert kept("Disposable").ttl_seconds == 60
    of_a_schedule = kept(**{"kanister-py.io/schedule": "nightly"})
    assert surplus({key("a"): kept(), key("b"): of_a_schedule}, 0, frozenset()) == [key("a")]
