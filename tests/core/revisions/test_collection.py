"""Garbage collection of old revisions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.revisions.collection import (
    CollectionPlan,
    KeptRevision,
    Revision,
    describe_uses,
    plan_collection,
)

FIVE = [Revision(f"r{number}", number) for number in range(1, 6)]


def test_newest_are_kept_and_oldest_are_removed_first() -> None:
    plan = plan_collection(FIVE, 2)
    assert plan.removed == ("r1", "r2", "r3")
    assert plan.kept == (
        KeptRevision("r5", ("is the newest",)),
        KeptRevision("r4", ("is among the newest 2",)),
    )


def test_used_revision_is_kept_with_its_reasons() -> None:
    used = [FIVE[0]._replace(uses=("held by XBucket/a",)), *FIVE[1:]]
    plan = plan_collection(used, 1)
    assert plan.removed == ("r2", "r3", "r4")
    assert plan.kept[-1] == KeptRevision("r1", ("held by XBucket/a",))


def test_without_a_limit_all_are_kept() -> None:
    assert plan_collection(FIVE, 0).removed == ()


def test_nothing_is_collected_from_nothing() -> None:
    assert plan_collection([], 1) == CollectionPlan((), ())


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(0, 20))
def test_the_newest_and_the_used_are_never_removed(used: list[bool], limit: int) -> None:
    revisions = [
        Revision(f"r{number}", number, ("used",) if is_used else ())
        for number, is_used in enumerate(used)
    ]
    removed = set(plan_collection(revisions, limit).removed)
    assert revisions[-1].name not in removed
    assert not removed & {revision.name for revision in revisions if revision.uses}


def test_many_users_are_counted_not_listed() -> None:
    users = {"is held by": [f"XBucket/{index}" for index in range(6)]}
    assert describe_uses(users) == ("is held by XBucket/0, XBucket/1, XBucket/2 and 3 more",)
