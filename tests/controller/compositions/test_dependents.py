"""Dependents of changed objects, and the rate limit on changes."""

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


def selection_of(namespace: str = "", **labels: str) -> LabelSelection:
    return LabelSelection(CONFIG_MAPS, namespace, frozenset(labels.items()))


@pytest.fixture
def index() -> DependencyIndex[str]:
    return DependencyIndex()


def test_a_dependent_by_name_is_found_and_no_other_one(
    index: DependencyIndex[str],
) -> None:
    index.track("first", [SETTINGS])
    index.track("second", [(CONFIG_MAPS, ObjectKey("shop", "other"))])
    assert index.dependents_of(*SETTINGS) == {"first"}
    assert index.dependents_of(PODS, SETTINGS[1]) == set()


@pytest.mark.parametrize(
    ("selection", "labels", "is_dependent"),
    [
        pytest.param(selection_of(tier="db"), [{"tier": "db", "more": "x"}], True, id="all labels"),
        pytest.param(
            selection_of(tier="db", more="x"), [{"tier": "db"}], False, id="one label is missing"
        ),
        pytest.param(
            selection_of(tier="db"), [{"tier": "db"}, {"tier": "web"}], True, id="old labels"
        ),
        pytest.param(selection_of(tier="db"), [None, {"tier": "db"}], True, id="new labels"),
        pytest.param(selection_of(tier="db"), [None, None], False, id="no labels"),
        pytest.param(selection_of(), [None], True, id="no selector"),
        pytest.param(selection_of("shop"), [None], True, id="same namespace"),
        pytest.param(selection_of("other"), [None], False, id="another namespace"),
    ],
)
def test_a_dependent_by_labels_is_found_for_old_and_new_labels(
    index: DependencyIndex[str],
    selection: LabelSelection,
    labels: list[dict[str, str] | None],
    is_dependent: bool,
) -> None:
    index.track("first", [], [selection])
    assert index.dependents_of(*SETTINGS, *labels) == ({"first"} if is_dependent else set())


def test_new_dependencies_replace_the_old_ones(index: DependencyIndex[str]) -> None:
    index.track("first", [SETTINGS], [selection_of("shop")])
    index.track("first", [(PODS, ObjectKey("shop", "db"))])
    assert index.dependents_of(*SETTINGS, {}) == set()
    assert index.resources == {PODS}


def test_only_new_dependencies_are_reported_as_new(index: DependencyIndex[str]) -> None:
    one, two = ((CONFIG_MAPS, ObjectKey("ns", name)) for name in ("one", "two"))
    assert index.track("first", [one])
    assert not index.track("first", [one])
    assert index.track("first", [one, two])
    assert not index.track("first", [two])


def test_a_forgotten_key_has_no_dependencies(index: DependencyIndex[str]) -> None:
    index.track("first", [SETTINGS], [selection_of("shop")])
    index.track("second", [SETTINGS])
    index.forget("first")
    index.forget("unknown")
    assert index.dependents_of(*SETTINGS, {}) == {"second"}
    index.forget("second")
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
    return [limit.delay_for("first", source) for _ in range(count)]


def test_a_few_changes_are_not_delayed(limit: EventRateLimit[str]) -> None:
    assert flood(limit, count=BURST) == [0.0] * BURST
    assert limit.flooded_by("first") == ""
    assert limit.seconds_to_calm("first") is None


def test_too_many_changes_are_delayed_and_not_dropped(limit: EventRateLimit[str]) -> None:
    delays = flood(limit)[BURST:]
    assert len(delays) == 5
    # One reconcile covers all changes before it, so the delays do not add up.
    assert all(0.0 < delay <= 1.0 for delay in delays)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=200))
def test_the_delay_is_at_most_the_time_to_refill_one_token(pauses: list[float]) -> None:
    clock = FakeClock()
    limit: EventRateLimit[str] = EventRateLimit(clock, burst=3, refill_per_second=0.5)
    for pause in pauses:
        clock.advance(pause)
        assert 0.0 <= limit.delay_for("first", "Pod/noisy") <= 1 / 0.5


def test_a_flooded_key_does_not_delay_other_keys(limit: EventRateLimit[str]) -> None:
    flood(limit)
    assert limit.delay_for("second", "Pod/noisy") == 0.0
    assert limit.flooded_by("second") == ""


def test_the_source_of_most_changes_is_reported(limit: EventRateLimit[str]) -> None:
    limit.delay_for("first", "Pod/quiet")
    flood(limit, "Pod/noisy")
    limit.delay_for("first", "Pod/quiet")
    assert limit.flooded_by("first") == "Pod/noisy"


def test_a_flood_is_not_reported_after_its_end(
    limit: EventRateLimit[str], clock: FakeClock
) -> None:
    flood(limit)
    seconds = limit.seconds_to_calm("first")
    assert seconds is not None
    clock.advance(seconds - 0.1)
    assert limit.flooded_by("first") == "Pod/noisy"
    clock.advance(0.2)
    assert limit.flooded_by("first") == ""
    assert limit.seconds_to_calm("first") is None


def test_a_forgotten_key_has_its_full_burst_again(limit: EventRateLimit[str]) -> None:
    flood(limit)
    limit.forget("first")
    assert limit.flooded_by("first") == ""
    assert limit.delay_for("first", "Pod/noisy") == 0.0
