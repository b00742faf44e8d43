"""Assignment of shards as replicas come and go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.shards import shard_of, spread

MEMBERS = st.sets(st.sampled_from("abcdefghij"), min_size=1)


@given(st.integers(1, 40), MEMBERS, st.dictionaries(st.integers(0, 50), st.sampled_from("abxyz")))
def test_every_shard_has_one_holder_and_all_hold_equally_many(
    count: int, members: set[str], holders: dict[int, str]
) -> None:
    found = spread(count, members, holders)
    assert set(found) == set(range(count))
    held = Counter(dict.fromkeys(members, 0))
    held.update(found.values())
    assert set(held) == members
    assert max(held.values()) - min(held.values()) <= 1


@given(st.integers(1, 40), MEMBERS)
def test_what_is_fair_stays_as_it_is(count: int, members: set[str]) -> None:
    found = spread(count, members, {})
    assert spread(count, members, found) == found


@given(st.integers(1, 40), st.sets(st.sampled_from("abcdefghij"), min_size=2))
def test_the_end_of_one_moves_its_share_alone(count: int, members: set[str]) -> None:
    before = spread(count, members, {})
    gone = min(members)
    after = spread(count, members - {gone}, before)
    assert {at for at in after if after[at] != before[at]} == {
        at for at, who in before.items() if who == gone
    }


@given(st.integers(1, 40), MEMBERS)
def test_one_that_comes_is_given_its_share_and_nothing_else_moves(
    count: int, members: set[str]
) -> None:
    before = spread(count, members, {})
    after = spread(count, {*members, "new"}, before)
    moved = {at for at in after if after[at] != before[at]}
    assert {after[at] for at in moved} <= {"new"}
    assert len(moved) == count // (len(members) + 1)


def test_a_key_falls_into_one_shard_for_ever() -> None:
    # Replicas of two releases side by side must agree: these numbers never change.
    assert [shard_of(each, 3) for each in ("shop", "billing", "default", "")] == [0, 2, 0, 0]


def test_keys_are_spread_evenly() -> None:
    found = Counter(shard_of(f"team-{number}", 10) for number in range(10_000))
    assert max(found.values()) < 1_150
