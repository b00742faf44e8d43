"""Web page of a run of this process, like the pages of the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from kanister_py.cli.listening import listening, served_in_thread
from kanister_py.core.actionsets.overview import RunRow, row_of
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.executor.actionset_requests import ActionSetState
from kanister_py.http_api.guard import LocalHostsOnly
from kanister_py.http_api.live.routes import Pages, live_routes
from kanister_py.http_api.metrics import Metrics
from kanister_py.ports.overview import Listeners, Runs

if TYPE_CHECKING:
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status
    from kanister_py.executor.run.background import Run
    from kanister_py.executor.run.state import RunObserver
    from kanister_py.ports.clock import Clock

_HOST = "127.0.0.1"
_MAX_LINES = 20_000


class RunPage:
    """Observer of a run that forwards everything to the view and serves the web page."""

    def __init__(self, view: RunObserver, clock: Clock, namespace: str) -> None:
        self._view = view
        self._clock = clock
        self._namespace = namespace or "default"
        self._start = clock.now()
        self._lock = Lock()
        self._lines: list[dict[str, Any]] = []
        self._listeners = Listeners()
        self._version = 0
        self.run: Run | None = None

    # Methods of RunObserver

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        self._view.on_outcome(outcome, status)
        self._notify()

    def on_log(self, action: str, phase: str, line: str) -> None:
        self._view.on_log(action, phase, line)
        time = text_of_moment(self._clock.now())
        with self._lock:
            number = self._lines[-1]["number"] + 1 if self._lines else 1
            entry = {"number": number, "time": time, "action": action, "phase": phase, "line": line}
            self._lines.append(entry)
            del self._lines[:-_MAX_LINES]
        self._notify()

    def _notify(self) -> None:
        self._version += 1
        name = self.run.name if self.run is not None else ""
        self._listeners.tell(self._namespace, name)

    # Methods of Overview

    def runs(self) -> Runs:
        obj = self._object()
        rows: Sequence[RunRow] = () if obj is None else (row_of(obj),)
        return Runs(self._version, rows)

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        obj = self._object()
        if obj is None or obj["metadata"]["name"] != name or namespace != self._namespace:
            return None
        return obj

    def _object(self) -> Mapping[str, Any] | None:
        run = self.run
        if run is None:
            return None
        status = run.masked_status
        metadata = {
            "name": run.name,
            "namespace": self._namespace,
            "creationTimestamp": text_of_moment(self._start),
        }
        actions = [
            {"name": action["name"], "blueprint": action["blueprint"]}
            for action in status.get("actions", ())
        ]
        return {"metadata": metadata, "spec": {"actions": actions}, "status": status}

    def lines(self, namespace: str, name: str, after: int) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002 # there is one run
        with self._lock:
            return [line for line in self._lines if line["number"] > after]

    def must_be_polled(self, namespace: str, name: str) -> bool:  # noqa: ARG002 # the run is in this process
        return False

    def listen(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        return self._listeners.add(call)

    def schedules(self, namespace: str) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002 # there are none
        return ()

    def schedule(self, namespace: str, name: str) -> Mapping[str, Any] | None:  # noqa: ARG002 # see above
        return None

    def ask(self, verb: str, namespace: str, name: str) -> str:  # noqa: ARG002 # there is one run
        if self.run is None or verb != "cancel" or self.run.is_over:
            state = self.run.state if self.run is not None else "pending"
            raise ActionSetState(name, state, "retry it with kanister-py run --retry-from")
        self.run.cancel()
        return name


@contextmanager
def run_page_served(page: RunPage, clock: Clock, port: int) -> Iterator[str]:
    """Serve the page of a run on this machine; yield its URL."""
    from starlette.applications import Starlette

    routes = live_routes(Pages(page, clock.now, None), page, Metrics())
    app = LocalHostsOnly(Starlette(routes=routes))
    with listening(_HOST, port) as server, served_in_thread(app, server):
        yield f"http://{_HOST}:{server.getsockname()[1]}/runs"
