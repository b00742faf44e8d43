"""Fencing: a cluster that refuses a process which may not act any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kanister_py.core.errors import LeadershipLost
from kanister_py.ports.cluster import Cluster


class Fence:
    """Permission to act until it is shut, and no longer than the process itself may."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._is_shut = False

    def check(self) -> None:
        if self._is_shut:
            raise LeadershipLost
        self._check()

    def shut(self) -> None:
        self._is_shut = True


class FencedCluster:
    """A cluster that asks before every call whether it is allowed at all.

    A function that runs on in a thread of a leader that was is not the master of
    anything: whatever it tries next raises.
    """

    def __init__(self, cluster: Cluster, check: Callable[[], None]) -> None:
        self._cluster = cluster
        self._check = check

    def as_cluster(self) -> Cluster:
        """Give it as what it stands for."""
        return cast("Cluster", self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if not callable(found):
            return found
        check = self._check

        def call(*args: Any, **options: Any) -> Any:
            check()
            return found(*args, **options)

        # Every function of a run goes through here: the next call finds it at once.
        self.__dict__[name] = call
        return call
