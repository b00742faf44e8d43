"""Shards: each replica's share, as replicas come, end, freeze, and are of other numbers."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest

from kanister_py.controller.machine.lease import Candidate, Leadership
from kanister_py.controller.machine.shards import LEASE_NAME, Hooks, Shards, ShardTerms
from kanister_py.core.errors import ClusterUnavailable, LeadershipLost
from kanister_py.core.kube.parts import name_of, spec_of
from kanister_py.core.kube.resources import LEASES
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.fake_clock import FakeClock

STEP_SECONDS = 0.5
KEYS = [f"team-{number}" for number in range(40)]


class Way:
    """A replica's own way to the cluster, which may be cut."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.is_open = True

    def __getattr__(self, name: str) -> Any:
        if not self.is_open:
            raise ClusterUnavailable("connection refused")
        return getattr(self._cluster, name)


class Replica:
    """One of several, with its own clock: who is frozen does not see time pass."""

    def __init__(self, cluster: MemoryCluster, name: str, count: int = 3) -> None:
        self.clock = FakeClock()
        self.way = Way(cluster)
        self.joined, self.lost = Event(), Event()
        self.faults: Counter[str] = Counter()
        """How often each hook falls over before it does what it is for."""
        self.is_frozen = self.is_gone = False
        self.may_leave = True
        self.taken_up = self.forgotten = 0
        who = Candidate(self.way, self.clock, name, "default")
        self.shards: Shards = Shards(who, ShardTerms(count))

    def start(self) -> Replica:
        Thread(target=self._run, daemon=True).start()
        self.settle()
        return self

    def _run(self) -> None:
        if self.shards.join(is_patient=True):
            self.shards.keep(self.lost.set)
            self.shards.follow(Hooks(self._take_up, self._put_down, self._forget))
            self.joined.set()

    def _put_down(self) -> bool:
        self._fall_over("put_down")
        return self.may_leave

    def _forget(self) -> None:
        self._fall_over("forget")
        self.forgotten += 1

    def _take_up(self) -> None:
        self._fall_over("take_up")
        self.taken_up += 1

    def _fall_over(self, hook: str) -> None:
        if self.faults[hook]:
            self.faults[hook] -= 1
            raise ValueError(f"a mistake in {hook}")

    @property
    def _threads(self) -> int:
        """How many threads of it there are, as long as all is well."""
        shards = self.shards
        if shards.count == 1:
            return 1
        own = 2 if shards._own.is_leader else 1
        return own + len(shards._held)

    def settle(self) -> None:
        """Wait, in real time, until each of its threads sleeps."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.lost.is_set() or self.is_gone:
                return
            now = self.clock.monotonic()
            asleep = sum(due > now for due, _ in [*self.clock._waiting.values()])
            if asleep == self._threads:
                return
            time.sleep(0.001)
        raise AssertionError("a replica never came to rest")

    def acts_on(self, key: str) -> bool:
        try:
            self.shards.check()
            self.shards.check_of(key)()
        except LeadershipLost:
            return False
        return self.joined.is_set() and self.shards.owns(key)

    def kill(self) -> None:
        self.is_gone = True
        self.shards.abandon()


def pass_time(seconds: float, *replicas: Replica) -> None:
    """Let time pass for all that are not frozen; at no moment may two act on one key."""
    for _ in range(int(seconds / STEP_SECONDS)):
        for each in replicas:
            if not each.is_frozen and not each.is_gone:
                each.clock.advance(STEP_SECONDS)
                each.settle()
        for key in KEYS:
            assert sum(each.acts_on(key) for each in replicas if not each.is_frozen) <= 1, key


def pass_time_until(is_so: Callable[[], bool], most: float, *replicas: Replica) -> None:
    for _ in range(int(most / STEP_SECONDS)):
        if is_so():
            return
        pass_time(STEP_SECONDS, *replicas)
    assert is_so()


def shares(*replicas: Replica) -> list[tuple[int, ...]]:
    return [each.shards.held for each in replicas]


def all_is_owned(*replicas: Replica) -> bool:
    return all(sum(each.acts_on(key) for each in replicas) == 1 for key in KEYS)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=FakeClock())


@pytest.fixture
def start(cluster: MemoryCluster) -> Iterator[Callable[..., Replica]]:
    made: list[Replica] = []

    def start(name: str, count: int = 3) -> Replica:
        made.append(Replica(cluster, name, count))
        return made[-1].start()

    yield start
    for each in made:
        each.kill()


@pytest.fixture
def three(start: Callable[..., Replica]) -> list[Replica]:
    replicas = [start(name) for name in ("one", "two", "three")]
    pass_time(6, *replicas)
    return replicas


def test_the_first_does_everything_and_gives_each_that_comes_its_share(
    start: Callable[..., Replica],
) -> None:
    one = start("one")
    pass_time(3, one)
    assert shares(one) == [(0, 1, 2)]
    assert all_is_owned(one)
    two = start("two")
    pass_time(6, one, two)
    assert sorted(map(len, shares(one, two))) == [1, 2]
    assert all_is_owned(one, two)
    three = start("three")
    pass_time(6, one, two, three)
    assert list(map(len, shares(one, two, three))) == [1, 1, 1]
    assert all_is_owned(one, two, three)
    assert [each.shards.owns_whole for each in (one, two, three)].count(True) == 1
    assert two.taken_up + three.taken_up >= 2
    assert one.forgotten >= 1


def test_a_fourth_of_three_stands_by_and_is_there_when_one_ends(
    three: list[Replica], start: Callable[..., Replica]
) -> None:
    fourth = start("four")
    pass_time(6, *three, fourth)
    assert shares(fourth) == [()]
    assert fourth.joined.is_set()
    three[1].kill()
    pass_time_until(lambda: bool(fourth.shards.held), 15, *three, fourth)
    assert all_is_owned(three[0], three[2], fourth)


@pytest.mark.parametrize("ends", ["is killed", "stops", "freezes"])
def test_two_of_three_end_in_turn_and_only_their_shares_move_within_fifteen_seconds(
    three: list[Replica], ends: str
) -> None:
    left = list(three)
    for number in (1, 0):
        gone = left.pop(number)
        kept = shares(*left)
        if ends == "is killed":
            gone.kill()
        elif ends == "stops":
            gone.is_gone = True
            gone.shards.close()
        else:
            gone.is_frozen = True
        pass_time_until(lambda: all_is_owned(*left), 15, *left)
        for before, after in zip(kept, shares(*left), strict=True):
            assert set(before) <= set(after)


def test_one_that_thaws_does_nothing_more_and_ends(three: list[Replica]) -> None:
    frozen, *others = three
    frozen.is_frozen = True
    own = next(key for key in KEYS if frozen.shards.owns(key))
    begun = frozen.shards.check_of(own)
    begun()
    pass_time(15, *others)
    assert all_is_owned(*others)
    frozen.clock.advance(15)
    with pytest.raises(LeadershipLost):
        begun()
    with pytest.raises(LeadershipLost):
        frozen.shards.check()
    assert frozen.lost.wait(180)


def test_one_that_is_cut_off_stops_before_others_begin(three: list[Replica]) -> None:
    cut, *others = three
    cut.way.is_open = False
    # That no two replicas act on one key is looked at in each step.
    pass_time(20, *three)
    assert cut.lost.is_set()
    assert all_is_owned(*others)


def test_a_shard_whose_work_cannot_be_put_down_stays_for_a_while_and_goes_later(
    start: Callable[..., Replica],
) -> None:
    one = start("one", count=2)
    pass_time(3, one)
    one.may_leave = False
    two = start("two", count=2)
    pass_time(5, one, two)
    assert len(one.shards.held) == 2
    # What is to go is no longer begun with, but what is under way may write.
    leaving = next(key for key in KEYS if not one.shards.owns(key))
    one.shards.check_of(leaving)()
    before = one.taken_up
    pass_time(25, one, two)
    assert one.taken_up == before + 1
    assert all_is_owned(one, two)
    assert shares(one, two) == [(0, 1), ()]
    one.may_leave = True
    pass_time(65, one, two)
    assert list(map(len, shares(one, two))) == [1, 1]


@pytest.mark.parametrize("hook", ["put_down", "forget", "take_up"])
def test_a_share_moves_though_a_mistake_comes_in_between(
    start: Callable[..., Replica], hook: str
) -> None:
    one = start("one", count=2)
    pass_time(3, one)
    one.faults[hook] = 1
    two = start("two", count=2)
    two.faults[hook] = 1
    pass_time(9, one, two)
    assert list(map(len, shares(one, two))) == [1, 1]
    assert all_is_owned(one, two)
    assert (one.forgotten, two.taken_up) == (1, 1)


def test_a_shard_whose_work_is_never_put_down_for_a_mistake_goes_on_where_it_is(
    start: Callable[..., Replica],
) -> None:
    one = start("one", count=2)
    pass_time(3, one)
    one.faults["put_down"] = 1000
    two = start("two", count=2)
    pass_time(25, one, two)
    assert shares(one, two) == [(0, 1), ()]
    assert all_is_owned(one, two)


def test_what_is_under_way_is_not_cut_off_by_a_shard_that_comes_too_late(
    cluster: MemoryCluster,
) -> None:
    late = f"{LEASE_NAME}-shard-1"

    class StoppedMeanwhile(Way):
        def create(self, lease: Any) -> Any:
            if name_of(lease) == late:
                shards.withdraw()
            return cluster.create(lease)

    way: Any = StoppedMeanwhile(cluster)
    shards: Shards = Shards(Candidate(way, FakeClock(), "one", "default"), ShardTerms(2))
    assert shards.join(is_patient=True)
    shards.check()
    assert shards.is_leader
    assert shards.held == (0,)
    assert spec_of(cluster.get(LEASES, late, namespace="default"))["holderIdentity"] == ""
    shards.close()


def test_what_is_under_way_is_not_cut_off_by_a_shard_that_is_given_away_at_that_moment(
    three: list[Replica],
) -> None:
    held: dict[int, Any] = three[0].shards._held

    class GivenAway:
        """Ends, as it is asked, in the order in which a shard is given away."""

        @property
        def is_leader(self) -> bool:
            del held[7]
            return False

        def check(self) -> None:
            if not self.is_leader:
                raise LeadershipLost

    for ask in (three[0].shards.check, lambda: three[0].shards.is_leader):
        held[7] = GivenAway()
        assert ask() is not False


def test_a_shard_that_comes_back_is_not_for_what_was_begun_before(
    start: Callable[..., Replica],
) -> None:
    one = start("one", count=2)
    pass_time(3, one)
    checks = {key: one.shards.check_of(key) for key in KEYS}
    two = start("two", count=2)
    pass_time(6, one, two)
    gone = next(key for key in KEYS if not one.shards.owns(key))
    two.kill()
    pass_time(16, one)
    assert one.shards.owns(gone)
    one.shards.check_of(gone)()
    with pytest.raises(LeadershipLost):
        checks[gone]()


@pytest.mark.parametrize("other", [1, 2, 5])
def test_one_started_with_another_number_stands_by_until_the_last_of_the_former_has_gone(
    three: list[Replica], start: Callable[..., Replica], other: int
) -> None:
    new = start("new", count=other)
    pass_time(6, *three, new)
    assert shares(new) == [()]
    for gone in (0, 1):
        three[gone].kill()
        pass_time(16, *three, new)
        assert shares(new) == [()]
    three[2].kill()
    pass_time(30, new)
    assert new.shards.held == tuple(range(other))
    assert all_is_owned(new)


def test_they_stand_by_while_one_leads_that_knows_of_no_shards(
    cluster: MemoryCluster, start: Callable[..., Replica]
) -> None:
    clock = FakeClock()
    old = Leadership(Candidate(cluster, clock, "old", "default"), LEASE_NAME)
    assert old.acquire()
    new = [start(name) for name in ("one", "two")]
    for _ in range(12):
        pass_time(1.5, *new)
        clock.advance(1.5)
        assert old.take()
    assert shares(*new) == [(), ()]
    old.close()
    pass_time(4, *new)
    assert all_is_owned(*new)


@pytest.mark.parametrize("order", [*itertools.permutations((1, 3, 4))])
def test_of_several_numbers_that_begin_together_one_acts(
    start: Callable[..., Replica], order: tuple[int, ...]
) -> None:
    replicas = [start(f"of {count}", count) for count in order]
    pass_time(12, *replicas)
    assert len([each for each in shares(*replicas) if each]) == 1


def test_the_leases_of_those_that_are_gone_do_not_pile_up(
    cluster: MemoryCluster, three: list[Replica]
) -> None:
    three[1].kill()
    three[2].kill()
    pass_time(20, three[0])
    names = {name_of(each) for each in cluster.list(LEASES)}
    assert len(names) == 4
    assert names >= {LEASE_NAME, f"{LEASE_NAME}-shard-1", f"{LEASE_NAME}-shard-2"}
