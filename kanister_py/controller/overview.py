"""Overview of all runs for the web page and `top`, including runs of other replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import choice
from threading import Condition, Lock
from typing import Any, Final

from kanister_py.controller.actionsets.pod_logs import PodLogLines
from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.core.actionsets.overview import RunRow, row_of
from kanister_py.core.errors import Forbidden, NotFound, UsageError
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.executor.actionset_requests import cancel_actionset, write_retry
from kanister_py.executor.schedule_requests import suspend_schedule, write_run_now
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, find
from kanister_py.ports.overview import Listeners, Runs

_POD_LOGS_SECONDS: Final = 2.0
_CHECK_SECONDS: Final = 0.05
_FIRST_LIST_SECONDS: Final = 5.0


class ClusterOverview:
    """View of all ActionSets through a watch of its own, so that a standby replica has it too.

    The watch starts with the first request, so that an unused page costs nothing. Log lines of
    a run come from the memory of this process, or from the logs of the controllers' pods.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        lines: PhaseLines,
        *,
        home: str,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lines = lines
        self._home = home
        self._namespaces = tuple(namespaces) or ("",)
        self._lock = Lock()
        self._reading = Lock()
        self._listed = Condition()
        self.is_followed = False
        self._version = 0
        self._sorted = Runs(-1, ())
        self._listeners = Listeners()
        self._from_pods: dict[ObjectKey, tuple[float, Sequence[Mapping[str, Any]]]] = {}
        self._store: WatchCache[RunRow] = WatchCache(
            cluster=cluster,
            clock=clock,
            resource=ACTION_SETS,
            keep=row_of,
            on_change=self._on_change,
            namespaces=self._namespaces,
        )
        lines.listen(self._notify_listeners)

    def close(self) -> None:
        self._store.close()

    def wait_until_synced(self) -> None:
        """Wait until all runs were read. Raises `UsageError` if they cannot be read."""
        self._start_watch(None)
        if not self._store.has_synced:
            raise UsageError(self._store.trouble, reason="RunsUnseen")

    def _start_watch(self, seconds: float | None) -> None:
        """Start the watch with the first call, which waits this long for the list."""
        with self._lock:
            is_first, self.is_followed = not self.is_followed, True
        if not is_first:
            return
        self._store.start()
        until = None if seconds is None else self._clock.monotonic() + seconds
        with self._listed:
            while not (self._store.has_synced or self._store.trouble):
                if until is not None and self._clock.monotonic() >= until:
                    return
                self._clock.wait(self._listed, _CHECK_SECONDS)

    def _on_change(self, key: ObjectKey, old: RunRow | None, new: RunRow | None) -> None:
        if old != new:
            with self._lock:
                self._version += 1
            self._notify_listeners(key)

    def _notify_listeners(self, key: ObjectKey) -> None:
        self._listeners.tell(key.namespace, key.name)

    def listen(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        return self._listeners.add(call)

    def runs(self) -> Runs:
        self._start_watch(_FIRST_LIST_SECONDS)
        with self._lock:
            version = self._version
            if self._sorted.version != version:
                rows = [row for _, row in self._store.items()]
                rows.sort(key=lambda row: (row.created, row.name), reverse=True)
                self._sorted = Runs(version, rows)
            listed = self._sorted
        trouble = "" if self._store.has_synced else "The runs of the cluster are being read"
        return listed._replace(trouble=self._store.trouble or trouble)

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return find(self._cluster, ACTION_SETS, name, namespace)

    def lines(self, namespace: str, name: str, after: int) -> Sequence[Mapping[str, Any]]:
        own = self._lines.lines(ObjectKey(namespace, name), after=after)
        if own or self._lines.has(ObjectKey(namespace, name)):
            return [line.as_dict() for line in own]
        return self._lines_of_pods(namespace, name)[after:]

    def must_be_polled(self, namespace: str, name: str) -> bool:
        self._start_watch(_FIRST_LIST_SECONDS)
        key = ObjectKey(namespace, name)
        row = self._store.get(key)
        return row is not None and row.ended is None and not self._lines.has(key)

    def _lines_of_pods(self, namespace: str, name: str) -> Sequence[Mapping[str, Any]]:
        """Read the logs of all replicas, or return the lines that were read a moment ago."""
        key = ObjectKey(namespace, name)
        with self._reading:
            now = self._clock.monotonic()
            for old in [k for k, entry in self._from_pods.items() if entry[0] <= now]:
                del self._from_pods[old]
            if key not in self._from_pods:
                lines = self._read_pods(namespace, name)
                until = self._clock.monotonic() + _POD_LOGS_SECONDS
                self._from_pods[key] = (until, lines)
            return self._from_pods[key][1]

    def _read_pods(self, namespace: str, name: str) -> Sequence[Mapping[str, Any]]:
        actionset = self.read(namespace, name)
        if actionset is None:
            return ()
        try:
            lines = PodLogLines(self._cluster, self._home).new_lines(dict(actionset))
            return [{"number": number, **line.as_dict()} for number, line in enumerate(lines, 1)]
        except Forbidden:
            raise
        except UsageError:
            # There are no pods of a controller, so the run was not on this cluster.
            return ()

    def schedules(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        # The permissions cover only the watched namespaces.
        namespaces = (namespace,) if namespace else self._namespaces
        try:
            return [
                item
                for watched in namespaces
                for item in self._cluster.list(SCHEDULES, namespace=watched)
            ]
        except NotFound:
            # The definition is not installed.
            return ()

    def schedule(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return find(self._cluster, SCHEDULES, name, namespace)

    def ask(self, verb: str, namespace: str, name: str) -> str:
        cluster = self._cluster
        match verb:
            case "cancel":
                cancel_actionset(cluster, namespace, name)
                return name
            case "suspend" | "resume":
                suspend_schedule(cluster, namespace, name, is_suspended=verb == "suspend")
                return ""
            case "run-now":
                run = write_run_now(cluster, namespace, name, choice, force=False)
            case _:
                actionset = cluster.get(ACTION_SETS, name, namespace=namespace)
                run = write_retry(actionset, "", "", choice)
        return str(cluster.create(run)["metadata"]["name"])
