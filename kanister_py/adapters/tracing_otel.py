"""Tracing with OpenTelemetry over OTLP, configured by the standard OTEL_* variables.

The extra `otel` installs the libraries, which only this module imports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.ports.tracing import HEADER, VARIABLE, Value

_SERVICE: Final = "kanister-py"
_CLOSE_MILLISECONDS: Final = 5_000
_PROTOCOLS: Final = ("grpc", "http/protobuf")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OtelSpan:
    """A span of OpenTelemetry."""

    def __init__(self, span: Span) -> None:
        self.span = span

    def note(self, **attributes: Value) -> None:
        self.span.set_attributes(_named(attributes))

    def fail(self, reason: str, message: str) -> None:
        self.span.set_status(Status(StatusCode.ERROR, message))
        self.span.set_attribute("error.type", reason)

    def end(self) -> None:
        self.span.end()

    @property
    def traceparent(self) -> str:
        return _traceparent_of(set_span_in_context(self.span))


class OtelTracing:
    """Tracing with OpenTelemetry. Spans are exported in the background.

    If the environment contains TRACEPARENT, spans without another parent are children of that span.
    """

    def __init__(
        self, exporter: SpanExporter, release: str, environment: Mapping[str, str]
    ) -> None:
        own = {"service.version": release}
        if not _is_named(environment):
            own["service.name"] = _SERVICE
        resource = Resource.create(own)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("kanister_py", release)
        self._outer = environment.get(VARIABLE, "")

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, Value], parent: str, *, is_call: bool
    ) -> Iterator[OtelSpan]:
        otel_span = self._tracer.start_span(
            name,
            self._context(parent),
            kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL,
            attributes=_named(attributes),
        )
        span = OtelSpan(otel_span)
        token = contexts.attach(set_span_in_context(otel_span))
        try:
            yield span
        except BaseException as error:
            reason = error.reason if isinstance(error, KanisterError) else type(error).__name__
            span.fail(reason, str(error))
            raise
        finally:
            contexts.detach(token)
            otel_span.end()

    def begin(self, name: str, attributes: Mapping[str, Value], parent: str) -> OtelSpan:
        context = self._context(parent)
        return OtelSpan(self._tracer.start_span(name, context, attributes=_named(attributes)))

    def _context(self, parent: str) -> contexts.Context | None:
        if not parent and not get_current_span().get_span_context().is_valid:
            parent = self._outer
        return _PROPAGATOR.extract({HEADER: parent}) if parent else None

    def traceparent(self) -> str:
        return _traceparent_of(None)

    def close(self) -> None:
        self._provider.force_flush(_CLOSE_MILLISECONDS)
        self._provider.shutdown()


def open_tracing(release: str) -> OtelTracing:
    """Start tracing with the standard variables; by default to a collector on this machine."""
    environment = os.environ
    return OtelTracing(_exporter(environment), release, environment)


def _exporter(environment: Mapping[str, str]) -> SpanExporter:
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    if protocol not in _PROTOCOLS:
        raise UsageError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; supported: {', '.join(_PROTOCOLS)}",
            reason="TracingMisconfigured",
        )
    exporter: SpanExporter
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter

        exporter = trace_exporter.OTLPSpanExporter()
    return exporter


def _is_named(environment: Mapping[str, str]) -> bool:
    attributes = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return bool(environment.get("OTEL_SERVICE_NAME")) or "service.name=" in attributes


def _traceparent_of(context: contexts.Context | None) -> str:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    return carrier.get(HEADER, "")


def _named(attributes: Mapping[str, Any]) -> dict[str, Value]:
    return {f"kanister_py.{key}": value for key, value in attributes.items()}
