"""Lines of phases that are read from the logs of the controller's pods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from kanister_py.controller.actionsets.pod_logs import PodLogLines
from kanister_py.ports.cluster import Cluster

ACTIONSET = {"metadata": {"name": "one", "namespace": "shop"}}


class Replicas:
    """A cluster with pods of a controller, each with its log."""

    def __init__(self, logs: Mapping[str, list[tuple[str, str]]]) -> None:
        self._logs = logs

    def list(self, resource: Any, **options: Any) -> Any:
        pods = [{"metadata": {"name": name, "namespace": "home"}} for name in self._logs]
        return SimpleNamespace(items=pods)

    @contextmanager
    def read_log(self, name: str, **options: Any) -> Iterator[Iterator[bytes]]:
        common = {"logger": "kanister_py.phase", "namespace": "shop", "actionSet": "one"}
        lines = [
            json.dumps({"time": time, "message": text, **common}) for time, text in self._logs[name]
        ]
        yield iter(["\n".join(lines).encode()])


def test_lines_of_all_replicas_are_sorted_by_time() -> None:
    replicas = Replicas(
        {
            "second": [("2026-01-01T00:00:01.25Z", "third"), ("2026-01-01T00:00:02Z", "fourth")],
            "first": [("2026-01-01T00:00:00.9Z", "first"), ("2026-01-01T00:00:01Z", "second")],
        }
    )
    lines = PodLogLines(cast("Cluster", replicas), "home").new_lines(ACTIONSET)
    assert [line.text for line in lines] == ["first", "second", "third", "fourth"]
