"""Phase context: the functions' view of their run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.status import NOT_MOVED, Moved, Place
from kanister_py.core.errors import KanisterError
from kanister_py.core.objects.names import run_key
from kanister_py.core.templates.render import Renderer
from kanister_py.executor.phase_log import OutputReader, PhaseLog
from kanister_py.executor.phase_waits import PhaseWaits
from kanister_py.executor.stop_signal import StopSignal
from kanister_py.executor.watching import SharedWatches, TracedCluster
from kanister_py.executor.working import Workers
from kanister_py.gotemplate import NO_EFFECTS, Effects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster
from kanister_py.ports.object_store import ObjectStores
from kanister_py.values import NamedTuple

RUN_LABEL: Final = "kanister-py.io/run"
ATTEMPT_LABEL: Final = "kanister-py.io/attempt"
"""Label of pods whose run key has a part: the key without it."""


class RunIdentity(NamedTuple):
    """Identity of an attempt at a phase of an ActionSet."""

    actionset_uid: str
    place: Place
    action: str
    phase: str
    attempt: int

    def key(self, part: str = "", *, attempt: int | None = None) -> str:
        which = self.attempt if attempt is None else attempt
        return run_key(self.actionset_uid, self.place.action, self.place.phase_index, which, part)


class Surroundings(NamedTuple):
    """Surroundings that runs share: the cluster, the threads, the watches."""

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
    facts: Cluster | None = None
    """The cluster as it may be seen before a run, a moment late; None if that is no other."""


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
        on_progress: Callable[[int, Moved], None],
        on_log: Callable[[str], None] | None = None,
        owner: Mapping[str, Any] | None = None,
    ) -> None:
        cluster = TracedCluster(surroundings.cluster)
        waits = PhaseWaits(
            cluster,
            surroundings.clock,
            surroundings.workers,
            surroundings.watches,
            stop,
            runs_pods=surroundings.cluster.runs_pods,
        )
        self.run: Final = run
        self._on_progress = on_progress
        self.cluster: Final = cluster.as_cluster()
        self.renderer = Renderer(effects=surroundings.effects)
        self.is_taken_up = False
        self._surroundings = surroundings
        self._stop = stop
        self._owner = owner
        self._log = PhaseLog(masker, learn, on_log)
        self._cleanups: list[Callable[[], None]] = []
        # These parts of a context are made by others.
        self.log = self._log.add
        self.mask = self._log.mask
        self.conceal = self._log.conceal
        self.learn_secrets = self._log.learn_secrets
        self.now = surroundings.clock.now
        self.idle = surroundings.workers.idle
        self.sleep = waits.sleep
        self.wait = waits.wait
        self.on_cancel = stop.listening

    def begin(self, renderer: Renderer, *, is_taken_up: bool) -> None:
        """Take the renderer of the blueprint, and whether another process began this attempt."""
        self.renderer = renderer
        self.is_taken_up = is_taken_up

    def progress(self, percent: int, moved: Moved = NOT_MOVED) -> None:
        self._on_progress(percent, moved)

    @property
    def may_have_forgotten(self) -> bool:
        return self.is_taken_up and self._surroundings.may_lag

    @property
    def stores(self) -> ObjectStores:
        assert self._surroundings.stores is not None, "this run was given no object stores"
        return self._surroundings.stores

    @property
    def cancelled(self) -> bool:
        return self._stop.why is not None

    @property
    def stopped_by(self) -> KanisterError | None:
        """The reason why the phase is to stop; None if it is not."""
        return self._stop.why

    def check_cancelled(self) -> None:
        self._stop.check()

    def afterwards(self, clean: Callable[[], None]) -> None:
        self._cleanups.append(clean)

    def take_cleanups(self) -> list[Callable[[], None]]:
        """Give what is to be done once the outcome is written down, the latest first."""
        cleanups, self._cleanups = self._cleanups[::-1], []
        return cleanups

    @property
    def log_tail(self) -> tuple[str, ...]:
        """The last lines that say anything, without secrets and cut to fit."""
        return self._log.tail

    def read_outputs(self, stream: Iterable[bytes]) -> dict[str, str]:
        reader = OutputReader(self.log)
        with self.idle():
            for chunk in stream:
                reader.feed(chunk)
                self.check_cancelled()
            self.check_cancelled()
            return reader.finish()

    # What the function makes

    def labels(self, part: str = "") -> dict[str, str]:
        return {RUN_LABEL: self.run.key(part)}

    def owner_references(self, namespace: str) -> list[dict[str, Any]]:
        if self._owner is None or self._owner.get("namespace") != namespace:
            return []
        return [{key: each for key, each in self._owner.items() if key != "namespace"}]
