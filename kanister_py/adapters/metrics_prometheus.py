"""Prometheus metrics of calls of composition functions, named as Crossplane's are."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.proto.messages import METHODS, V1

_CALLED = ("function_name", "function_package", "grpc_target", "grpc_method", "revision")
_ANSWERED = (*_CALLED, "grpc_code", "result_severity")
_COUNTED = {
    "hits": "Answers that came from the cache",
    "misses": "Calls to which the cache had no answer",
    "errors": "Answers that the cache could not read or keep",
    "writes": "Answers that the cache keeps",
    "deletes": "Answers that the cache gave up",
    "bytes_written": "Bytes that the cache wrote",
    "bytes_deleted": "Bytes that the cache gave up",
}
_TIMED = {
    "read_seconds": "How long the cache took to read an answer",
    "write_seconds": "How long the cache took to keep an answer",
}


class PrometheusFunctionMetrics:
    """Metrics of one process; their server hands in the registry they are part of."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "function_run_function"
        self._requests = Counter(
            f"{prefix}_request", "Calls of functions", _CALLED, registry=registry
        )
        self._responses = Counter(
            f"{prefix}_response", "Answers of functions", _ANSWERED, registry=registry
        )
        self._seconds = Histogram(
            f"{prefix}_seconds", "How long functions took", _ANSWERED, registry=registry
        )
        self._cache = {
            what: Counter(
                f"{prefix}_response_cache_{what}", text, ("function_name",), registry=registry
            )
            for what, text in _COUNTED.items()
        }
        self._cache_seconds = {
            what: Histogram(
                f"{prefix}_response_cache_{what}", text, ("function_name",), registry=registry
            )
            for what, text in _TIMED.items()
        }

    def count_request(self, revision: FunctionRevision) -> None:
        self._requests.labels(*_labels(revision)).inc()

    def count_response(
        self, revision: FunctionRevision, code: str, worst: str, seconds: float
    ) -> None:
        labels = (*_labels(revision), code, worst)
        self._responses.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def count_cache(self, function: str, what: str, amount: float = 1) -> None:
        if what in self._cache_seconds:
            self._cache_seconds[what].labels(function).observe(amount)
        else:
            self._cache[what].labels(function).inc(amount)


def _labels(revision: FunctionRevision) -> tuple[str, str, str, str, str]:
    package = revision.digest
    return (revision.function, package, revision.endpoint, METHODS[V1], revision.name)
