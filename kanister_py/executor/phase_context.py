"""What a function has in hand while it runs."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Condition, Lock, Thread
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.outputs import OutputParser
from kanister_py.core.actionsets.status import Place
from kanister_py.core.errors import KanisterError, PodsNotRun, WaitTimedOut
from kanister_py.core.objects.names import run_key
from kanister_py.core.objects.resources import PODS
from kanister_py.core.templates.render import Renderer
from kanister_py.executor.watching import Read, SharedWatches, Subscription, TracedCluster
from kanister_py.executor.working import Workers
from kanister_py.gotemplate import NO_EFFECTS, Effects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster
from kanister_py.ports.object_store import ObjectStores

_LOG: Final = logging.getLogger(__name__)

RUN_LABEL: Final = "kanister-py.io/run"

_TAIL_LINES: Final = 10
_TAIL_WIDTH: Final = 400
_LONGEST_LINE: Final = 64 * 1024
_FIRST_POLL_SECONDS: Final = 0.1
_LONGEST_POLL_SECONDS: Final = 10.0
# A wait on watches needs no asking. This is for what also depends on the time; the longer
# somebody waits, the less a little more matters, and a thousand may wait at once.
_SAFETY_SECONDS: Final = 30.0
_LONGEST_SAFETY_SECONDS: Final = 240.0


class RunIdentity(NamedTuple):
    """Which attempt at which phase of which ActionSet this is."""

    actionset_uid: str
    place: Place
    action: str
    phase: str
    attempt: int

    def key(self, part: str = "", *, attempt: int | None = None) -> str:
        which = self.attempt if attempt is None else attempt
        return run_key(self.actionset_uid, self.place.action, self.place.phase_index, which, part)


class StopSignal:
    """Whether a phase has been told to stop, why, and who wants to be told of it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._why: KanisterError | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def why(self) -> KanisterError | None:
        return self._why

    def set(self, why: KanisterError) -> None:
        """Tell the phase to stop. The first reason counts."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            listeners = [*self._listeners]
        if listeners:
            # They may take their time; whoever tells the phase to stop has others to tell.
            Thread(target=_call_each, args=(listeners,), name="stop", daemon=True).start()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have a listener called when it is set inside the block, or at once if it is already."""
        with self._lock:
            self._listeners.append(listener)
            is_set = self._why is not None
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
        except Exception:  # noqa: BLE001 # the others want to hear of it all the same
            _LOG.exception("Somebody who was told that a phase must stop fell over")


class Surroundings(NamedTuple):
    """What runs share: the world, the threads, the watches."""

    cluster: Cluster
    clock: Clock
    workers: Workers
    watches: SharedWatches
    effects: Effects = NO_EFFECTS
    may_lag: bool = False
    """Whether the cluster is a copy that may be older than what the last process did."""
    checks_access: bool = False
    """Whether a cluster is asked for the rights of all phases before the first one acts."""
    stores: ObjectStores | None = None


@dataclass(slots=True, eq=False, repr=False)
class _Tail:
    """The last lines of a phase's log, as they came; nothing longer than a screen is kept."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))

    def add(self, line: str) -> None:
        text = line.strip()
        if text:
            self.lines.append(text)


class RunningPhase:
    """The context of one attempt: everything a function may use."""

    def __init__(
        self,
        run: RunIdentity,
        surroundings: Surroundings,
        stop: StopSignal,
        *,
        masker: Masker,
        learn: Callable[[Iterable[Mapping[str, Any]]], Masker],
        on_progress: Callable[[int], None],
        on_log: Callable[[str], None] | None = None,
        owner: Mapping[str, Any] | None = None,
    ) -> None:
        self._run = run
        self._surroundings = surroundings
        self._cluster = TracedCluster(surroundings.cluster)
        self._stop = stop
        self._masker = masker
        self._learn = learn
        self._on_progress = on_progress
        self._on_log = on_log
        self._owner = owner
        self._renderer = Renderer(effects=surroundings.effects)
        self._is_taken_up = False
        self._tail = _Tail()
        self._cleanups: list[Callable[[], None]] = []

    @property
    def run(self) -> RunIdentity:
        return self._run

    @property
    def is_taken_up(self) -> bool:
        return self._is_taken_up

    @property
    def may_have_forgotten(self) -> bool:
        return self._is_taken_up and self._surroundings.may_lag

    @property
    def cluster(self) -> Cluster:
        return self._cluster.as_cluster()

    @property
    def stores(self) -> ObjectStores:
        assert self._surroundings.stores is not None, "nobody handed this run any object stores"
        return self._surroundings.stores

    @property
    def renderer(self) -> Renderer:
        return self._renderer

    def begin(self, renderer: Renderer, *, is_taken_up: bool) -> None:
        """Learn how the blueprint's templates are rendered, and who began this attempt."""
        self._renderer = renderer
        self._is_taken_up = is_taken_up

    @property
    def cancelled(self) -> bool:
        return self._stop.why is not None

    @property
    def stopped_by(self) -> KanisterError | None:
        """Why the phase has been told to stop, if it has."""
        return self._stop.why

    def check_cancelled(self) -> None:
        if self._stop.why is not None:
            raise self._stop.why

    def on_cancel(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        return self._stop.listening(stop)

    def afterwards(self, clean: Callable[[], None]) -> None:
        self._cleanups.append(clean)

    def take_cleanups(self) -> list[Callable[[], None]]:
        """Give what is to be done once the outcome is written down, the latest first."""
        cleanups, self._cleanups = self._cleanups[::-1], []
        return cleanups

    def now(self) -> datetime:
        return self._surroundings.clock.now()

    def progress(self, percent: int) -> None:
        self._on_progress(percent)

    # Logs

    def log(self, line: str) -> None:
        for each in line.splitlines():
            self._tail.add(each)
            if self._on_log is not None:
                self._on_log(self._masker.mask(each))

    def mask(self, text: str) -> str:
        return self._masker.mask(text)

    def conceal(self, secret: str) -> None:
        raw = secret.encode("utf-8", "surrogateescape")
        self.learn_secrets([{"data": {"secret": b64encode(raw).decode()}}])

    def learn_secrets(self, secrets: Iterable[Mapping[str, Any]]) -> None:
        """Mask from now on what these Secrets hold too."""
        self._masker = self._learn(secrets)

    @property
    def log_tail(self) -> tuple[str, ...]:
        """The last lines that say anything, without secrets and cut to fit."""
        return tuple(_cut(self._masker.mask(line)) for line in self._tail.lines)

    def read_outputs(self, stream: Iterable[bytes]) -> dict[str, str]:
        parser = OutputParser()
        lines = _Lines(self.log)
        with self.idle():
            for chunk in stream:
                for piece in parser.feed(chunk):
                    if isinstance(piece, bytes):
                        lines.feed(piece)
                self.check_cancelled()
            for piece in parser.finish():
                if isinstance(piece, bytes):
                    lines.feed(piece)
            lines.finish()
        self.check_cancelled()
        if parser.error is not None:
            raise parser.error
        return parser.outputs

    # What the function makes

    def labels(self, part: str = "") -> dict[str, str]:
        return {RUN_LABEL: self._run.key(part)}

    def owner_references(self, namespace: str) -> list[dict[str, Any]]:
        if self._owner is None or self._owner.get("namespace") != namespace:
            return []
        return [{key: each for key, each in self._owner.items() if key != "namespace"}]

    # Waiting

    def idle(self) -> AbstractContextManager[None]:
        return self._surroundings.workers.idle()

    def sleep(self, seconds: float) -> None:
        wakeup = _Wakeup(self._surroundings.clock)
        until = self._surroundings.clock.monotonic() + seconds
        with self.idle(), self._stop.listening(wakeup.wake):
            while self._stop.why is None and wakeup.wait_until(until):
                pass
        self.check_cancelled()

    def wait(
        self,
        until: Callable[[], Any],
        *,
        timeout_seconds: float | None = None,
        what: str = "",
        every_seconds: float | None = None,
    ) -> Any:
        self.check_cancelled()
        answer, reads = self._cluster.trace(until)
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
                    self.check_cancelled()
                    # Between the first look and the watch something may have happened.
                    answer, now_read = watches.look(lambda: self._cluster.trace(until))
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
                    next_look, pause = _next_look(subscription, reads, every_seconds, pause)
                    look_at = clock.monotonic() + next_look
                    wakeup.wait_until(look_at if deadline is None else min(look_at, deadline))
            finally:
                subscription.close()

    def _refuse_pods(self, reads: Iterable[Read]) -> None:
        """A pod that nobody runs never changes: waiting for it would never end."""
        if self._surroundings.cluster.runs_pods:
            return
        for read in sorted(reads, key=lambda each: (each.namespace, each.name)):
            if read.resource == PODS:
                raise PodsNotRun(read.name or "(any)", read.namespace)


def _next_look(
    subscription: Subscription, reads: frozenset[Read], every_seconds: float | None, pause: float
) -> tuple[float, float]:
    """Say after how long to look again if nobody wakes us, and how long after that."""
    if every_seconds is not None:
        return every_seconds, every_seconds
    if reads and not subscription.is_blind:
        pause = max(pause, _SAFETY_SECONDS)
        return pause, min(pause * 2, _LONGEST_SAFETY_SECONDS)
    pause = min(pause, _LONGEST_POLL_SECONDS)
    return pause, min(pause * 2, _LONGEST_POLL_SECONDS)


class _Wakeup:
    """Lets one thread sleep until a time, or until somebody wakes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = Condition(Lock())
        self._is_awake = False

    def wake(self) -> None:
        with self._condition:
            self._is_awake = True
            self._condition.notify_all()

    def wait_until(self, time: float) -> bool:
        """Sleep; say whether there is time left."""
        with self._condition:
            while not self._is_awake:
                left = time - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._condition, left)
            self._is_awake = False
        return self._clock.monotonic() < time


class _Lines:
    """Cuts a log into lines, wherever its pieces end. A line that never ends is cut too."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._held = b""

    def feed(self, piece: bytes) -> None:
        *lines, held = (self._held + piece).split(b"\n")
        for line in lines:
            self._give(line)
        while len(held) > _LONGEST_LINE:
            self._give(held[:_LONGEST_LINE])
            held = held[_LONGEST_LINE:]
        self._held = held

    def finish(self) -> None:
        if self._held:
            self._give(self._held)
        self._held = b""

    def _give(self, line: bytes) -> None:
        self._take(line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r"))


def _cut(line: str) -> str:
    return line if len(line) <= _TAIL_WIDTH else line[: _TAIL_WIDTH - 1] + "…"
