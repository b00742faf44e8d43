"""Metrics of calls of composition functions, named as Crossplane's are."""

from __future__ import annotations

from typing import Protocol

from kanister_py.core.registry.entries import FunctionRevision


class FunctionMetrics(Protocol):
    """Counts. Called from many threads; never raises."""

    def count_request(self, revision: FunctionRevision) -> None:
        """A call is about to be made."""

    def count_response(
        self, revision: FunctionRevision, code: str, worst: str, seconds: float
    ) -> None:
        """A call came back: the code of gRPC (`OK`), and the worst severity in the answer."""

    def count_cache(self, function: str, what: str, amount: float = 1) -> None:
        """Something happened at the cache: hits, misses, errors, writes, deletes,
        bytes_written, bytes_deleted, or read_seconds, write_seconds with their amount."""


class NoMetrics:
    """Metrics that count nothing."""

    def count_request(self, revision: FunctionRevision) -> None:
        pass

    def count_response(
        self, revision: FunctionRevision, code: str, worst: str, seconds: float
    ) -> None:
        pass

    def count_cache(self, function: str, what: str, amount: float = 1) -> None:
        pass
