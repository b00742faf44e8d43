"""Cluster whose requests fail or wait."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

from kanister_py.core.kube.resources import (
    GroupVersionResource,
)
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.compositions.harness import (
    LIMIT_SECONDS,
)


class Faulty:
    """A cluster whose responses a test can replace."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.answers: dict[tuple[str, GroupVersionResource], Callable[[Any], Any]] = {}
        """Functions that change a response, by verb and kind."""

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if name not in ("get", "list", "watch", "delete"):
            return attribute

        def call(resource: GroupVersionResource, *args: Any, **options: Any) -> Any:
            answer = attribute(resource, *args, **options)
            change = self.answers.get((name, resource))
            return answer if change is None else change(answer)

        return call


class Gate:
    """Delays a response until it is opened."""

    def __init__(self) -> None:
        self.is_asked, self.is_open = Event(), Event()

    def __call__(self, answer: Any) -> Any:
        self.is_asked.set()
        assert self.is_open.wait(LIMIT_SECONDS)
        return answer
