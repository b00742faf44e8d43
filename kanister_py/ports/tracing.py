"""Tracing: spans of what this process does, and the `traceparent` that others go on from.

A process traces or does not: what traces is put in once, at the start, and is found here by
whatever has something to tell. Without it every call here does nothing, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self, TypeAlias

VARIABLE: Final = "TRACEPARENT"
"""The environment variable by which a program hears of the span that it belongs to."""
HEADER: Final = "traceparent"

Value: TypeAlias = str | int | float | bool


class Span(Protocol):
    """Something that takes time. May be ended in another thread than it began in."""

    def note(self, **attributes: Value) -> None:
        """Say more about it."""

    def fail(self, reason: str, message: str) -> None:
        """Say that it came to nothing, and why."""

    def end(self) -> None: ...

    @property
    def traceparent(self) -> str:
        """Name it as W3C Trace Context does; empty if nothing is traced."""


class Tracing(Protocol):
    """Maker of spans. Never raises, whatever becomes of what it sends."""

    def span(
        self, name: str, attributes: Mapping[str, Value], parent: str, *, is_call: bool
    ) -> AbstractContextManager[Span]:
        """Hold a block for a span: of this thread's, or of the one that `parent` names.

        An exception that leaves the block fails it.
        """

    def begin(self, name: str, attributes: Mapping[str, Value], parent: str) -> Span:
        """Begin a span that outlives the thread's block; it ends when `end` is called."""

    def traceparent(self) -> str:
        """Name this thread's span; empty if it has none."""

    def close(self) -> None:
        """Send what is left."""


class _NoSpan:
    """A span of a process that does not trace."""

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


def trace_with(tracing: Tracing | None) -> None:
    """Have all spans of this process made by `tracing` from now on; None for no spans."""
    _Current.tracing = tracing


def span(
    name: str, *, parent: str = "", is_call: bool = False, **attributes: Value
) -> AbstractContextManager[Span]:
    """Hold a block for a span. Attributes are called `kanister_py.NAME`."""
    tracing = _Current.tracing
    if tracing is None:
        return NO_SPAN
    return tracing.span(name, attributes, parent, is_call=is_call)


def begin_span(name: str, *, parent: str = "", **attributes: Value) -> Span:
    """Begin a span that ends elsewhere."""
    tracing = _Current.tracing
    return NO_SPAN if tracing is None else tracing.begin(name, attributes, parent)


def trace_id_of(traceparent: str) -> str:
    """Give the trace that a span belongs to, by the span's name; empty without one."""
    return traceparent.split("-")[1] if traceparent.count("-") == 3 else ""


def traceparent() -> str:
    """Name this thread's span for a process that goes on from it; empty if nothing is traced."""
    tracing = _Current.tracing
    return "" if tracing is None else tracing.traceparent()
