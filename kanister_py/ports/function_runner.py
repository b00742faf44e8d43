"""What calls a composition function, wherever it runs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.registry.entries import FunctionRevision


class FunctionCall(NamedTuple):
    """One call: which step of a pipeline asks which revision, and for how long it waits."""

    step: str
    revision: FunctionRevision
    request: FunctionRequest
    timeout_seconds: float = 0.0
    """How long one attempt may take; zero leaves that to the runner."""


class FunctionRunner(Protocol):
    """Calls a revision of a function and gives its answer.

    Calls may come from any thread, several at once. A call that brings no answer
    raises one of the errors of the core: a `TransientError` where trying again may
    help. What a function says itself, a fatal result included, is an answer.
    """

    def run(self, call: FunctionCall) -> FunctionResponse: ...

    def close(self) -> None:
        """Let the calls under way end, and let go of what was opened."""


__all__ = ["FunctionCall", "FunctionRunner"]
