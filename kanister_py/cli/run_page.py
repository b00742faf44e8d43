"""Page of a run: what the controller's pages show, for one run of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from kanister_py.core.actionsets.overview import RunRow, row_of
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.ports.overview import Listeners, Runs

if TYPE_CHECKING:
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status
    from kanister_py.executor.run.background import Run
    from kanister_py.executor.run.state import Onlooker
    from kanister_py.ports.clock import Clock

_HOST = "127.0.0.1"
_MOST_LINES = 20_000


class RunPage:
    """Onlooker of a run that hands everything on to the view, and overview for the page."""

    def __init__(self, view: Onlooker, clock: Clock, namespace: str) -> None:
        self._view = view
        self._clock = clock
        self._namespace = namespace or "default"
        self._began = clock.now()
        self._lock = Lock()
        self._lines: list[dict[str, Any]] = []
        self._listeners = Listeners()
        self._version = 0
        self.run: Run | None = None

    # As an onlooker

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        self._view.on_outcome(outcome, status)
        self._tell()

    def on_log(self, action: str, phase: str, line: str) -> None:
        self._view.on_log(action, phase, line)
        time = text_of_moment(self._clock.now())
        with self._lock:
            number = self._lines[-1]["number"] + 1 if self._lines else 1
            entry = {"number": number, "time": time, "action": action, "phase": phase, "line": line}
            self._lines.append(entry)
            del self._lines[:-_MOST_LINES]
        self._tell()

    def _tell(self) -> None:
        self._version += 1
        name = self.run.name if self.run is not None else ""
        self._listeners.tell(self._namespace, name)

    # As an overview

    def runs(self) -> Runs:
        found = self._object()
        rows: Sequence[RunRow] = () if found is None else (row_of(found),)
        return Runs(self._version, rows)

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        found = self._object()
        is_asked = found is not None and found["metadata"]["name"] == name
        return found if is_asked and namespace == self._namespace else None

    def _object(self) -> Mapping[str, Any] | None:
        run = self.run
        if run is None:
            return None
        status = run.masked_status
        metadata = {
            "name": run.name,
            "namespace": self._namespace,
            "creationTimestamp": text_of_moment(self._began),
        }
        actions = [
            {"name": each["name"], "blueprint": each["blueprint"]}
            for each in status.get("actions", ())
        ]
        return {"metadata": metadata, "spec": {"actions": actions}, "status": status}

    def lines(self, namespace: str, name: str, after: int) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002 # there is one run
        with self._lock:
            return [each for each in self._lines if each["number"] > after]

    def is_elsewhere(self, namespace: str, name: str) -> bool:  # noqa: ARG002 # it is here
        return False

    def listen(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        return self._listeners.add(call)

    def schedules(self, namespace: str) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002 # there are none
        return ()

    def schedule(self, namespace: str, name: str) -> Mapping[str, Any] | None:  # noqa: ARG002 # see above
        return None

    def ask(self, verb: str, namespace: str, name: str) -> str:  # noqa: ARG002 # there is one run
        from kanister_py.executor.actionset_requests import ActionSetState

        if self.run is None or verb != "cancel" or self.run.is_over:
            why = "start it again with kanister-py run --retry-from"
            raise ActionSetState(name, self.run.state if self.run is not None else "pending", why)
        self.run.cancel()
        return name


@contextmanager
def run_page_served(page: RunPage, clock: Clock, port: int) -> Iterator[str]:
    """Serve the page of a run to this machine, and say where."""
    from starlette.applications import Starlette

    from kanister_py.cli.listening import listening, served
    from kanister_py.http_api.guard import LocalHostsOnly
    from kanister_py.http_api.live.routes import Pages, live_routes
    from kanister_py.http_api.metrics import Metrics

    routes = live_routes(Pages(page, clock.now, None), page, Metrics())
    app = LocalHostsOnly(Starlette(routes=routes))
    with listening(_HOST, port) as taken, served(app, taken):
        yield f"http://{_HOST}:{taken.getsockname()[1]}/runs"
