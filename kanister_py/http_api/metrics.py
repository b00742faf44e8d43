"""Metrics of the endpoint: requests, functions and the release."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)


class Metrics:
    """Metrics by route instead of path, because the number of paths is unlimited.

    A process that embeds the endpoint adds its own collectors to `registry`.
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
            "kanister_py_functions", "Registered functions", registry=self.registry
        )
        self._versions = Gauge(
            "kanister_py_function_versions",
            "Versions of functions, by their status in the installed release",
            ("status",),
            registry=self.registry,
        )
        self._release = Gauge(
            "kanister_py_build_info", "The running release", ("release",), registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        # Looking up a series by its labels takes longer than incrementing it.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def record_functions(self, count: int, versions: Mapping[str, int], release: str) -> None:
        """Set the numbers of functions and versions. Pass zero for a status without versions."""
        self._functions.set(count)
        for status, number in versions.items():
            self._versions.labels(status).set(number)
        self._release.labels(release).set(1)

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        series = self._series.get(key)
        if series is None:
            shown = method if method in _METHODS else "other"
            series = (
                self._requests.labels(route, shown, str(status)),
                self._seconds.labels(route),
            )
            if shown == method:
                self._series[key] = series
        series[0].inc()
        series[1].observe(seconds)

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Return the media type that the scraper accepts, and all metrics in it."""
        encode, media_type = choose_encoder(accept)
        return media_type, encode(self.registry)
