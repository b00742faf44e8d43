"""Retry rules: the number of retries, and the pauses before them.

They are used for phases, pipeline steps, the start of actions, requests, and conflicting
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import AliasChoices, Field, model_validator

from kanister_py.core.errors import Conflict, KanisterError, TransientError
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.models import ApiModel, DurationText, Items

T = TypeVar("T")

NO_LIMIT: Final = 2**62
"""Limit for unlimited retries."""


REASONS: Final = (
    "CommandFailed",
    "Interrupted",
    "PhaseTimedOut",
    "WaitTimedOut",
    "FunctionFailed",
    "FunctionCallFailed",
    "PodFailed",
    "PodGone",
    "PodNotReady",
    "PodsNotRun",
    "StreamLost",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Forbidden",
    "Unauthorized",
    "Invalid",
    "BadRequest",
    "NoKindMatch",
    "Timeout",
    "TooManyRequests",
    "ServiceUnavailable",
    "InternalError",
    "OutputTooLarge",
    "OutputUnreadable",
    "RequestFailed",
    "RequestInDoubt",
    "UnexpectedStatus",
    "ResponseTooLarge",
    "StoreUnavailable",
    "StoreRefused",
    "BucketNotFound",
    "ObjectMissing",
    "ObjectDamaged",
    "BackupInfoUnreadable",
    "BackupUnreadable",
    "SnapshotFailed",
    "SnapshotNotFound",
    "VolumesNotFound",
    "AwsUnreachable",
    "RdsFailed",
    "WorkloadNotKnown",
    "WorkloadNotSupported",
    "RenderFailed",
    "InvalidArgs",
    "ArtifactUnreadable",
)
"""Reasons of failed phases for `on`. Third-party functions may have more."""


class Retry(ApiModel):
    """Retry rule in a document, of a phase or step."""

    limit: int = Field(0, ge=0, description="Number of retries after the first attempt.")
    backoff: DurationText = Field("", description="Pause before the first retry, such as 10s.")
    factor: float = Field(
        2.0, ge=1, description="Factor by which each pause is longer than the one before."
    )
    max_backoff: DurationText = Field("", description="Longest pause.")
    on: Items[str] = Field(
        (),
        validation_alias=AliasChoices("on", "true"),
        description="Reasons of errors that are retried; if left out, errors that may pass by "
        "themselves.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_bare_on(cls, data: Any) -> Any:
        # YAML reads the unquoted key `on` as true.
        if isinstance(data, dict) and "true" in data and "on" not in data:
            return {"on" if key == "true" else key: value for key, value in data.items()}
        return data


class RetryRule(NamedTuple):
    """Number of retries and pauses between them.

    `limit` does not include the first attempt. `on` has the reasons of errors that are
    retried; without it, only transient errors are.
    """

    limit: int
    backoff_seconds: float = 10.0
    factor: float = 2.0
    max_backoff_seconds: float = 300.0
    on: frozenset[str] | None = None

    def allows(self, attempt: int, reason: str, *, is_transient: bool) -> bool:
        """Return whether a failed attempt is retried. Attempts are numbered from one."""
        if attempt > self.limit:
            return False
        return is_transient if self.on is None else reason in self.on

    def delay_after(self, attempt: int, least_seconds: float = 0.0) -> float:
        """Return the pause after an attempt, which is at least `least_seconds`."""
        # A power that exceeds the range of floats also exceeds the maximum.
        try:
            delay = self.backoff_seconds * self.factor ** (attempt - 1)
        except OverflowError:
            delay = self.max_backoff_seconds
        return max(min(delay, self.max_backoff_seconds), least_seconds)

    def overridden_by(self, retry: Retry) -> RetryRule:
        """Return the rule of a document, with the values of this rule as defaults."""
        return RetryRule(
            retry.limit,
            parse_seconds(retry.backoff) if retry.backoff else self.backoff_seconds,
            retry.factor,
            parse_seconds(retry.max_backoff) if retry.max_backoff else self.max_backoff_seconds,
            frozenset(retry.on) or self.on,
        )


def call_with_retries(
    act: Callable[[], T], rule: RetryRule, wait: Callable[[KanisterError, float], bool]
) -> T:
    """Call `act` until it succeeds, or raise the last error.

    `wait` pauses for the given seconds after an error. It returns False to stop retrying.
    """
    attempt = 1
    while True:
        try:
            return act()
        except KanisterError as error:
            is_transient = isinstance(error, TransientError)
            if not rule.allows(attempt, error.reason, is_transient=is_transient):
                raise
            least = error.delay_seconds if isinstance(error, TransientError) else 0.0
            if not wait(error, rule.delay_after(attempt, least)):
                raise
        attempt += 1


def retry_on_conflict(change: Callable[[], T], retries: int = 9) -> T:
    """Repeat a read-modify-write at once if the write had a conflict."""
    rule = RetryRule(retries, on=frozenset({Conflict.reason}))
    return call_with_retries(change, rule, lambda *_: True)
