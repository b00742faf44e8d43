"""Function runner: calls of composition functions, wherever they run, and their metrics."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import Fault, KanisterError, TransientError, UsageError
from kanister_py.core.registry.entries import FunctionRevision

ANSWER_LIMIT_BYTES: Final = 8 << 20
"""How large an answer may be where nothing else is set. It is judged before it is read."""
_FEW_VALUES: Final = 1 << 17


class FunctionCallError(KanisterError, reason="FunctionCallFailed"):
    """A call of a composition function without an answer; names its step and revision."""

    def __init__(self, step: str, function: str, revision: str, why: str) -> None:
        at = f"Step {step}: function {function}" if step else f"Function {function}"
        called = f", revision {revision}" if revision and revision != function else ""
        super().__init__(f"{at}{called}: {why}")
        self.step = step
        self.function = function
        self.revision = revision
        self.why = why
        # Every group of errors may stand beside this one; the time to wait is not known.
        self.delay_seconds = 0.0


class FunctionUnavailable(FunctionCallError, TransientError, reason="FunctionUnavailable"):
    """No answer where the function should be, or a connection that broke off."""


class FunctionOverloaded(FunctionCallError, TransientError, reason="FunctionOverloaded"):
    """A function that has no room for the call."""


class FunctionTimedOut(FunctionCallError, TransientError, reason="FunctionTimedOut"):
    """A function that did not answer in its time."""


class FunctionCertificateRefused(
    FunctionCallError, UsageError, reason="FunctionCertificateRefused"
):
    """A certificate that the other side of a connection does not take."""


class FunctionAnswerTooLarge(FunctionCallError, UsageError, reason="FunctionAnswerTooLarge"):
    """A request or an answer that is larger than allowed."""


class FunctionAnswerInvalid(FunctionCallError, UsageError, reason="FunctionAnswerInvalid"):
    """An answer that is no response."""


class FunctionRequestInvalid(FunctionCallError, UsageError, reason="FunctionRequestInvalid"):
    """A request that cannot be written as a message of the protocol, or read as one."""


class FunctionCallFailed(FunctionCallError, UsageError, reason="FunctionCallFailed"):
    """A function that failed, with its own words, or died."""


class FunctionNotServed(FunctionCallError, UsageError, reason="FunctionNotServed"):
    """An address that cannot be read, or has no function behind it."""


class FunctionFault(FunctionCallError, Fault, reason="Fault"):
    """A failure of a function of ours that should never happen."""


class FunctionCall(NamedTuple):
    """One call: which step of a pipeline asks which revision, and for how long it waits."""

    step: str
    revision: FunctionRevision
    request: FunctionRequest
    timeout_seconds: float = 0.0
    """How long one attempt may take; zero leaves that to the runner."""


def too_large(size: int | None, limit: int) -> str:
    """Say that an answer is too large, and what can be done; a size may not be known."""
    size_text = f"has {mebibytes(size)}" if size is not None else "goes on"
    return (
        f"its answer {size_text}, and {mebibytes(limit)} are allowed; "
        "if it needs more, annotate the Function with kanister-py.io/max-answer-size"
    )


def most_values(limit_bytes: int) -> int:
    """Say how many values an answer may have: one for eight bytes, where others need thirty.

    Empty lists of four bytes each would take eighteen times their size once they are read.
    """
    return max(limit_bytes // 8, _FEW_VALUES)


def too_many_values(limit_bytes: int) -> str:
    return (
        f"its answer has more than the {most_values(limit_bytes)} values that are allowed in "
        f"{mebibytes(limit_bytes)}; if it needs more, annotate the Function with "
        "kanister-py.io/max-answer-size"
    )


def mebibytes(size: int) -> str:
    if size < 1 << 20:
        return f"{size} bytes"
    return f"{size / (1 << 20):.{3 if size < 1000 << 20 else 4}g} MiB"


class FunctionRunner(Protocol):
    """Runner of functions: calls a revision and gives its answer.

    Calls may come from any thread, several at once. A call that brings no answer
    raises one of the errors of the core: a `TransientError` where trying again may
    help. What a function says itself, a fatal result included, is an answer.
    """

    def run(self, call: FunctionCall) -> FunctionResponse: ...

    def close(self) -> None:
        """Let the calls under way end, and let go of what was opened."""


class FunctionMetrics(Protocol):
    """Counts, named as Crossplane's are. Called from many threads; never raises."""

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
