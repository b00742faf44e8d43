"""Metrics of a function server, with the names that gRPC servers in Go use."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import start_http_server

from kanister_py.proto.messages import SERVICE

_LABELS = ("grpc_type", "grpc_service", "grpc_method")


class ServerMetrics:
    """Counters and durations of calls by status code."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._handled = Counter(
            "grpc_server_handled",
            "Calls that were answered",
            (*_LABELS, "grpc_code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds",
            "Time from a call's arrival to its answer",
            _LABELS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)

    def observe(self, version: str, ended: str, seconds: float) -> None:
        service = f"apiextensions.fn.proto.{version}.{SERVICE}"
        labels = ("unary", service, "RunFunction")
        self._handled.labels(*labels, _spelled(ended)).inc()
        self._seconds.labels(*labels).observe(seconds)

    def serve(self, port: int, host: str) -> int:
        """Start the metrics endpoint on a thread of its own; return its port."""
        server, _ = start_http_server(port, host, self.registry)
        return int(server.server_port)


def _spelled(code: str) -> str:
    """Convert a status code to Go's spelling: `DeadlineExceeded`."""
    return code if code == "OK" else "".join(part.capitalize() for part in code.split("_"))
