"""Metrics of the endpoint: requests, functions and the release, as a scrape finds them."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)


class Metrics:
    """Metrics by route, never by address: addresses have no end.

    A process that embeds the endpoint adds collectors of its own to `registry`.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._requests = Counter(
            "kanister_py_http_requests",
            "Requests that were answered",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kanister_py_http_request_duration_seconds",
            "Time from a request's arrival to its answer",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._functions = Gauge(
            "kanister_py_functions", "Functions that are registered", registry=self.registry
        )
        self._versions = Gauge(
            "kanister_py_function_versions",
            "Versions of functions, by what the installed release makes of them",
            ("status",),
            registry=self.registry,
        )
        self._release = Gauge(
            "kanister_py_build_info", "The release that runs", ("release",), registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        # Finding a series by its labels takes longer than counting it.
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def record_functions(self, count: int, versions: Mapping[str, int], release: str) -> None:
        """Say what is registered; a status that nothing has is zero, not absent."""
        self._functions.set(count)
        for status, number in versions.items():
            self._versions.labels(status).set(number)
        self._release.labels(release).set(1)

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        known = self._known.get(key)
        if known is None:
            shown = method if method in _METHODS else "other"
            known = (
                self._requests.labels(route, shown, str(status)),
                self._seconds.labels(route),
            )
            if shown == method:
                self._known[key] = known
        known[0].inc()
        known[1].observe(seconds)

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Write everything down, in the format that a scraper asks for, and name that format."""
        encode, media_type = choose_encoder(accept)
        return media_type, encode(self.registry)
