"""Leader election: one of several replicas acts, and the next one takes over in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.machine.fencing import FencedCluster
from kanister_py.controller.machine.lease import Candidate, Leadership, LeaseTerms
from kanister_py.controller.machine.writing import delete_as_seen
from kanister_py.core.errors import (
    ClusterUnavailable,
    Conflict,
    Forbidden,
    LeadershipLost,
    UsageError,
)
from kanister_py.core.kube.resources import CONFIG_MAPS, LEASES
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.fake_clock import FakeClock

TERMS = LeaseTerms()
STEP_SECONDS = 0.5


class Flaky:
    """A cluster that one replica can be disconnected from."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.is_reachable = True
        self.refuses = False

    def __getattr__(self, name: str) -> Any:
        if self.refuses:
            raise Forbidden("leases is forbidden")
        if not self.is_reachable:
            raise ClusterUnavailable("connection refused")
        return getattr(self._cluster, name)


class Replica:
    """A replica with its own connection to the cluster and its own clock."""

    def __init__(self, cluster: MemoryCluster, name: str) -> None:
        self.clock = FakeClock()
        self.cluster = Flaky(cluster)
        self.lost = Event()
        self.leads = Event()
        self.refused: list[str] = []
        who = Candidate(self.cluster, self.clock, name, "default", TERMS)
        self.leadership = Leadership(who, "lease")

    def start(self, *, stands_by: bool = True) -> None:
        Thread(target=self._run, args=(stands_by,), daemon=True).start()
        self.rest()

    def _run(self, stands_by: bool) -> None:
        try:
            if self.leadership.acquire(stands_by=stands_by):
                self.leadership.renew_in_background(self.lost.set)
                self.leads.set()
        except UsageError as error:
            self.refused.append(f"{error.reason}: {error.message}")
            self.lost.set()

    def rest(self) -> None:
        """Wait, in real time, until this replica sleeps or is done."""
        if not self.lost.is_set():
            assert self.clock.wait_for_sleepers(1)


def pass_time(seconds: float, *replicas: Replica) -> None:
    """Advance all clocks in steps, and let each replica renew or try in between."""
    for _ in range(int(seconds / STEP_SECONDS)):
        for replica in replicas:
            if replica.lost.is_set():
                continue
            due = next((due for due, _ in [*replica.clock._waiting.values()]), float("inf"))
            wakes = replica.clock.monotonic() + STEP_SECONDS >= due
            replica.clock.advance(STEP_SECONDS)
            if wakes:
                wait_for_new_sleep(replica, due)


def wait_for_new_sleep(replica: Replica, due: float) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if replica.lost.is_set():
            return
        waiting = [*replica.clock._waiting.values()]
        if waiting and waiting[0][0] > due:
            return
        replica.lost.wait(0.002)
    raise AssertionError("a replica neither sleeps nor has ended")


@pytest.fixture
def replicas() -> Iterator[tuple[Replica, Replica]]:
    cluster = MemoryCluster(clock=FakeClock())
    first, second = Replica(cluster, "first"), Replica(cluster, "second")
    yield first, second
    for replica in (first, second):
        replica.leadership.abandon()


def test_a_standby_waits_while_the_leader_renews(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    second.start()
    pass_time(60, first, second)
    assert first.leadership.is_leader
    assert not second.leads.is_set()


def test_after_a_kill_another_replica_leads_within_fifteen_seconds(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    second.start()
    pass_time(7.5, first, second)
    first.leadership.abandon()
    first.lost.set()
    pass_time(15, second)
    assert second.leadership.is_leader


def test_a_leader_that_cannot_renew_stops_before_the_next_one_starts(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    second.start()
    pass_time(5, first, second)
    first.cluster.is_reachable = False
    for _ in range(40):
        pass_time(STEP_SECONDS, first, second)
        assert not (first.leadership.is_leader and second.leadership.is_leader)
    assert first.lost.is_set()
    assert second.leadership.is_leader


def test_lost_leadership_is_never_regained(
    replicas: tuple[Replica, Replica],
) -> None:
    first, _ = replicas
    assert first.leadership.acquire()
    first.clock.advance(TERMS.acts_for_seconds)
    with pytest.raises(LeadershipLost):
        first.leadership.check()
    assert not first.leadership.try_acquire()
    assert not first.leadership.is_leader


def test_a_short_outage_does_not_change_the_leader(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    first.start()
    second.start()
    pass_time(5, first, second)
    first.cluster.is_reachable = False
    pass_time(3, first, second)
    first.cluster.is_reachable = True
    pass_time(30, first, second)
    assert first.leadership.is_leader
    assert not second.leads.is_set()


def test_a_released_lease_is_taken_over_at_the_next_attempt(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    second.start()
    pass_time(5, first, second)
    first.leadership.close()
    first.lost.set()
    pass_time(2 * TERMS.renews_every_seconds, second)
    assert second.leadership.is_leader


def test_without_standby_a_live_leader_is_an_error(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    second.start(stands_by=False)
    pass_time(10, first, second)
    (refusal,) = second.refused
    assert refusal.startswith("AnotherController: Another kanister-py controller (first) acts on ")
    assert "--leader-elect" in refusal
    assert "a controller for other objects needs its own --partition or --home" in refusal


def test_without_standby_a_dead_leader_is_replaced(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    first.start()
    first.leadership.abandon()
    first.lost.set()
    second.start(stands_by=False)
    pass_time(15, second)
    assert second.leadership.is_leader


def test_a_failure_to_take_the_lease_is_logged_once_per_reason(
    replicas: tuple[Replica, Replica], caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = replicas
    first.cluster.is_reachable = False
    with caplog.at_level(logging.WARNING, "kanister_py"):
        first.start()
        pass_time(20, first)
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot take the lease lease: connection refused"
    ]
    first.cluster.is_reachable = True
    pass_time(5, first)
    assert first.leadership.is_leader


def test_the_reason_of_lost_leadership_names_the_new_holder(
    replicas: tuple[Replica, Replica],
) -> None:
    first, _ = replicas
    first.start()
    lease = first.cluster.get(LEASES, "lease", namespace="default")
    first.cluster.replace({**lease, "spec": {**lease["spec"], "holderIdentity": "second"}})
    pass_time(2 * TERMS.renews_every_seconds, first)
    assert first.lost.is_set()
    assert first.leadership.why_lost == "second holds the lease default/lease now"


def test_the_reason_of_a_failed_renewal_names_the_error(
    replicas: tuple[Replica, Replica],
) -> None:
    first, _ = replicas
    first.start()
    first.cluster.is_reachable = False
    pass_time(TERMS.acts_for_seconds + TERMS.renews_every_seconds, first)
    assert first.lost.is_set()
    assert first.leadership.why_lost == (
        "the lease default/lease could not be renewed for 7.5 s (connection refused); "
        "first held it last, another replica can take it soon"
    )


def test_a_restarted_pod_with_the_same_name_leads_at_once() -> None:
    cluster = MemoryCluster(clock=FakeClock())
    before, after = Replica(cluster, "one-pod"), Replica(cluster, "one-pod")
    assert before.leadership.acquire()
    before.leadership.abandon()
    assert after.leadership.acquire()
    spec = cluster.get(LEASES, "lease", namespace="default")["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one-pod", 0)


def test_requests_without_leadership_do_not_reach_the_cluster() -> None:
    replica = Replica(MemoryCluster(clock=FakeClock()), "one")
    fenced = FencedCluster(
        MemoryCluster(clock=SystemClock()),
        replica.leadership.check,
    ).as_cluster()
    assert replica.leadership.acquire()
    assert fenced.list(CONFIG_MAPS).items == []
    replica.clock.advance(TERMS.acts_for_seconds)
    with pytest.raises(LeadershipLost):
        fenced.list(CONFIG_MAPS)


def test_a_missing_permission_for_leases_is_reported_after_a_while() -> None:
    replica = Replica(MemoryCluster(clock=FakeClock()), "one")
    replica.cluster.refuses = True
    waiting = Thread(target=replica.leadership.acquire, daemon=True)
    waiting.start()
    replica.rest()
    assert replica.leadership.why_unable == ""
    pass_time(40.0, replica)
    assert replica.leadership.why_unable == "Can never lead: leases is forbidden"
    replica.cluster.refuses = False
    replica.clock.advance(TERMS.renews_every_seconds)
    waiting.join(180)
    assert replica.leadership.why_unable == ""
    assert replica.leadership.is_leader
    replica.leadership.close()


def test_a_former_leader_cannot_delete_objects_that_have_changed() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    lease = cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
    )
    cluster.replace({**lease, "data": {"is": "wanted again"}})
    with pytest.raises(Conflict):
        delete_as_seen(cluster, CONFIG_MAPS, lease)
    assert cluster.get(CONFIG_MAPS, "x", namespace="default")["data"] == {"is": "wanted again"}


# Changes during an attempt to take a Lease


class Between:
    """A cluster that runs a callback during its next calls."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.happens: list[tuple[str, Callable[[Callable[[], Any]], Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            act = partial(getattr(self._cluster, name), *args, **options)
            if self.happens and self.happens[0][0] == name:
                return self.happens.pop(0)[1](act)
            return act()

        return call


class Closing:
    """A replica that is closed while one of its threads takes or renews the Lease."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(clock=FakeClock())
        self.way = Between(self.cluster)
        who = Candidate(self.way, FakeClock(), "one", "default", TERMS)
        self.leadership = Leadership(who, "lease")

    def before(self, act: Callable[[], Any]) -> Any:
        self.leadership.close()
        return act()

    def after(self, act: Callable[[], Any]) -> Any:
        done = act()
        self.leadership.close()
        return done

    def amid(self, act: Callable[[], Any]) -> Any:
        """Write after the Lease was read in order to be given back, and before that is written."""
        done: list[Any] = []

        def late(give_back: Callable[[], Any]) -> Any:
            done.append(act())
            return give_back()

        self.way.happens.append(("replace", late))
        self.leadership.close()
        return done[0]


@pytest.mark.parametrize(
    ("call", "when"),
    [
        pytest.param("get", Closing.before, id="before it is read"),
        pytest.param("replace", Closing.before, id="before it is written"),
        pytest.param("replace", Closing.amid, id="as it is written"),
        pytest.param("replace", Closing.after, id="after it was written"),
    ],
)
def test_a_lease_that_is_released_during_a_renewal_is_free(
    call: str, when: Callable[[Closing, Callable[[], Any]], Any]
) -> None:
    closing = Closing()
    assert closing.leadership.try_acquire()
    closing.way.happens.append((call, partial(when, closing)))
    assert not closing.leadership.try_acquire()
    assert not closing.leadership.is_leader
    lease = closing.cluster.get(LEASES, "lease", namespace="default")
    assert lease["spec"]["holderIdentity"] == ""


def test_a_lease_that_is_taken_while_closing_is_released() -> None:
    closing = Closing()
    closing.way.happens.append(("create", closing.after))
    assert not closing.leadership.acquire()
    assert not closing.leadership.is_leader
    lease = closing.cluster.get(LEASES, "lease", namespace="default")
    assert lease["spec"]["holderIdentity"] == ""
