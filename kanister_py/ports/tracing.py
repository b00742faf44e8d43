"""Tracing: spans of this process, and the `traceparent` that other processes continue.

A tracer is set once, at the start of the process, and code that creates spans finds it here.
Without a tracer, all functions do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self, TypeAlias

VARIABLE: Final = "TRACEPARENT"
"""Environment variable with the `traceparent` of a child process."""
HEADER: Final = "traceparent"

Value: TypeAlias = str | int | float | bool


class Span(Protocol):
    """Unit of work with a duration. It may end in another thread than it began in."""

    def note(self, **attributes: Value) -> None:
        """Add attributes."""

    def fail(self, reason: str, message: str) -> None:
        """Mark the span as failed."""

    def end(self) -> None: ...

    @property
    def traceparent(self) -> str:
        """Return the W3C Trace Context name of the span; empty without a tracer."""


class Tracing(Protocol):
    """Creator of spans. Never raises, even if its exporter fails."""

    def span(
        self, name: str, attributes: Mapping[str, Value], parent: str, *, is_call: bool
    ) -> AbstractContextManager[Span]:
        """Create a span around a block, as a child of the current span or of `parent`.

        An exception from the block marks the span as failed.
        """

    def begin(self, name: str, attributes: Mapping[str, Value], parent: str) -> Span:
        """Begin a span that may outlive the block of the thread; it ends when `end` is called."""

    def traceparent(self) -> str:
        """Return the name of this thread's current span; empty if there is none."""

    def close(self) -> None:
        """Flush the remaining spans."""


class _NoSpan:
    """Span without a tracer."""

    __slots__ = ()
    traceparent: Final = ""

    def note(self, **attributes: Value) -> None:
        pass

    def fail(self, reason: str, message: str) -> None:
        pass

    def end(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


NO_SPAN: Final = _NoSpan()


class _Current:
    tracing: Tracing | None = None


def set_tracer(tracing: Tracing | None) -> None:
    """Set the tracer of this process; None disables tracing."""
    _Current.tracing = tracing


def span(
    name: str, *, parent: str = "", is_call: bool = False, **attributes: Value
) -> AbstractContextManager[Span]:
    """Create a span around a block. Attributes get the prefix `kanister_py.`."""
    tracing = _Current.tracing
    if tracing is None:
        return NO_SPAN
    return tracing.span(name, attributes, parent, is_call=is_call)


def begin_span(name: str, *, parent: str = "", **attributes: Value) -> Span:
    """Begin a span that ends elsewhere."""
    tracing = _Current.tracing
    return NO_SPAN if tracing is None else tracing.begin(name, attributes, parent)


def trace_id_of(traceparent: str) -> str:
    """Return the trace ID in a `traceparent`; empty without one."""
    return traceparent.split("-")[1] if traceparent.count("-") == 3 else ""


def traceparent() -> str:
    """Return the `traceparent` for a process that continues this span; empty without a tracer."""
    tracing = _Current.tracing
    return "" if tracing is None else tracing.traceparent()
