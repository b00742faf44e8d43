"""Readiness probes of containers: a command, an HTTP request or a connection, over and over."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.ports.clock import Clock

_DEFAULT_PERIOD_SECONDS: Final = 10
_CONNECT: Final = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
_GET: Final = (
    "import sys; from http.client import HTTPConnection; "
    "asked = HTTPConnection('127.0.0.1', int(sys.argv[1])); asked.request('GET', sys.argv[2]); "
    "sys.exit(not 200 <= asked.getresponse().status < 400)"
)


class ReadinessProbe:
    """Readiness probe of one container, asked in a thread of its own, until stopped.

    `run` runs a command in the container and is true if it ends well in time;
    `tell` takes what was found once it is sure. Without an `address`, which a
    sandbox does not have, the container is asked from within.
    """

    def __init__(
        self,
        probe: Mapping[str, Any],
        container: Mapping[str, Any],
        address: str,
        clock: Clock,
        *,
        run: Callable[[Sequence[str], float], bool],
        tell: Callable[[bool], None],
    ) -> None:
        self._probe = probe
        self._container = container
        self._address = address
        self._clock = clock
        self._run = run
        self._tell = tell
        self._changed = threading.Condition()
        self._is_stopped = False
        threading.Thread(target=self._loop, name="pods-probe", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _loop(self) -> None:
        needed = int(self._probe.get("successThreshold") or 1)
        allowed = int(self._probe.get("failureThreshold") or 3)
        successes = failures = 0
        self._pause(float(self._probe.get("initialDelaySeconds") or 0))
        while not self._is_stopped:
            is_good = self._ask()
            successes, failures = (successes + 1, 0) if is_good else (0, failures + 1)
            is_sure = successes == needed if is_good else failures == allowed
            # What was asked about may have ended while it was asked.
            if is_sure and not self._is_stopped:
                self._tell(is_good)
            self._pause(float(self._probe.get("periodSeconds") or _DEFAULT_PERIOD_SECONDS))

    def _pause(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        with self._changed:
            while not self._is_stopped and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)

    def _ask(self) -> bool:
        seconds = float(self._probe.get("timeoutSeconds") or 1)
        if command := self._probe.get("exec"):
            return self._run(command["command"], seconds)
        request = self._probe.get("httpGet")
        asked = request or self._probe.get("tcpSocket")
        if not asked:
            # A kind of probe that is not known here says nothing against the container.
            return True
        port = self._port(asked["port"])
        # What speaks TLS is only asked whether it listens.
        path = ""
        if request and str(request.get("scheme", "")).upper() != "HTTPS":
            path = request.get("path") or "/"
        if not self._address:
            words = [sys.executable, "-I", "-S", "-c", _GET if path else _CONNECT, str(port), path]
            return self._run(words, seconds)
        host = asked.get("host") or self._address
        return _get(host, port, path, seconds) if path else _connects(host, port, seconds)

    def _port(self, port: int | str) -> int:
        for named in self._container.get("ports") or ():
            if named.get("name") == port:
                return int(named["containerPort"])
        return int(port) if str(port).isdigit() else 0


def _get(host: str, port: int, path: str, seconds: float) -> bool:
    # Here, since few pods are asked by HTTP, and every run would wait for it.
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, ValueError, http.client.HTTPException):
        # What cannot even be asked has no good answer.
        return False
    finally:
        connection.close()


def _connects(host: str, port: int, seconds: float) -> bool:
    try:
        with socket.create_connection((host, port), seconds):
            return True
    except OSError:
        return False
