"""Dependents: everything that a change concerns hears of it, however much changes at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.controller.compositions.dependents import (
    DependencyIndex,
    EventRateLimit,
    LabelSelection,
)
from kanister_py.core.kube.resources import CONFIG_MAPS, PODS
from kanister_py.executor.watch_cache import ObjectKey
from tests.fake_clock import FakeClock

SETTINGS = (CONFIG_MAPS, ObjectKey("shop", "settings"))


def wanted(namespace: str = "", **labels: str) -> LabelSelection:
    return LabelSelection(CONFIG_MAPS, namespace, frozenset(labels.items()))


@pytest.fixture
def index() -> DependencyIndex[str]:
    return DependencyIndex()


def test_a_dependent_that_names_an_object_hears_of_it_and_nobody_else(
    index: DependencyIndex[str],
) -> None:
    index.track("ann", [SETTINGS])
    index.track("bob", [(CONFIG_MAPS, ObjectKey("shop", "other"))])
    assert index.dependents_of(*SETTINGS) == {"ann"}
    assert index.dependents_of(PODS, SETTINGS[1]) == set()


@pytest.mark.parametrize(
    ("asked", "labels", "hears"),
    [
        pytest.param(wanted(tier="db"), [{"tier": "db", "more": "x"}], True, id="all labels"),
        pytest.param(wanted(tier="db", more="x"), [{"tier": "db"}], False, id="one is missing"),
        pytest.param(wanted(tier="db"), [{"tier": "db"}, {"tier": "web"}], True, id="had them"),
        pytest.param(wanted(tier="db"), [None, {"tier": "db"}], True, id="gets them"),
        pytest.param(wanted(tier="db"), [None, None], False, id="never had any"),
        pytest.param(wanted(), [None], True, id="asked for all"),
        pytest.param(wanted("shop"), [None], True, id="in its namespace"),
        pytest.param(wanted("other"), [None], False, id="in another namespace"),
    ],
)
def test_a_dependent_that_asks_by_labels_hears_of_what_has_or_had_them(
    index: DependencyIndex[str],
    asked: LabelSelection,
    labels: list[dict[str, str] | None],
    hears: bool,
) -> None:
    index.track("ann", [], [asked])
    assert index.dependents_of(*SETTINGS, *labels) == ({"ann"} if hears else set())


def test_what_is_said_anew_replaces_what_was_said(index: DependencyIndex[str]) -> None:
    index.track("ann", [SETTINGS], [wanted("shop")])
    index.track("ann", [(PODS, ObjectKey("shop", "db"))])
    assert index.dependents_of(*SETTINGS, {}) == set()
    assert index.resources == {PODS}


def test_only_what_is_new_may_have_changed_unheard(index: DependencyIndex[str]) -> None:
    one, two = ((CONFIG_MAPS, ObjectKey("ns", name)) for name in ("one", "two"))
    assert index.track("ann", [one])
    assert not index.track("ann", [one])
    assert index.track("ann", [one, two])
    assert not index.track("ann", [two])


def test_nothing_is_left_of_who_was_forgotten(index: DependencyIndex[str]) -> None:
    index.track("ann", [SETTINGS], [wanted("shop")])
    index.track("bob", [SETTINGS])
    index.forget("ann")
    index.forget("never was there")
    assert index.dependents_of(*SETTINGS, {}) == {"bob"}
    index.forget("bob")
    assert index.resources == set()


BURST = 10


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def limit(clock: FakeClock) -> EventRateLimit[str]:
    return EventRateLimit(clock, burst=BURST, refill_per_second=1.0)


def flood(
    limit: EventRateLimit[str], source: str = "Pod/noisy", count: int = BURST + 5
) -> list[float]:
    return [limit.delay_for("ann", source) for _ in range(count)]


def test_a_few_changes_are_followed_at_once(limit: EventRateLimit[str]) -> None:
    assert flood(limit, count=BURST) == [0.0] * BURST
    assert limit.flooded_by("ann") == ""
    assert limit.seconds_to_calm("ann") is None


def test_too_many_changes_are_followed_later_but_all_of_them(limit: EventRateLimit[str]) -> None:
    delays = flood(limit)[BURST:]
    assert len(delays) == 5
    # One look sees all that came before it, so nobody waits for one look each.
    assert all(0.0 < each <= 1.0 for each in delays)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=200))
def test_no_change_waits_longer_than_it_takes_to_let_one_through(pauses: list[float]) -> None:
    clock = FakeClock()
    limit: EventRateLimit[str] = EventRateLimit(clock, burst=3, refill_per_second=0.5)
    for pause in pauses:
        clock.advance(pause)
        assert 0.0 <= limit.delay_for("ann", "Pod/noisy") <= 1 / 0.5


def test_one_who_is_flooded_delays_nobody_else(limit: EventRateLimit[str]) -> None:
    flood(limit)
    assert limit.delay_for("bob", "Pod/noisy") == 0.0
    assert limit.flooded_by("bob") == ""


def test_the_noisiest_is_named(limit: EventRateLimit[str]) -> None:
    limit.delay_for("ann", "Pod/quiet")
    flood(limit, "Pod/noisy")
    limit.delay_for("ann", "Pod/quiet")
    assert limit.flooded_by("ann") == "Pod/noisy"


def test_a_flood_that_ends_is_told_of_no_longer(
    limit: EventRateLimit[str], clock: FakeClock
) -> None:
    flood(limit)
    seconds = limit.seconds_to_calm("ann")
    assert seconds is not None
    clock.advance(seconds - 0.1)
    assert limit.flooded_by("ann") == "Pod/noisy"
    clock.advance(0.2)
    assert limit.flooded_by("ann") == ""
    assert limit.seconds_to_calm("ann") is None


def test_who_is_forgotten_begins_anew(limit: EventRateLimit[str]) -> None:
    flood(limit)
    limit.forget("ann")
    assert limit.flooded_by("ann") == ""
    assert limit.delay_for("ann", "Pod/noisy") == 0.0
