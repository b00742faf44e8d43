"""Progress of an ActionSet on a cluster, shown until it has ended."""

from __future__ import annotations

import sys
from queue import Empty, Queue
from threading import Event, Thread
from typing import Final, NamedTuple, Self

from kanister_py.cli import exit_codes
from kanister_py.cli.output import Tint, say, write_data
from kanister_py.cli.summary import EndedRun, summary_of
from kanister_py.cli.view import view_on
from kanister_py.core.actionsets.status import State, Status
from kanister_py.core.actionsets.stored_status import read_status, read_status_data
from kanister_py.core.errors import NotFound, TransientError, UsageError
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.ports.cluster import Cluster, EventType, KubeObject
from kanister_py.wiring import system_clock

_POLL_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 240.0


def follow(
    cluster: Cluster, namespace: str, name: str, timeout: float | None = None, form: str = ""
) -> int:
    """Show the progress of an ActionSet until it has ended, and return the exit code."""
    clock = system_clock()
    view = view_on(sys.stderr, clock)
    until = None if timeout is None else clock.monotonic() + timeout
    status, obj = Status(), None
    with _Follower(cluster, namespace, name) as follower, view:
        while True:
            change = follower.next(_POLL_SECONDS)
            if isinstance(change, _Gone):
                view.clear()
                if change.error is not None:
                    raise change.error
                raise UsageError(
                    f"ActionSet {namespace}/{name} was deleted before it ended",
                    reason="ActionSetGone",
                )
            if change is not None:
                obj = change
                status = read_status(obj) or status
                view.on_status(status)
            view.refresh(name, status, status.warnings)
            if status.is_final and obj is not None:
                view.clear()
                return _show_end(obj, status, view.width, form)
            if until is not None and clock.monotonic() >= until:
                view.clear()
                say([Tint("error:", "red"), f" {name} is still {status.state}"])
                return exit_codes.FAILED


def _show_end(obj: KubeObject, status: Status, width: int | None, form: str) -> int:
    if form:
        write_data(read_status_data(obj), form, list)
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    ended = EndedRun(
        name,
        status,
        _seconds_of(status),
        retry_with=("kanister-py", "actionset", "retry", "-n", namespace, name),
    )
    for line in summary_of(ended, width):
        say(line)
    if ended.is_cancelled:
        return exit_codes.CANCELLED
    return exit_codes.FINE if status.state is State.COMPLETE else exit_codes.FAILED


def _seconds_of(status: Status) -> float:
    starts = [action.start_time for action in status.actions if action.start_time]
    ends = [action.completion_time for action in status.actions if action.completion_time]
    return (max(ends) - min(starts)).total_seconds() if starts and ends else 0.0


class _Gone(NamedTuple):
    """End of the watch: the object was deleted, or `error` stopped the watch."""

    error: Exception | None = None


class _Follower:
    """Watch of one ActionSet on its own thread, so that the display stays responsive."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._changes: Queue[KubeObject | _Gone] = Queue()
        self._is_closed = Event()
        self._thread = Thread(target=self._follow, name="watch", daemon=True)

    def __enter__(self) -> Self:
        # Raises NotFound at once if there is no such ActionSet.
        self._changes.put(self._get())
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_closed.set()

    def next(self, seconds: float) -> KubeObject | _Gone | None:
        """Return the next change, or None after `seconds` without one."""
        try:
            return self._changes.get(timeout=seconds)
        except Empty:
            return None

    def _get(self) -> KubeObject:
        return self._cluster.get(ACTION_SETS, self._name, namespace=self._namespace)

    def _follow(self) -> None:
        while not self._is_closed.is_set():
            try:
                if not self._watch():
                    return
            except NotFound:
                self._changes.put(_Gone())
                return
            except TransientError:
                # The next watch begins with a read, so changes during the pause are not missed.
                self._is_closed.wait(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 # the thread that shows the progress raises it
                self._changes.put(_Gone(error))
                return

    def _watch(self) -> bool:
        """Forward the events of one watch. Returns False if no more events can follow."""
        obj = self._get()
        self._changes.put(obj)
        with self._cluster.watch(
            ACTION_SETS,
            namespace=self._namespace,
            field_selector=f"metadata.name={self._name}",
            resource_version=obj["metadata"]["resourceVersion"],
            timeout_seconds=_WATCH_SECONDS,
        ) as events:
            for event in events:
                if event.type is EventType.DELETED:
                    self._changes.put(_Gone())
                    return False
                self._changes.put(event.object)
                if self._is_closed.is_set():
                    return False
        return True
