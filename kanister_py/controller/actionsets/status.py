"""Writer of the status of ActionSets in the cluster.

If the CRD has a status subresource, the status is written there. Kanister's own CRD has none, and
prunes fields that it does not define. The status is then written with the object, and our
additional fields are written to the annotation `kanister-py.io/status`.

A run writes when a phase starts or ends. The choice of versions is written with the start of
the first phase, and the end of a phase with the start of the next, unless there is cleanup in
between. An ActionSet with one phase takes two writes. Each further phase takes one or two more,
and a finalizer takes two if one is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Condition, RLock
from typing import Any, Final

from kanister_py.core.actionsets.outcomes import (
    Begun,
    Launched,
    Outcome,
    PhaseProgressed,
    PhaseStarted,
)
from kanister_py.core.actionsets.partitions import partition_of
from kanister_py.core.actionsets.status import FINAL, State, Status, parse_status
from kanister_py.core.actionsets.stored_status import (
    STATUS_ANNOTATION,
    annotation_of,
    read_valid_status,
    split_status,
    status_as_dict,
)
from kanister_py.core.errors import (
    ApiError,
    Conflict,
    JournalUnwritable,
    KanisterError,
    LeadershipLost,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.retries import NO_LIMIT, RetryRule, call_with_retries
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, KubeObject, PatchType, find

_LOG: Final = logging.getLogger(__name__)

FINALIZER: Final = "kanister-py.io/cleanup"
PROGRESS_SECONDS: Final = 5.0
"""Minimum interval between writes that only contain the progress of a phase."""

_RETRY: Final = RetryRule(NO_LIMIT, 0.1, 2.0, 10.0)


class StatusWriter:
    """Writer of the status of one ActionSet. It is the journal of the run.

    Every write replaces the version that the last write returned. If another client has changed
    other fields in between, the write is repeated on the new version. If it has changed the
    status, another controller is active, and this writer stops.

    Every status except a pending one records the partition, so the first write of a run claims
    the ActionSet. If the object was deleted before that, no phase may start. Later writes to a
    deleted object are ignored, because its run is cancelled but must still clean up.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        has_subresource: bool,
        obj: KubeObject,
        *,
        check: Callable[[], None],
        partition: str = "",
        on_deferred: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._has_subresource = has_subresource
        self._check = check
        self._partition = partition
        self.needs_finalizer: Callable[[Begun], bool] = lambda _: False
        self._on_deferred = on_deferred
        self._lock = RLock()
        self._pause = Condition(self._lock)
        self._metadata, self._left = _slim(obj)
        self._api_version = obj["apiVersion"]
        self._deferred: Status | None = None
        self._wrote_at = float("-inf")
        self._has_written = False
        self._is_claimed = status_of(obj).get("state") == State.RUNNING
        self._wants_finalizer = False
        self.is_gone = False
        self.writes = 0

    @property
    def name(self) -> str:
        return f"{self._metadata['namespace']}/{self._metadata['name']}"

    @property
    def has_finalizer(self) -> bool:
        return FINALIZER in (self._metadata.get("finalizers") or ())

    @property
    def has_due_write(self) -> bool:
        """Whether a deferred status may be written, because the last write is long enough ago."""
        is_due = self._clock.monotonic() - self._wrote_at >= PROGRESS_SECONDS
        return self._deferred is not None and self._has_written and is_due

    def write(
        self,
        outcome: Outcome,
        status: Status,
        *,
        must_last: bool,  # noqa: ARG002 - the API server persists every write
        is_followed: bool = False,
    ) -> None:
        """Write the status after an outcome, or defer it to the next write.

        Raises `JournalUnwritable` if it cannot be written, or if the ActionSet was deleted before
        its first phase.
        """
        with self._lock:
            if isinstance(outcome, Begun):
                self._wants_finalizer = self.needs_finalizer(outcome)
            self._deferred = status
            if is_followed:
                return
            if status.state not in FINAL:
                if isinstance(outcome, Begun | Launched):
                    # Defer it: no phase has started, so another controller can begin again.
                    return
                if isinstance(outcome, PhaseProgressed):
                    left = self._wrote_at + PROGRESS_SECONDS - self._clock.monotonic()
                    if left > 0:
                        self._on_deferred(left)
                        return
            self._write_deferred()
            if isinstance(outcome, PhaseStarted) and self.is_gone and not self._is_claimed:
                raise JournalUnwritable(
                    f"the status of {self.name}",
                    f"ActionSet {self.name} was deleted before its first phase started",
                )

    def catch_up(self) -> None:
        """Write a deferred status, because no further write follows."""
        with self._lock:
            if self._deferred is not None and self._has_written:
                self._write_deferred()

    def put(self, status: Status) -> None:
        """Write a status that is not the result of a run's outcome."""
        with self._lock:
            self._deferred = status
            self._write_deferred()

    def flush(self) -> None:
        """Write a deferred status if enough time has passed since the last write."""
        with self._lock:
            if self.has_due_write:
                self._write_deferred()

    def remove_finalizer(self) -> None:
        """Remove our finalizer, so that the object can be deleted."""
        with self._lock:
            self._wants_finalizer = False
            if self.has_finalizer:
                self._write_with_retries(partial(self._write_finalizers, has_ours=False), None)

    def _write_deferred(self) -> None:
        status = self._deferred
        if status is None or self.is_gone:
            return
        # Without a subresource each write of the status increases the generation.
        generation = self._metadata.get("generation") if self._has_subresource else 0
        if status.state is not State.PENDING:
            status = status._replace(partition=self._partition)
        data = status_as_dict(status, int(generation or 0))
        if self._wants_finalizer and not status.is_final and self._has_subresource:
            self._write_with_retries(partial(self._write_finalizers, has_ours=True), None)
        self._write_with_retries(partial(self._write_status, data, status), data)
        self._deferred = None
        self._wrote_at = self._clock.monotonic()
        self._has_written = True
        if status.state is State.RUNNING and not self.is_gone:
            self._is_claimed = True

    # One write with its retries

    def _write_with_retries(
        self, attempt: Callable[[], KubeObject | None], data: dict[str, Any] | None
    ) -> None:
        call_with_retries(
            partial(self._write_once, attempt, data), _RETRY, self._pause_before_retry
        )

    def _write_once(
        self, attempt: Callable[[], KubeObject | None], data: dict[str, Any] | None
    ) -> None:
        """Write once. After a conflict, read the current version and write again.

        Raises transient errors unchanged, and other errors as `JournalUnwritable`.
        """
        while not self.is_gone:
            try:
                self._check()
                written = attempt()
            except NotFound:
                self.is_gone = True
            except Conflict as error:
                if self._reread(data, error):
                    return
            except LeadershipLost as error:
                raise JournalUnwritable(f"the status of {self.name}", error.message) from error
            except TransientError:
                raise
            except ApiError as error:
                raise JournalUnwritable(f"the status of {self.name}", error.message) from error
            else:
                self._keep(written, data)
                return

    def _pause_before_retry(self, error: KanisterError, seconds: float) -> bool:
        if isinstance(error, JournalUnwritable):
            return False
        self._fail_unless_leader(error)
        _LOG.warning("Cannot write the status of %s: %s", self.name, error.message)
        pause(self._clock, self._pause, seconds, lambda: False)
        return True

    def _fail_unless_leader(self, error: KanisterError) -> None:
        try:
            self._check()
        except KanisterError as lost:
            raise JournalUnwritable(f"the status of {self.name}", lost.message) from error

    def _keep(self, written: KubeObject | None, data: dict[str, Any] | None) -> None:
        if written is None:
            return
        self.writes += 1
        self._metadata, left = _slim(written)
        if data is not None:
            self._left = left

    def _reread(self, data: dict[str, Any] | None, error: KanisterError) -> bool:
        """Read the current object after a conflict. Returns whether nothing is left to write.

        Raises `JournalUnwritable` if another client has changed the status or the partition.
        """
        try:
            current = find(
                self._cluster, ACTION_SETS, self._metadata["name"], self._metadata["namespace"]
            )
        except TransientError as trouble:
            self._fail_unless_leader(trouble)
            return False
        if current is None or current["metadata"]["uid"] != self._metadata["uid"]:
            self.is_gone = True
            return True
        current_status = read_valid_status(current)
        if data is not None and current_status == parse_status(data):
            # An earlier attempt has written it, but its response was lost.
            self._keep(current, data)
            return True
        if partition_of(current) != self._partition:
            raise JournalUnwritable(
                f"the status of {self.name}",
                f"ActionSet {self.name} belongs to another partition now",
            ) from error
        if current_status != read_valid_status(self._left):
            raise JournalUnwritable(
                f"the status of {self.name}",
                f"Another client has written the status of ActionSet {self.name}; "
                "the run continues from the new status",
            ) from error
        self._metadata, _ = _slim(current)
        return False

    # The requests

    def _write_status(self, data: dict[str, Any], status: Status) -> KubeObject:
        if self._has_subresource:
            return self._cluster.replace_status(
                {
                    "apiVersion": self._api_version,
                    "kind": "ActionSet",
                    "metadata": {key: self._metadata[key] for key in _IDENTITY},
                    "status": data,
                }
            )
        kept, extras = split_status(data)
        operations = [
            *self._over_this_version(),
            {"op": "add", "path": "/status", "value": kept},
            *self._annotate(annotation_of(extras)),
        ]
        if self._wants_finalizer and not status.is_final and not self.has_finalizer:
            operations.append(self._finalizers(has_ours=True))
        return self._patch(operations)

    def _annotate(self, text: str) -> list[dict[str, Any]]:
        annotations = self._metadata.get("annotations")
        path = "/metadata/annotations"
        if annotations is None:
            return [{"op": "add", "path": path, "value": {STATUS_ANNOTATION: text}}]
        key = STATUS_ANNOTATION.replace("~", "~0").replace("/", "~1")
        return [{"op": "add", "path": f"{path}/{key}", "value": text}]

    def _write_finalizers(self, *, has_ours: bool) -> KubeObject | None:
        if self.has_finalizer is has_ours:
            return None
        if has_ours and self._metadata.get("deletionTimestamp"):
            # The API server refuses new finalizers on an object that is being deleted.
            self._wants_finalizer = False
            return None
        return self._patch([*self._over_this_version(), self._finalizers(has_ours=has_ours)])

    def _finalizers(self, *, has_ours: bool) -> dict[str, Any]:
        foreign = [
            finalizer
            for finalizer in self._metadata.get("finalizers") or ()
            if finalizer != FINALIZER
        ]
        finalizers = [*foreign, FINALIZER] if has_ours else foreign
        return {"op": "add", "path": "/metadata/finalizers", "value": finalizers}

    def _over_this_version(self) -> list[dict[str, Any]]:
        version = self._metadata["resourceVersion"]
        return [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/metadata/uid", "value": self._metadata["uid"]},
        ]

    def _patch(self, operations: list[dict[str, Any]]) -> KubeObject:
        return self._cluster.patch(
            ACTION_SETS,
            self._metadata["name"],
            operations,
            namespace=self._metadata["namespace"],
            patch_type=PatchType.JSON,
        )


class StatusWriters:
    """Factory of status writers for the ActionSets of one controller."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        check: Callable[[], None],
        *,
        has_subresource: bool,
        partition: str = "",
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._check = check
        self._has_subresource = has_subresource
        self._partition = partition

    def of(
        self, obj: KubeObject, on_deferred: Callable[[float], None] = lambda _: None
    ) -> StatusWriter:
        """Return a writer of the status of an ActionSet as it was read."""
        return StatusWriter(
            self._cluster,
            self._clock,
            self._has_subresource,
            obj,
            check=self._check,
            partition=self._partition,
            on_deferred=on_deferred,
        )


_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
_SLIM: Final = frozenset({*_IDENTITY, "generation", "finalizers", "deletionTimestamp"})


def _slim(obj: KubeObject) -> tuple[dict[str, Any], KubeObject]:
    """Return the metadata that later writes need, and the object reduced to its status.

    The annotations in the metadata are empty: only their presence matters. The status is kept for
    comparisons after a conflict.
    """
    metadata = obj["metadata"]
    slim = {key: metadata[key] for key in metadata if key in _SLIM}
    left: dict[str, Any] = {}
    annotations = metadata.get("annotations")
    if annotations is not None:
        slim["annotations"] = {}
        if text := annotations.get(STATUS_ANNOTATION):
            left["annotations"] = {STATUS_ANNOTATION: text}
    return slim, {"metadata": left, "status": obj.get("status")}
