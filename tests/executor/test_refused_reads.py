"""Refused reads are not repeated for a while."""

from __future__ import annotations

import pytest

from kanister_py.core.errors import Forbidden, NotFound
from kanister_py.core.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.workers import Workers
from tests.fake_clock import FakeClock


class Account:
    """Account whose requests are counted and refused until `is_granted` is set."""

    def __init__(self) -> None:
        self.requests = 0
        self.is_granted = False

    def __call__(self) -> str:
        self.requests += 1
        if not self.is_granted:
            raise Forbidden("nodes is forbidden")
        return "found"


def test_a_refused_read_is_not_repeated_for_ten_minutes() -> None:
    clock, account = FakeClock(), Account()
    refused = RefusedReads(clock)
    for name in ("one", "two", "one"):
        with pytest.raises(Forbidden, match="nodes is forbidden"):
            refused.read(account, NODES, name=name)
    assert account.requests == 1
    clock.advance(599)
    with pytest.raises(Forbidden):
        refused.read(account, NODES, name="one")
    assert account.requests == 1
    account.is_granted = True
    clock.advance(2)
    assert refused.read(account, NODES, name="one") == "found"
    assert refused.read(account, NODES, name="two") == "found"


def test_a_refusal_in_a_namespace_holds_for_one_object() -> None:
    account = Account()
    refused = RefusedReads(FakeClock())
    for namespace, name in (("shop", "a"), ("shop", "b"), ("blog", "a"), ("shop", "a")):
        with pytest.raises(Forbidden):
            refused.read(account, PERSISTENT_VOLUME_CLAIMS, namespace, name)
    assert account.requests == 3


def test_other_errors_are_not_remembered() -> None:
    refused = RefusedReads(FakeClock())
    outcomes: list[object] = [NotFound("gone"), NotFound("gone"), "found"]

    def ask() -> object:
        answer = outcomes.pop(0)
        if isinstance(answer, NotFound):
            raise answer
        return answer

    for _ in range(2):
        with pytest.raises(NotFound):
            refused.read(ask, NODES)
    assert refused.read(ask, NODES) == "found"


def test_accounts_do_not_share_refusals() -> None:
    clock, cluster = FakeClock(), MemoryCluster(clock=FakeClock())
    ours = Surroundings(cluster, clock, Workers(), SharedWatches(cluster, clock))
    theirs = ours._replace(service_account="tenant")
    with pytest.raises(Forbidden):
        theirs.refused.read(Account(), NODES)
    assert ours.refused.read(lambda: "found", NODES) == "found"
    assert ours.refused is ours.refused
