"""Status of ActionSets in the cluster: how it is stored, and its only writer.

On definitions with a status subresource it goes there. On those that know none, as
Kanister installed them, it is a part of the object like any other, and fields that
only we write would be pruned: they go into the annotation `kanister-py.io/status`.

A run writes when something begins or ends; what is known before the first phase is
written with its start, and the end of one phase with the start of the next, unless there
is something to clean up in between. So an ActionSet of one phase takes two writes and each
further phase one or two more, and the finalizer two where one is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Condition, RLock
from typing import Any, Final

from kanister_py.core.actionsets.outcomes import Begun, Launched, Outcome, PhaseProgressed
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
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.retries import NO_LIMIT, RetryRule, call_with_retries
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, KubeObject, PatchType, find

_LOG: Final = logging.getLogger(__name__)

FINALIZER: Final = "kanister-py.io/cleanup"
PROGRESS_SECONDS: Final = 5.0
"""How often at most a phase's progress alone is worth a write."""

_RETRY: Final = RetryRule(NO_LIMIT, 0.1, 2.0, 10.0)


class StatusWriter:
    """Writer of the status of one ActionSet, in order, as the journal of its run.

    Every write is made over exactly the version that the last one gave. Where
    another client has changed something else meanwhile, it is made over that; where
    one has changed the status, two are at work, and this one stops. An object
    that is gone is not brought back: then there is nobody left to tell. Every status but
    a pending one records the partition, which makes the first write of a run the claim to it.
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
        when_late: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._has_subresource = has_subresource
        self._check = check
        self._partition = partition
        self.needs_finalizer: Callable[[Begun], bool] = lambda _: False
        self._when_late = when_late
        self._lock = RLock()
        self._pause = Condition(self._lock)
        self._metadata, self._left = _slim(obj)
        self._api_version = obj["apiVersion"]
        self._late: Status | None = None
        self._wrote_at = float("-inf")
        self._has_written = False
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
    def is_late(self) -> bool:
        """Whether there is something that has not been written yet, and whose time has come."""
        is_due = self._clock.monotonic() - self._wrote_at >= PROGRESS_SECONDS
        return self._late is not None and self._has_written and is_due

    def write(
        self,
        outcome: Outcome,
        status: Status,
        *,
        must_last: bool,  # noqa: ARG002 - all that is written lasts
        is_followed: bool = False,
    ) -> None:
        """Write how things stand after an outcome, or keep that for the next write."""
        with self._lock:
            if isinstance(outcome, Begun):
                self._wants_finalizer = self.needs_finalizer(outcome)
            self._late = status
            if is_followed:
                return
            if status.state not in FINAL:
                if isinstance(outcome, Begun | Launched):
                    # Nothing has acted yet: the controller that comes after us begins likewise.
                    return
                if isinstance(outcome, PhaseProgressed):
                    left = self._wrote_at + PROGRESS_SECONDS - self._clock.monotonic()
                    if left > 0:
                        self._when_late(left)
                        return
            self._put_late()

    def catch_up(self) -> None:
        """Write what was kept for a write that does not come."""
        with self._lock:
            if self._late is not None and self._has_written:
                self._put_late()

    def put(self, status: Status) -> None:
        """Write a status that no run led to."""
        with self._lock:
            self._late = status
            self._put_late()

    def flush(self) -> None:
        """Write what was kept for later, if its time has come."""
        with self._lock:
            if self.is_late:
                self._put_late()

    def remove_finalizer(self) -> None:
        """Let the object go, should it be deleted."""
        with self._lock:
            self._wants_finalizer = False
            if self.has_finalizer:
                self._insist(partial(self._write_finalizers, has_ours=False), None)

    def _put_late(self) -> None:
        status = self._late
        if status is None or self.is_gone:
            return
        # Without a subresource every write of ours is a generation of its own.
        generation = self._metadata.get("generation") if self._has_subresource else 0
        if status.state is not State.PENDING:
            status = status._replace(partition=self._partition)
        data = status_as_dict(status, int(generation or 0))
        if self._wants_finalizer and not status.is_final and self._has_subresource:
            self._insist(partial(self._write_finalizers, has_ours=True), None)
        self._insist(partial(self._write_status, data, status), data)
        self._late = None
        self._wrote_at = self._clock.monotonic()
        self._has_written = True

    # One write, until it is done or cannot be

    def _insist(
        self, attempt: Callable[[], KubeObject | None], data: dict[str, Any] | None
    ) -> None:
        call_with_retries(partial(self._write_once, attempt, data), _RETRY, self._rest)

    def _write_once(
        self, attempt: Callable[[], KubeObject | None], data: dict[str, Any] | None
    ) -> None:
        """Write over whatever stands there; only what may pass by itself is raised as it is."""
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

    def _rest(self, error: KanisterError, seconds: float) -> bool:
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
        """Look what is there instead, and say whether it is what was to be written."""
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
        stands = read_valid_status(current)
        if data is not None and stands == parse_status(data):
            # It had been taken, only the answer was lost.
            self._keep(current, data)
            return True
        if partition_of(current) != self._partition:
            raise JournalUnwritable(
                f"the status of {self.name}",
                f"ActionSet {self.name} belongs to another partition now",
            ) from error
        if stands != read_valid_status(self._left):
            raise JournalUnwritable(
                f"the status of {self.name}",
                f"Somebody else has written the status of ActionSet {self.name}; "
                "it goes on from what stands there now",
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
            # Nothing may be added to what is on its way out.
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
    """Maker of status writers for the ActionSets of one controller."""

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
        self, obj: KubeObject, when_late: Callable[[float], None] = lambda _: None
    ) -> StatusWriter:
        """Return a writer of the status of an ActionSet as it was read."""
        return StatusWriter(
            self._cluster,
            self._clock,
            self._has_subresource,
            obj,
            check=self._check,
            partition=self._partition,
            when_late=when_late,
        )


_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
_SLIM: Final = frozenset({*_IDENTITY, "generation", "finalizers", "deletionTimestamp"})


def _slim(obj: KubeObject) -> tuple[dict[str, Any], KubeObject]:
    """Keep of an object what later writes need, and how its status was left, as it lies there.

    Of annotations the first has only that there are some. The second is read only if
    another write gets in between.
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
