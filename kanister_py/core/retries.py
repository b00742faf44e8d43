"""Retry rules: how often, and after which waits, what failed is tried again.

One rule for everything that is: phases, pipeline steps, what an action needs to start,
requests, and writes that others come in between of.
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
"""As a limit: tried again until it goes well."""


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
"""The reasons of failed phases that `on` may list; functions of others have more of their own."""


class Retry(ApiModel):
    """Retry rule of a phase or a step, as its author writes it."""

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
        # YAML reads the bare key `on` as true, which is never meant here.
        if isinstance(data, dict) and "true" in data and "on" not in data:
            return {"on" if key == "true" else key: value for key, value in data.items()}
        return data


class RetryRule(NamedTuple):
    """How often, and after which waits, something that failed is tried again.

    `limit` counts retries, the first attempt is none. `on` names reasons; without
    it, only what may pass by itself is tried again.
    """

    limit: int
    backoff_seconds: float = 10.0
    factor: float = 2.0
    max_backoff_seconds: float = 300.0
    on: frozenset[str] | None = None

    def allows(self, attempt: int, reason: str, *, is_transient: bool) -> bool:
        """Say whether another attempt follows one that failed, counted from one."""
        if attempt > self.limit:
            return False
        return is_transient if self.on is None else reason in self.on

    def delay_after(self, attempt: int, least_seconds: float = 0.0) -> float:
        """Say how long to wait after an attempt; longer, if its error asks for that."""
        # A power that leaves the range of floats is beyond every bound as well.
        try:
            delay = self.backoff_seconds * self.factor ** (attempt - 1)
        except OverflowError:
            delay = self.max_backoff_seconds
        return max(min(delay, self.max_backoff_seconds), least_seconds)

    def overridden_by(self, retry: Retry) -> RetryRule:
        """Give the rule that is written, this one being the standard."""
        return RetryRule(
            retry.limit,
            parse_seconds(retry.backoff) if retry.backoff else self.backoff_seconds,
            retry.factor,
            parse_seconds(retry.max_backoff) if retry.max_backoff else self.max_backoff_seconds,
            frozenset(retry.on) or self.on,
        )


def call_with_retries(
    act: Callable[[], T], rule: RetryRule, rest: Callable[[KanisterError, float], bool]
) -> T:
    """Call until it goes well, and raise the last error if it does not.

    `rest` lets the seconds after a failure pass, and says whether the call is still wanted.
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
            if not rest(error, rule.delay_after(attempt, least)):
                raise
        attempt += 1


def retry_on_conflict(change: Callable[[], T], retries: int = 9) -> T:
    """Read and write again, at once, when another wrote in between."""
    rule = RetryRule(retries, on=frozenset({Conflict.reason}))
    return call_with_retries(change, rule, lambda *_: True)
