"""Routing of calls: the runner for the scheme of an endpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from kanister_py.core.compositions.endpoints import scheme_of
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.ports.function_runner import FunctionCall, FunctionNotServed, FunctionRunner


class RoutingRunner:
    """Routing by the scheme of an endpoint. Runners are created when first needed."""

    def __init__(self, makers: Mapping[str, Callable[[], FunctionRunner]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, FunctionRunner] = {}
        self._lock = threading.Lock()

    def run(self, call: FunctionCall) -> FunctionResponse:
        scheme = scheme_of(call.revision.endpoint)
        runner = self._made.get(scheme)
        if runner is None:
            runner = self._make(scheme, call)
        return runner.run(call)

    def _make(self, scheme: str, call: FunctionCall) -> FunctionRunner:
        with self._lock:
            if scheme not in self._made:
                maker = self._makers.get(scheme)
                if maker is None:
                    revision = call.revision
                    raise FunctionNotServed(
                        call.step,
                        revision.function,
                        revision.name,
                        f"endpoints with the scheme {scheme} are not allowed here",
                    )
                self._made[scheme] = maker()
            return self._made[scheme]

    def close(self) -> None:
        with self._lock:
            for runner in self._made.values():
                runner.close()
            self._made.clear()
