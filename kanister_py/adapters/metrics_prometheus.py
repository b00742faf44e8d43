"""Prometheus metrics of calls of composition functions, with the names that Crossplane uses."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.proto.messages import METHODS, V1

_CALLED = ("function_name", "function_package", "grpc_target", "grpc_method", "revision")
_ANSWERED = (*_CALLED, "grpc_code", "result_severity")
_COUNTED = {
    "hits": "Responses served from the cache",
    "misses": "Calls without a cached response",
    "errors": "Responses that the cache could not read or store",
    "writes": "Responses stored in the cache",
    "deletes": "Responses evicted from the cache",
    "bytes_written": "Bytes written to the cache",
    "bytes_deleted": "Bytes evicted from the cache",
}
_TIMED = {
    "read_seconds": "Time to read a response from the cache",
    "write_seconds": "Time to store a response in the cache",
}


class PrometheusFunctionMetrics:
    """Metrics of one process. The caller passes the registry in which they are registered."""

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
