"""Lease: which of several replicas may act, for as long as it keeps renewing it.

Replicas do not compare clocks: a holder counts from before it asked for its last
renewal, every other replica from when it saw it. So a holder that cannot renew has
stopped before the first of the others may begin.
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
"""For how long a right to Leases may be missing before this process says that it can never lead."""


class LeaseTerms(NamedTuple):
    """How a Lease is kept. The first must exceed the second by the time a request may take.

    Together they bound a takeover: the term, one look, and one try more, which is less
    than fifteen seconds.
    """

    term_seconds: float = 10.0
    acts_for_seconds: float = 7.5
    renews_every_seconds: float = 1.5


class Candidate(NamedTuple):
    """A replica that wants Leases: who it is, where they lie, and how they are kept."""

    cluster: Cluster
    clock: Clock
    identity: str
    namespace: str
    terms: LeaseTerms = LeaseTerms()
    on_time: Callable[[datetime], None] = lambda _: None
    """Hears at each renewal what time it is at the API server."""


def lease_name(base: str, partition: str) -> str:
    """Return the name of the Lease of a partition; without a partition it is `base`."""
    return f"{base}-{partition}" if partition else base


class ObservedLease:
    """A Lease as it was seen last, and for how long it has looked the same."""

    def __init__(self, clock: Clock, term_seconds: float) -> None:
        self._clock = clock
        self._term_seconds = term_seconds
        self._seen_at = 0.0
        self.seen: tuple[str, str] | None = None
        """Its holder, and the time of its last renewal."""

    @property
    def holder(self) -> str:
        return self.seen[0] if self.seen is not None else ""

    def note(self, spec: Mapping[str, Any]) -> str:
        """Look at a Lease, and say who holds it; nobody if it is free or abandoned."""
        seen = (str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
        now = self._clock.monotonic()
        if seen != self.seen:
            self.seen, self._seen_at = seen, now
        # The holder's own word on how long it may be silent counts, should it be longer.
        duration = spec.get("leaseDurationSeconds")
        term = float(duration) if isinstance(duration, int) else self._term_seconds
        return "" if now - self._seen_at >= term else seen[0]


class Leadership:
    """Hold on a Lease: the attempts at it, and whether it is held at this moment.

    Its holder writes `notes` into the annotations of the Lease.
    """

    def __init__(
        self, who: Candidate, name: str = LEASE_NAME, notes: Mapping[str, str] | None = None
    ) -> None:
        self._cluster, self._clock, self._identity, self._namespace = who[:4]
        self._terms, self._on_time = who.terms, who.on_time
        self._name = name
        self._changed = Condition()
        self._acts_until = float("-inf")
        self._is_held = False
        self._is_lost = False
        self._is_closed = False
        self._sighting = ObservedLease(who.clock, who.terms.term_seconds)
        self._notes = dict(notes or {})
        self._notes_of_holder: Mapping[str, str] = {}
        self._trouble = ""
        self._refused_since: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process may act. Once its time has passed, it never may again."""
        if self._is_held and self._clock.monotonic() >= self._acts_until:
            self._is_held = False
            self._is_lost = True
        return self._is_held

    @property
    def seconds_left(self) -> float:
        """Say for how long this process may act should it never renew the Lease again."""
        return max(0.0, self._acts_until - self._clock.monotonic())

    @property
    def why_lost(self) -> str:
        """Say why this process may not act any more, and who may, as far as that is known."""
        lease = f"the lease {self._namespace}/{self._name}"
        holder = self._sighting.holder
        if holder not in ("", self._identity):
            return f"{holder} holds {lease} now"
        why = f" ({self._trouble})" if self._trouble else ""
        return (
            f"{lease} could not be renewed for {self._terms.acts_for_seconds:g} s{why}; "
            f"{self._identity} held it last, any other replica may take it soon"
        )

    @property
    def why_never(self) -> str:
        """Say what keeps this process from ever leading; empty while it may yet, or does.

        A right that is missing may come a moment later, as when everything is installed at once.
        """
        since = self._refused_since
        if since is None or self._clock.monotonic() - since < _GRACE_SECONDS:
            return ""
        return f"Can never lead: {self._trouble}"

    @property
    def stands_by(self) -> bool:
        """Whether another one was seen to hold the Lease, so that this one is there to follow."""
        return not self._is_held and self._sighting.holder not in ("", self._identity)

    def check(self) -> None:
        """Raise unless this process may act. Every request asks: it is over at once if so."""
        if not self.is_leader:
            raise LeadershipLost

    # Coming to hold it

    def acquire(self, *, stands_by: bool = True) -> bool:
        """Wait until the Lease is held; False if closed meanwhile.

        Who is not patient waits only for a holder that may be dead: for one that
        renews there is an error.
        """
        first_seen: tuple[str, str] | None = None
        logged = ""
        while not self._is_closed:
            try:
                is_ours = self.take()
                self._refused_since = None
                if is_ours:
                    return True
            except KanisterError as error:
                self._note_refusal(error)
                # A right that is missing may be missing for days: once is enough.
                if error.message != logged:
                    _LOG.warning("Cannot take the lease %s: %s", self._name, error.message)
                    logged = error.message
            seen = self._sighting.seen
            if first_seen is None:
                first_seen = seen
                if first_seen is not None:
                    _LOG.info("Stands by as %s, %s leads", self._identity, first_seen[0])
                    self._warn_of_other_notes(first_seen[0])
            elif not stands_by and seen is not None and seen != first_seen:
                raise another_controller(
                    f"Another kanister-py controller ({seen[0]})",
                    "stop it, or start this one with --leader-elect to stand by; "
                    "one for other objects needs a --partition or a --home of its own",
                )
            self._sleep(self._terms.renews_every_seconds)
        return False

    def _warn_of_other_notes(self, holder: str) -> None:
        """Warn if the active replica acts on other objects than this one would."""
        theirs = self._notes_of_holder
        differing = [key for key, text in self._notes.items() if theirs.get(key, text) != text]
        if differing:
            _LOG.warning(
                "%s acts on other objects than this replica would (%s), which begins only when "
                "that one ends; a second controller needs a --partition or a --home of its own",
                holder,
                "; ".join(f"{key}: {theirs[key]}, here {self._notes[key]}" for key in differing),
            )

    def _note_refusal(self, error: KanisterError) -> None:
        self._trouble = error.message
        if isinstance(error, TransientError):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = self._clock.monotonic()

    def take(self) -> bool:
        """Take the Lease if it is free, ours, or abandoned. Raises what the cluster says."""
        sent_at = self._clock.monotonic()
        lease = find(self._cluster, LEASES, self._name, self._namespace)
        holder = "" if lease is None else self._sighting.note(spec_of(lease))
        if holder not in ("", self._identity):
            self._notes_of_holder = annotations_of(lease or {})
            return False
        if self._is_closed:
            # It may be free for the reason alone that it was given back.
            return False
        try:
            if lease is None:
                written = self._cluster.create(self._lease_of(None))
            else:
                written = self._cluster.replace(self._lease_of(lease))
        except (AlreadyExists, Conflict, NotFound):
            return False
        self._note_time(written)
        return self._hold(sent_at)

    def _note_time(self, written: KubeObject) -> None:
        """Hear the API server's time from what it notes of a write."""
        fields = written["metadata"].get("managedFields") or ()
        times = [parse_time(entry.get("time")) for entry in fields]
        server_time = max(filter(None, times), default=None)
        if server_time is not None:
            self._on_time(server_time)

    def _hold(self, asked: float) -> bool:
        with self._changed:
            if self._is_lost or (self._is_held and not self.is_leader):
                # Others here have heard that it is over: it must not seem otherwise.
                return False
            if not self._is_closed:
                self._acts_until = asked + self._terms.acts_for_seconds
                self._is_held = True
                return True
        # It was closed while this was written.
        self._give_back()
        return False

    # Keeping it

    def keep(self, on_lost: Callable[[], None]) -> None:
        """Renew the Lease from now on in a thread of its own, and tell when it is lost."""
        Thread(target=self._renew, args=(on_lost,), name="lease", daemon=True).start()

    def _renew(self, on_lost: Callable[[], None]) -> None:
        while True:
            self._sleep(self._terms.renews_every_seconds)
            if self._is_closed:
                return
            try:
                is_ours = self.take()
                self._trouble = ""
            except KanisterError as error:
                _LOG.warning("Cannot renew the lease %s: %s", self._name, error.message)
                self._trouble = error.message
                is_ours = self.is_leader
            if not is_ours and self._sighting.holder not in ("", self._identity):
                # Another replica holds it: there is no point in waiting for our time to pass.
                self._is_held = False
            if not self.is_leader:
                self._is_held = False
                if not self._is_closed:
                    on_lost()
                return

    def close(self) -> None:
        """Stop acting, and let the next one begin at once."""
        with self._changed:
            self._is_closed = True
            was_held, self._is_held = self.is_leader, False
            self._changed.notify_all()
        if was_held:
            self._give_back()

    def abandon(self) -> None:
        """Stop acting without a word to other replicas, as a process does that is killed."""
        with self._changed:
            self._is_closed = self._is_lost = True
            self._is_held = False
            self._changed.notify_all()

    def _give_back(self) -> None:
        try:
            try:
                self._write_free()
            except Conflict:
                # A renewal was under way; none follows it.
                self._write_free()
        except KanisterError as error:
            _LOG.info("The lease %s could not be given back: %s", self._name, error.message)

    def _write_free(self) -> None:
        lease = self._cluster.get(LEASES, self._name, namespace=self._namespace)
        spec = spec_of(lease)
        if spec.get("holderIdentity") == self._identity:
            lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
            self._cluster.replace(lease)

    def _lease_of(self, found: KubeObject | None) -> KubeObject:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = spec_of(found or {})
        is_new = before.get("holderIdentity") != self._identity
        changes = int(before.get("leaseTransitions") or 0) + (is_new and found is not None)
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._terms.term_seconds),
            "acquireTime": now if is_new else before.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": changes,
        }
        metadata = {"name": self._name, "namespace": self._namespace}
        if found is not None:
            metadata = found["metadata"]
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {
                **metadata,
                "labels": {**labels_of(found or {}), **LEASE_LABELS},
                "annotations": {**annotations_of(found or {}), **self._notes},
            },
            "spec": spec,
        }

    def _sleep(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)
