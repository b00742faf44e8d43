"""Follow an ActionSet to its end.

Ends with 0 when it is complete, with 1 when it failed or was deleted, with 130 when it was
cancelled. Ctrl-C ends the watching alone; `kanister-py actionset cancel` stops an ActionSet.
"""

from __future__ import annotations

import argparse
import sys
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kanister_py.cli import exit_codes
from kanister_py.cli.output import Tint, say
from kanister_py.cli.parser import seconds
from kanister_py.core.actionsets.status import State, Status
from kanister_py.core.actionsets.stored_status import read_status, read_status_data
from kanister_py.core.errors import NotFound, TransientError, UsageError
from kanister_py.core.kube.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


_LOOK_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 240.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="DURATION",
        help="stop watching after so long, and end with 1",
    )
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="print the final status")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    return follow(cluster, args.namespace, args.name, args.timeout, args.output)


def follow(
    cluster: Cluster, namespace: str, name: str, timeout: float | None = None, form: str = ""
) -> int:
    """Show the progress of an ActionSet to its end, and give the exit code."""
    from kanister_py.cli.view import view_on
    from kanister_py.wiring import system_clock

    clock = system_clock()
    view = view_on(sys.stderr, clock)
    until = None if timeout is None else clock.monotonic() + timeout
    status, obj = Status(), None
    with _Follower(cluster, namespace, name) as follower, view:
        while True:
            news = follower.next(_LOOK_SECONDS)
            if isinstance(news, _Gone):
                view.clear()
                if news.error is not None:
                    raise news.error
                raise UsageError(
                    f"ActionSet {namespace}/{name} was deleted before it ended",
                    reason="ActionSetGone",
                )
            if news is not None:
                obj = news
                status = read_status(obj) or status
                view.on_status(status)
            view.refresh(name, status, status.warnings)
            if status.is_final and obj is not None:
                view.clear()
                return _end(obj, status, view.width, form)
            if until is not None and clock.monotonic() >= until:
                view.clear()
                say([Tint("error:", "red"), f" {name} is {status.state} still"])
                return exit_codes.FAILED


def _end(obj: KubeObject, status: Status, width: int | None, form: str) -> int:
    from kanister_py.cli.output import write_data
    from kanister_py.cli.summary import Ending, summary_of

    if form:
        write_data(read_status_data(obj), form, list)
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    ending = Ending(
        name,
        status,
        _seconds_of(status),
        retry_with=("kanister-py", "actionset", "retry", "-n", namespace, name),
    )
    for line in summary_of(ending, width):
        say(line)
    if ending.is_cancelled:
        return exit_codes.CANCELLED
    return exit_codes.FINE if status.state is State.COMPLETE else exit_codes.FAILED


def _seconds_of(status: Status) -> float:
    began = [each.start_time for each in status.actions if each.start_time is not None]
    ended = [each.completion_time for each in status.actions if each.completion_time is not None]
    return (max(ended) - min(began)).total_seconds() if began and ended else 0.0


# Where news come from


class _Gone(NamedTuple):
    """End of all news: the object was deleted, or an error keeps it from being watched."""

    error: Exception | None = None


class _Follower:
    """Watch of one ActionSet on a thread of its own, so that the picture stays alive."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._news: Queue[KubeObject | _Gone] = Queue()
        self._is_over = Event()
        self._thread = Thread(target=self._follow, name="watch", daemon=True)

    def __enter__(self) -> Self:
        # The first look says whether it is there at all, and that at once.
        self._news.put(self._get())
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()

    def next(self, seconds: float) -> KubeObject | _Gone | None:
        """Wait for the next news; None if there is none for so long."""
        try:
            news = self._news.get(timeout=seconds)
        except Empty:
            return None
        return news

    def _get(self) -> KubeObject:
        return self._cluster.get(ACTION_SETS, self._name, namespace=self._namespace)

    def _follow(self) -> None:
        while not self._is_over.is_set():
            try:
                if not self._watch():
                    return
            except NotFound:
                self._news.put(_Gone())
                return
            except TransientError:
                # The cluster is away for a moment; what has happened meanwhile is read then.
                self._is_over.wait(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 # the thread that shows the run raises it
                self._news.put(_Gone(error))
                return

    def _watch(self) -> bool:
        """Hand on the events of a watch; False if nothing more can come."""
        from kanister_py.ports.cluster import EventType

        obj = self._get()
        self._news.put(obj)
        with self._cluster.watch(
            ACTION_SETS,
            namespace=self._namespace,
            field_selector=f"metadata.name={self._name}",
            resource_version=obj["metadata"]["resourceVersion"],
            timeout_seconds=_WATCH_SECONDS,
        ) as events:
            for event in events:
                if event.type is EventType.DELETED:
                    self._news.put(_Gone())
                    return False
                self._news.put(event.object)
                if self._is_over.is_set():
                    return False
        return True
