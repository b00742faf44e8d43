"""Work queue: no duplicates, one thread per key, and limits on groups."""

from __future__ import annotations

from collections import Counter
from queue import Queue
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.controller.machine.work_loop import DONE, FAILED, PassResult, WorkLoop, WorkQueue
from kanister_py.core.errors import TransientError
from kanister_py.core.retries import RetryRule
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.timers import TimerService
from tests.controller.part_tools import part_tools
from tests.fake_clock import FakeClock

Key = tuple[str, str, int]
"""Kind, namespace and number."""


def queue_of(most: int, clock: FakeClock | None = None) -> WorkQueue[Key]:
    clock = clock or FakeClock()
    return WorkQueue(
        clock,
        TimerService(clock),
        groups_of=lambda key: ((("kind", key[0]), most), (("namespace", key[1]), most)),
    )


def taken(queue: WorkQueue[Key]) -> list[Key]:
    """Take all keys that are ready."""
    keys = []
    while queue._ready:
        key = _take_now(queue)
        if key is None:
            break
        keys.append(key)
    return keys


def _take_now(queue: WorkQueue[Key]) -> Key | None:
    """Take a key if one is ready."""

    class Waits(Exception):
        pass

    def wait(*_args: object) -> None:
        raise Waits

    before, queue._clock.wait = queue._clock.wait, wait  # type: ignore[method-assign,assignment] # no thread waits here
    try:
        return queue.take()
    except Waits:
        return None
    finally:
        queue._clock.wait = before  # type: ignore[method-assign] # as above


def test_a_busy_group_delays_only_its_own_keys() -> None:
    queue = queue_of(2)
    hung: list[Key] = [("hung", "a", number) for number in range(10)]
    well: list[Key] = [("well", "b", number) for number in range(2)]
    for key in (*hung, *well):
        queue.add(key)
    assert taken(queue) == [*hung[:2], *well]
    assert queue.depth == 8
    queue.done(hung[0])
    assert taken(queue) == [hung[2]]


def test_a_parked_key_whose_groups_change_does_not_block_its_old_group() -> None:
    clock = FakeClock()
    one, two, three = keys = [("one", "a", number) for number in range(3)]
    calls = dict.fromkeys(keys, (("function", 1),))
    queue: WorkQueue[Key] = WorkQueue(
        clock, TimerService(clock), groups_of=lambda key: calls.get(key, ())
    )
    for key in keys:
        queue.add(key)
    assert taken(queue) == [one]
    del calls[two]
    for key in keys[:2]:
        queue.done(key)
        assert len(taken(queue)) == 1
    queue.done(three)
    assert queue.is_idle


def test_a_function_that_exits_does_not_end_the_thread() -> None:
    clock, seen = FakeClock(), Event()
    loop: WorkLoop[str] = WorkLoop("Resource", part_tools(MemoryCluster(clock=clock), clock))

    def look(key: str) -> PassResult:
        if key == "exits":
            raise SystemExit(3)
        seen.set()
        return DONE

    loop.queue.add("exits")
    loop.queue.add("well")
    loop.start(look)
    assert seen.wait(30)
    # The key is retried, as after any failure.
    assert clock.wait_for_sleepers(1)
    assert clock.has_waiter_until(0.5)
    loop.close()


def test_the_oldest_age_is_that_of_the_key_that_waits_longest() -> None:
    clock = FakeClock()
    queue = queue_of(1, clock)
    for number in range(2):
        queue.add(("one", "a", number))
        clock.advance(10)
    assert queue.oldest_seconds == 20
    taken(queue)
    assert queue.oldest_seconds == 10


def test_the_delay_after_failures_is_at_most_a_minute() -> None:
    queue = queue_of(1)
    waits = [queue.add_rate_limited(("one", "a", 1)) for _ in range(40)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == 60.0


def test_a_key_is_given_up_after_more_failures_than_the_rule_allows() -> None:
    clock = FakeClock()
    tools = part_tools(MemoryCluster(clock=clock), clock)
    given_up: Queue[str] = Queue()
    loop: WorkLoop[str] = WorkLoop("Resource", tools, retry=RetryRule(1), give_up=given_up.put)
    looks: Queue[str] = Queue()

    def look(key: str) -> PassResult:
        looks.put(key)
        if looks.qsize() == 1:
            return FAILED
        raise TransientError("Nobody answers", reason="Away")

    loop.queue.add("one")
    loop.start(look)
    assert clock.wait_for_sleepers(1)
    clock.advance(10)
    assert given_up.get(timeout=30) == "one"
    assert looks.qsize() == 2
    # Its failures were reset.
    assert loop.queue.add_rate_limited("one") == 10
    loop.close()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 5))),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_every_key_is_processed_and_no_group_exceeds_its_limit(
    keys: list[Key], most: int, chance: object
) -> None:
    queue = queue_of(most)
    for key in keys:
        queue.add(key)
    seen: set[Key] = set()
    hands: list[Key] = []
    while True:
        hands += taken(queue)
        for place in (0, 1):
            assert all(count <= most for count in Counter(key[place] for key in hands).values())
        if not hands:
            break
        key = hands.pop(chance.randrange(len(hands)))  # type: ignore[attr-defined] # hypothesis' own
        seen.add(key)
        queue.done(key)
    assert seen == set(keys)
    assert queue.is_idle
    assert not queue._parked
    assert not queue._busy


@pytest.mark.parametrize("where", ["ready", "behind its group"])
def test_a_key_that_is_added_twice_is_queued_once(where: str) -> None:
    queue = queue_of(1)
    first, second = ("one", "a", 1), ("one", "a", 2)
    queue.add(first)
    queue.add(second)
    assert taken(queue) == [first]
    queue.add(second if where == "behind its group" else first)
    queue.add(second if where == "behind its group" else first)
    queue.done(first)
    assert len(taken(queue)) == 1
