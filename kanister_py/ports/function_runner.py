"""Function runner: calls of composition functions, and their metrics."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import Fault, KanisterError, TransientError, UsageError
from kanister_py.core.registry.entries import FunctionRevision

ANSWER_LIMIT_BYTES: Final = 8 << 20
"""Default maximum size of a response, checked before it is parsed."""
_FEW_VALUES: Final = 1 << 17


class FunctionCallError(KanisterError, reason="FunctionCallFailed"):
    """Error for a call without a response; names the step and the revision."""

    def __init__(self, step: str, function: str, revision: str, why: str) -> None:
        at = f"Step {step}: function {function}" if step else f"Function {function}"
        called = f", revision {revision}" if revision and revision != function else ""
        super().__init__(f"{at}{called}: {why}")
        self.step = step
        self.function = function
        self.revision = revision
        self.why = why
        # Set here because subclasses combine this class with any group of errors.
        self.delay_seconds = 0.0


class FunctionUnavailable(FunctionCallError, TransientError, reason="FunctionUnavailable"):
    """The function cannot be reached, or the connection broke."""


class FunctionOverloaded(FunctionCallError, TransientError, reason="FunctionOverloaded"):
    """The function has no capacity for the call."""


class FunctionTimedOut(FunctionCallError, TransientError, reason="FunctionTimedOut"):
    """The function did not respond in time."""


class FunctionCertificateRefused(
    FunctionCallError, UsageError, reason="FunctionCertificateRefused"
):
    """The peer rejected the certificate of the connection."""


class FunctionAnswerTooLarge(FunctionCallError, UsageError, reason="FunctionAnswerTooLarge"):
    """A request or response exceeds the size limit."""


class FunctionAnswerInvalid(FunctionCallError, UsageError, reason="FunctionAnswerInvalid"):
    """The response is not a valid message of the protocol."""


class FunctionRequestInvalid(FunctionCallError, UsageError, reason="FunctionRequestInvalid"):
    """The request cannot be encoded as, or parsed from, a message of the protocol."""


class FunctionCallFailed(FunctionCallError, UsageError, reason="FunctionCallFailed"):
    """The function failed with an error of its own, or its process died."""


class FunctionNotServed(FunctionCallError, UsageError, reason="FunctionNotServed"):
    """The address is invalid, or no function is served there."""


class FunctionFault(FunctionCallError, Fault, reason="Fault"):
    """A built-in function failed in a way that should never happen."""


class FunctionCall(NamedTuple):
    """One call: the step of a pipeline, the revision, the request and the timeout."""

    step: str
    revision: FunctionRevision
    request: FunctionRequest
    timeout_seconds: float = 0.0
    """Timeout of one attempt; zero means the runner's default."""


def too_large(size: int | None, limit: int) -> str:
    """Return the message for a response that is too large; None is an unknown size."""
    size_text = f"has {mebibytes(size)}" if size is not None else "goes on"
    return (
        f"its response {size_text}, and {mebibytes(limit)} are allowed; "
        "if it needs more, annotate the Function with kanister-py.io/max-answer-size"
    )


def max_values(limit_bytes: int) -> int:
    """Return the maximum number of values in a response: one per eight bytes.

    Ordinary values need about thirty bytes. Empty lists of four bytes each take eighteen
    times their size once they are parsed.
    """
    return max(limit_bytes // 8, _FEW_VALUES)


def too_many_values(limit_bytes: int) -> str:
    return (
        f"its response has more than the {max_values(limit_bytes)} values that are allowed in "
        f"{mebibytes(limit_bytes)}; if it needs more, annotate the Function with "
        "kanister-py.io/max-answer-size"
    )


def mebibytes(size: int) -> str:
    if size < 1 << 20:
        return f"{size} bytes"
    return f"{size / (1 << 20):.{3 if size < 1000 << 20 else 4}g} MiB"


class FunctionRunner(Protocol):
    """Runner of functions: calls a revision and returns its response.

    Thread-safe, and calls may be concurrent. A call without a response raises one of the errors of
    the core: a `TransientError` if a retry may help. Results of the function itself, including
    fatal ones, are part of the response.
    """

    def run(self, call: FunctionCall) -> FunctionResponse: ...

    def close(self) -> None:
        """Wait for calls in progress, and release all resources."""


class FunctionMetrics(Protocol):
    """Counters with the same names as in Crossplane. Thread-safe; never raises."""

    def count_request(self, revision: FunctionRevision) -> None:
        """Count a call before it is sent."""

    def count_response(
        self, revision: FunctionRevision, code: str, worst: str, seconds: float
    ) -> None:
        """Count a completed call: its gRPC code, such as `OK`, and the worst severity."""

    def count_cache(self, function: str, what: str, amount: float = 1) -> None:
        """Count a cache event.

        Events are hits, misses, errors, writes, deletes, bytes_written, bytes_deleted,
        read_seconds and write_seconds."""


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
