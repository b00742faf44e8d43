"""Leader election: only the replica that holds and renews a Lease may act.

Replicas do not compare clocks. The holder counts the time since it sent its last renewal, other
replicas since they observed that renewal. A holder that cannot renew has therefore stopped
before another replica takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from kanister_py.controller.machine.neighbours import another_controller
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.errors import (
    AlreadyExists,
    Conflict,
    KanisterError,
    LeadershipLost,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.parts import annotations_of, labels_of, spec_of
from kanister_py.core.kube.resources import LEASES
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, KubeObject, find

_LOG: Final = logging.getLogger(__name__)


LEASE_NAME: Final = "kanister-py-controller"
COMPOSING_LEASE_NAME: Final = "kanister-py-compositions"
LEASE_LABELS: Final = {"app.kubernetes.io/name": "kanister-py"}
_GRACE_SECONDS: Final = 30.0
"""How long the right to write Leases may be missing before the replica reports itself unready."""


class LeaseTerms(NamedTuple):
    """Times of a Lease.

    `term_seconds` must exceed `acts_for_seconds` by the maximum duration of a request. A takeover
    takes at most the term, one interval and one retry, which is less than fifteen seconds.
    """

    term_seconds: float = 10.0
    acts_for_seconds: float = 7.5
    renews_every_seconds: float = 1.5


class Candidate(NamedTuple):
    """A replica that takes part in the leader election."""

    cluster: Cluster
    clock: Clock
    identity: str
    namespace: str
    terms: LeaseTerms = LeaseTerms()
    on_time: Callable[[datetime], None] = lambda _: None
    """Called with the API server's time after each renewal."""


def lease_name(base: str, partition: str) -> str:
    """Return the name of the Lease of a partition; without a partition it is `base`."""
    return f"{base}-{partition}" if partition else base


class ObservedLease:
    """Last observed state of a Lease, and the time since it changed."""

    def __init__(self, clock: Clock, term_seconds: float) -> None:
        self._clock = clock
        self._term_seconds = term_seconds
        self._changed_at = 0.0
        self.renewal: tuple[str, str] | None = None
        """The holder, and the time of its last renewal."""

    @property
    def holder(self) -> str:
        return self.renewal[0] if self.renewal is not None else ""

    def update(self, spec: Mapping[str, Any]) -> str:
        """Record the state of a Lease. Returns its holder; empty if it is free or has expired."""
        renewal = (str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
        now = self._clock.monotonic()
        if renewal != self.renewal:
            self.renewal, self._changed_at = renewal, now
        # The holder may be configured with another term, so use the duration that it wrote.
        duration = spec.get("leaseDurationSeconds")
        term = float(duration) if isinstance(duration, int) else self._term_seconds
        return "" if now - self._changed_at >= term else renewal[0]


class Leadership:
    """Leader election of one replica: acquires, renews and releases the Lease.

    The leader writes `notes` to the annotations of the Lease.
    """

    def __init__(
        self, candidate: Candidate, name: str = LEASE_NAME, notes: Mapping[str, str] | None = None
    ) -> None:
        self._cluster, self._clock, self._identity, self._namespace = candidate[:4]
        self._terms, self._on_time = candidate.terms, candidate.on_time
        self._name = name
        self._changed = Condition()
        self._acts_until = float("-inf")
        self._is_held = False
        self._is_lost = False
        self._is_closed = False
        self._observed = ObservedLease(candidate.clock, candidate.terms.term_seconds)
        self._notes = dict(notes or {})
        self._notes_of_holder: Mapping[str, str] = {}
        self._trouble = ""
        self._refused_since: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process may act. Once it has lost the Lease, it may never act again."""
        if self._is_held and self._clock.monotonic() >= self._acts_until:
            self._is_held = False
            self._is_lost = True
        return self._is_held

    @property
    def seconds_left(self) -> float:
        """How long this process may act without another renewal."""
        return max(0.0, self._acts_until - self._clock.monotonic())

    @property
    def why_lost(self) -> str:
        """Why this process is no longer the leader, and the new holder, if it is known."""
        lease = f"the lease {self._namespace}/{self._name}"
        holder = self._observed.holder
        if holder not in ("", self._identity):
            return f"{holder} holds {lease} now"
        why = f" ({self._trouble})" if self._trouble else ""
        return (
            f"{lease} could not be renewed for {self._terms.acts_for_seconds:g} s{why}; "
            f"{self._identity} held it last, another replica can take it soon"
        )

    @property
    def why_unable(self) -> str:
        """Why this process cannot become the leader; empty if it can, or already is.

        A refusal, such as a missing right, is only reported after some time. The right may be
        granted a moment later if everything is installed at once.
        """
        since = self._refused_since
        if since is None or self._clock.monotonic() - since < _GRACE_SECONDS:
            return ""
        return f"Can never lead: {self._trouble}"

    @property
    def is_standby(self) -> bool:
        """Whether another replica holds the Lease, so that this one is ready to take over."""
        return not self._is_held and self._observed.holder not in ("", self._identity)

    def check(self) -> None:
        """Raise `LeadershipLost` unless this process is the leader. Called before every request."""
        if not self.is_leader:
            raise LeadershipLost

    # Acquiring the Lease

    def acquire(self, *, stands_by: bool = True) -> bool:
        """Wait until the Lease is held. Returns False if `close` was called before.

        Without `stands_by`, it only waits for a Lease to expire, and raises `UsageError` if the
        holder renews it.
        """
        first_renewal: tuple[str, str] | None = None
        logged = ""
        while not self._is_closed:
            try:
                is_ours = self.try_acquire()
                self._refused_since = None
                if is_ours:
                    return True
            except KanisterError as error:
                self._record_refusal(error)
                # A permission may be missing for days: log it once.
                if error.message != logged:
                    _LOG.warning("Cannot take the lease %s: %s", self._name, error.message)
                    logged = error.message
            renewal = self._observed.renewal
            if first_renewal is None:
                first_renewal = renewal
                if first_renewal is not None:
                    _LOG.info("Standby %s: %s is the leader", self._identity, first_renewal[0])
                    self._warn_of_other_notes(first_renewal[0])
            elif not stands_by and renewal is not None and renewal != first_renewal:
                raise another_controller(
                    f"Another kanister-py controller ({renewal[0]})",
                    "stop it, or start this one with --leader-elect as a standby; "
                    "a controller for other objects needs its own --partition or --home",
                )
            self._sleep(self._terms.renews_every_seconds)
        return False

    def _warn_of_other_notes(self, holder: str) -> None:
        """Warn if the leader is configured for other objects than this replica."""
        theirs = self._notes_of_holder
        differing = [key for key, text in self._notes.items() if theirs.get(key, text) != text]
        if differing:
            _LOG.warning(
                "%s acts on other objects than this replica would (%s). This replica starts only "
                "when that one ends; a second controller needs its own --partition or --home",
                holder,
                "; ".join(f"{key}: {theirs[key]}, here {self._notes[key]}" for key in differing),
            )

    def _record_refusal(self, error: KanisterError) -> None:
        self._trouble = error.message
        if isinstance(error, TransientError):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = self._clock.monotonic()

    def try_acquire(self) -> bool:
        """Acquire or renew the Lease if it is free, ours or expired. Returns whether it is held.

        Raises the errors of the cluster.
        """
        sent_at = self._clock.monotonic()
        lease = find(self._cluster, LEASES, self._name, self._namespace)
        holder = "" if lease is None else self._observed.update(spec_of(lease))
        if holder not in ("", self._identity):
            self._notes_of_holder = annotations_of(lease or {})
            return False
        if self._is_closed:
            # This process may have just released it. Do not acquire it again.
            return False
        try:
            if lease is None:
                written = self._cluster.create(self._lease_of(None))
            else:
                written = self._cluster.replace(self._lease_of(lease))
        except (AlreadyExists, Conflict, NotFound):
            return False
        self._report_time(written)
        return self._become_leader(sent_at)

    def _report_time(self, written: KubeObject) -> None:
        """Read the API server's time from the managed fields of a written object."""
        fields = written["metadata"].get("managedFields") or ()
        times = [parse_time(entry.get("time")) for entry in fields]
        server_time = max(filter(None, times), default=None)
        if server_time is not None:
            self._on_time(server_time)

    def _become_leader(self, sent_at: float) -> bool:
        with self._changed:
            if self._is_lost or (self._is_held and not self.is_leader):
                # The loss may already have been reported, so the Lease must not be held again.
                return False
            if not self._is_closed:
                self._acts_until = sent_at + self._terms.acts_for_seconds
                self._is_held = True
                return True
        # It was closed during the write.
        self._release()
        return False

    # Renewing the Lease

    def renew_in_background(self, on_lost: Callable[[], None]) -> None:
        """Start a thread that renews the Lease, and calls `on_lost` when it is lost."""
        Thread(target=self._renew, args=(on_lost,), name="lease", daemon=True).start()

    def _renew(self, on_lost: Callable[[], None]) -> None:
        while True:
            self._sleep(self._terms.renews_every_seconds)
            if self._is_closed:
                return
            try:
                is_ours = self.try_acquire()
                self._trouble = ""
            except KanisterError as error:
                _LOG.warning("Cannot renew the lease %s: %s", self._name, error.message)
                self._trouble = error.message
                is_ours = self.is_leader
            if not is_ours and self._observed.holder not in ("", self._identity):
                # Another replica holds it, so stop at once.
                self._is_held = False
            if not self.is_leader:
                self._is_held = False
                if not self._is_closed:
                    on_lost()
                return

    def close(self) -> None:
        """Stop acting and release the Lease, so that another replica can take over at once."""
        with self._changed:
            self._is_closed = True
            was_held, self._is_held = self.is_leader, False
            self._changed.notify_all()
        if was_held:
            self._release()

    def abandon(self) -> None:
        """Stop acting without releasing the Lease, like a process that is killed."""
        with self._changed:
            self._is_closed = self._is_lost = True
            self._is_held = False
            self._changed.notify_all()

    def _release(self) -> None:
        try:
            try:
                self._clear_holder()
            except Conflict:
                # The last renewal was written at the same time.
                self._clear_holder()
        except KanisterError as error:
            _LOG.info("The lease %s could not be released: %s", self._name, error.message)

    def _clear_holder(self) -> None:
        lease = self._cluster.get(LEASES, self._name, namespace=self._namespace)
        spec = spec_of(lease)
        if spec.get("holderIdentity") == self._identity:
            lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
            self._cluster.replace(lease)

    def _lease_of(self, existing: KubeObject | None) -> KubeObject:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = spec_of(existing or {})
        is_new = before.get("holderIdentity") != self._identity
        changes = int(before.get("leaseTransitions") or 0) + (is_new and existing is not None)
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._terms.term_seconds),
            "acquireTime": now if is_new else before.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": changes,
        }
        metadata = {"name": self._name, "namespace": self._namespace}
        if existing is not None:
            metadata = existing["metadata"]
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {
                **metadata,
                "labels": {**labels_of(existing or {}), **LEASE_LABELS},
                "annotations": {**annotations_of(existing or {}), **self._notes},
            },
            "spec": spec,
        }

    def _sleep(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)
