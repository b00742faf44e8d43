"""Phase context: the interface through which a function uses its run and the cluster."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Condition, Lock, Thread
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.outputs import LogLines, OutputParser
from kanister_py.core.actionsets.status import NOT_MOVED, Moved, Place
from kanister_py.core.errors import ApiError, KanisterError, WaitTimedOut
from kanister_py.core.kube.names import run_key
from kanister_py.core.kube.reference_grants import ReferenceNotGranted
from kanister_py.core.kube.resources import PODS, GroupVersionResource
from kanister_py.core.templates.render import Renderer
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.executor.watching import Read, SharedWatches, Subscription, TracedCluster
from kanister_py.executor.workers import Workers
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.confinement import Confinement
from kanister_py.ports.object_store import ObjectStores
from kanister_py.ports.pods import pods_not_run

_LOG: Final = logging.getLogger(__name__)

RUN_LABEL: Final = "kanister-py.io/run"
ATTEMPT_LABEL: Final = "kanister-py.io/attempt"
"""Label with the run key without its part, on pods whose run key has a part."""

_TAIL_LINES: Final = 10
_TAIL_WIDTH: Final = 400
_FIRST_POLL_SECONDS: Final = 0.1
_LONGEST_POLL_SECONDS: Final = 10.0
# Watches wake the waiting phases. Polling is only needed for conditions that also depend on the
# time. Its interval grows with the duration of the wait, since a thousand phases may wait at once.
_SAFETY_SECONDS: Final = 30.0
_LONGEST_SAFETY_SECONDS: Final = 240.0


class RunIdentity(NamedTuple):
    """Identity of an attempt of a phase of an ActionSet."""

    actionset_uid: str
    place: Place
    action: str
    phase: str
    attempt: int

    def key(self, part: str = "", *, attempt: int | None = None) -> str:
        which = self.attempt if attempt is None else attempt
        return run_key(self.actionset_uid, self.place.action, self.place.phase_index, which, part)


class Surroundings(NamedTuple):
    """Environment of a run: the cluster, the threads and watches that runs share, and limits."""

    cluster: Cluster
    clock: Clock
    workers: Workers
    watches: SharedWatches
    effects: Effects = NO_EFFECTS
    may_lag: bool = False
    """Whether the cluster is a cache that may be older than the last process's writes."""
    checks_access: bool = False
    """Whether the rights of all phases are checked before the first one starts."""
    stores: ObjectStores | None = None
    facts: Cluster | None = None
    """A slightly outdated view of the cluster for facts before a run; None to use `cluster`."""
    confinement: Confinement | None = None
    """Restrictions on a run outside of the controller's home namespace."""
    owner: Mapping[str, Any] | None = None
    """Owner reference, with its namespace, of the objects that functions create."""
    grace_seconds: float = 30.0
    """Time that a function has to stop before the run continues without it."""
    service_account: str = ""
    """ServiceAccount that is used for the cluster; empty for the process's own."""

    @property
    def refused(self) -> RefusedReads:
        """Cache of refused reads. A run with its own ServiceAccount gets a new one."""
        return RefusedReads(self.clock) if self.service_account else self.watches.refused


class StopSignal:
    """Request to stop a phase, with its reason and listeners."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.why: KanisterError | None = None
        self._listeners: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise the reason if the phase was requested to stop."""
        if self.why is not None:
            raise self.why

    def set(self, why: KanisterError) -> None:
        """Request the phase to stop. Only the first reason counts."""
        with self._lock:
            if self.why is not None:
                return
            self.why = why
            listeners = [*self._listeners]
        if listeners:
            # Listeners may be slow, and the caller has other phases to stop.
            Thread(target=_call_each, args=(listeners,), name="stop", daemon=True).start()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call a listener when the signal is set inside the block, or at once if it is set."""
        with self._lock:
            self._listeners.append(listener)
            is_set = self.why is not None
        if is_set:
            listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


def _call_each(listeners: Iterable[Callable[[], None]]) -> None:
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001 # the other listeners must still be called
            _LOG.exception("A listener to the stop signal of a phase failed")


class RunningPhase:
    """Context of one attempt, which offers everything that a function may use."""

    def __init__(
        self,
        run: RunIdentity,
        surroundings: Surroundings,
        stop: StopSignal,
        *,
        masker: Masker,
        learn: Callable[[Iterable[Mapping[str, Any]]], Masker],
        on_progress: Callable[[int, Moved], None],
        on_log: Callable[[str], None] | None = None,
    ) -> None:
        self.run: Final = run
        self._traced = TracedCluster(surroundings.cluster)
        self.cluster: Final = self._traced.as_cluster()
        self.renderer = Renderer(effects=surroundings.effects)
        self.is_resumed = False
        self._surroundings = surroundings
        self._refused = surroundings.refused
        self._stop = stop
        self._masker = masker
        self._learn = learn
        self._on_progress = on_progress
        self._on_log = on_log
        self._owner = surroundings.owner
        self._last_lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._cleanups: list[Callable[[], None]] = []
        # These methods of the context are methods of other objects.
        self.now = surroundings.clock.now
        self.idle = surroundings.workers.idle
        self.on_cancel = stop.listening

    def begin(self, renderer: Renderer, *, is_resumed: bool) -> None:
        """Set the renderer of the Blueprint, and whether another process began this attempt."""
        effects = renderer.effects._replace(is_stopped=lambda: self.cancelled)
        self.renderer = renderer._replace(effects=effects)
        self.is_resumed = is_resumed

    def progress(self, percent: int, moved: Moved = NOT_MOVED) -> None:
        self._on_progress(percent, moved)

    @property
    def may_lack_objects(self) -> bool:
        return self.is_resumed and self._surroundings.may_lag

    @property
    def stores(self) -> ObjectStores:
        assert self._surroundings.stores is not None, "this run was given no object stores"
        return self._surroundings.stores

    @property
    def confinement(self) -> Confinement | None:
        return self._surroundings.confinement

    def find_if_allowed(
        self, resource: GroupVersionResource, name: str, *, namespace: str = ""
    ) -> KubeObject | None:
        try:
            return self._refused.read(
                lambda: self.cluster.get(resource, name, namespace=namespace),
                resource,
                namespace,
                name,
            )
        except (ApiError, ReferenceNotGranted):
            return None

    @property
    def service_account(self) -> str:
        return self._surroundings.service_account

    @property
    def cancelled(self) -> bool:
        return self._stop.why is not None

    @property
    def stopped_by(self) -> KanisterError | None:
        """The reason for which the phase must stop; None if there is none."""
        return self._stop.why

    def check_cancelled(self) -> None:
        self._stop.check()

    def afterwards(self, clean: Callable[[], None]) -> None:
        self._cleanups.append(clean)

    def take_cleanups(self) -> list[Callable[[], None]]:
        """Return and forget the cleanups to run once the outcome is recorded, latest first."""
        cleanups, self._cleanups = self._cleanups[::-1], []
        return cleanups

    # Log

    def log(self, line: str) -> None:
        for part in line.splitlines():
            text = part.strip()
            if text:
                self._last_lines.append(text)
            if self._on_log is not None:
                self._on_log(self.mask(part))

    def mask(self, text: str) -> str:
        return self._masker.mask(text)

    def conceal(self, secret: str) -> None:
        raw = secret.encode("utf-8", "surrogateescape")
        self.learn_secrets([{"data": {"secret": b64encode(raw).decode()}}])

    def learn_secrets(self, secrets: Iterable[Mapping[str, Any]]) -> None:
        """Mask the values of these Secrets in later output as well."""
        self._masker = self._learn(secrets)

    @property
    def log_tail(self) -> tuple[str, ...]:
        """Return the last lines that are not empty, masked and shortened."""
        lines = map(self.mask, self._last_lines)
        return tuple(
            [line if len(line) <= _TAIL_WIDTH else f"{line[: _TAIL_WIDTH - 1]}…" for line in lines]
        )

    def read_outputs(self, stream: Iterable[bytes]) -> dict[str, str]:
        parser, lines = OutputParser(), LogLines(self.log)
        with self.idle():
            for chunk in stream:
                for piece in parser.feed(chunk):
                    if isinstance(piece, bytes):
                        lines.feed(piece)
                self.check_cancelled()
            self.check_cancelled()
            for piece in parser.finish():
                if isinstance(piece, bytes):
                    lines.feed(piece)
            lines.finish()
            if parser.error is not None:
                raise parser.error
            return parser.outputs

    # Waiting, without occupying a slot

    def sleep(self, seconds: float) -> None:
        clock = self._surroundings.clock
        wakeup = _Wakeup(clock)
        until = clock.monotonic() + seconds
        with self.idle(), self._stop.listening(wakeup.wake):
            while self._stop.why is None and wakeup.wait_until(until):
                pass
        self._stop.check()

    def wait(
        self,
        until: Callable[[], Any],
        *,
        timeout_seconds: float | None = None,
        what: str = "",
        every_seconds: float | None = None,
    ) -> Any:
        self._stop.check()
        answer, reads = self._traced.trace(until)
        if answer:
            return answer
        self._refuse_pods(reads)
        clock, watches = self._surroundings.clock, self._surroundings.watches
        deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
        wakeup = _Wakeup(clock)
        with self.idle(), self._stop.listening(wakeup.wake):
            subscription = watches.subscribe(reads, wakeup.wake)
            pause = every_seconds or _FIRST_POLL_SECONDS
            try:
                while True:
                    self._stop.check()
                    # The object may have changed between the first read and the watch.
                    answer, now_read = watches.read_in_slot(lambda: self._traced.trace(until))
                    if answer:
                        return answer
                    if now_read != reads:
                        reads = now_read
                        renewed = watches.subscribe(reads, wakeup.wake)
                        subscription.close()
                        subscription = renewed
                        continue
                    if deadline is not None and clock.monotonic() >= deadline:
                        raise WaitTimedOut(what, timeout_seconds or 0.0)
                    delay, pause = _next_poll(subscription, reads, every_seconds, pause)
                    poll_at = clock.monotonic() + delay
                    wakeup.wait_until(poll_at if deadline is None else min(poll_at, deadline))
            finally:
                subscription.close()

    def _refuse_pods(self, reads: Iterable[Read]) -> None:
        """Raise an error for a pod that no node runs, because waiting for it would never end."""
        if self._surroundings.cluster.runs_pods:
            return
        for read in sorted(reads, key=lambda read: (read.namespace, read.name)):
            if read.resource == PODS:
                raise pods_not_run(read.name or "(any)", read.namespace)

    # Objects that the function creates

    def labels(self, part: str = "") -> dict[str, str]:
        return {RUN_LABEL: self.run.key(part)}

    def owner_references(self, namespace: str) -> list[dict[str, Any]]:
        if self._owner is None or self._owner.get("namespace") != namespace:
            return []
        return [{key: value for key, value in self._owner.items() if key != "namespace"}]


def _next_poll(
    subscription: Subscription, reads: frozenset[Read], every_seconds: float | None, pause: float
) -> tuple[float, float]:
    """Return the delay before the next poll without a wake-up, and the delay after that one."""
    if every_seconds is not None:
        return every_seconds, every_seconds
    if reads and not subscription.is_blind:
        pause = max(pause, _SAFETY_SECONDS)
        return pause, min(pause * 2, _LONGEST_SAFETY_SECONDS)
    pause = min(pause, _LONGEST_POLL_SECONDS)
    return pause, min(pause * 2, _LONGEST_POLL_SECONDS)


class _Wakeup:
    """Sleep of one thread until a time or a wake-up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = Condition(Lock())
        self._is_awake = False

    def wake(self) -> None:
        with self._condition:
            self._is_awake = True
            self._condition.notify_all()

    def wait_until(self, time: float) -> bool:
        """Sleep until a time or a wake-up. Returns whether that time has not been reached yet."""
        with self._condition:
            while not self._is_awake:
                left = time - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._condition, left)
            self._is_awake = False
        return self._clock.monotonic() < time
