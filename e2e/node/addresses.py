"""Addresses of pods, if a private network is available."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from kanister_py.ports.cluster import ExecSession, LogOptions, LogStream
from kanister_py.ports.pods import PodRunner, PodSources, ReportStatus


class AddressedPods:
    """Assigns an address to every pod before a runner starts it.

    Servers in a pod are reachable at its address from everywhere in this network, so that
    Services and EndpointSlices of real processes work. Pods still share one set of ports: a
    process that listens on all addresses blocks its port for the others.
    """

    def __init__(self, runner: PodRunner, network: IPv4Network) -> None:
        self._runner = runner
        # The first addresses belong to the device.
        self._free = iter(range(256, network.num_addresses - 1))
        self._network = network
        self._returned: list[str] = []
        self._given: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        status = {**(pod.get("status") or {}), "podIP": self._address_of(pod["metadata"]["uid"])}
        self._runner.start({**pod, "status": status}, sources, report)

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:
        def give_back() -> None:
            with self._lock:
                if uid in self._given:
                    self._returned.append(self._given.pop(uid))
            done()

        self._runner.stop(uid, grace_seconds, give_back)

    def is_known(self, uid: str) -> bool:
        return self._runner.is_known(uid)

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        return self._runner.read_log(uid, options)

    def exec(
        self, uid: str, command: Sequence[str], *, container: str, has_stdin: bool
    ) -> ExecSession:
        return self._runner.exec(uid, command, container=container, has_stdin=has_stdin)

    def close(self) -> None:
        self._runner.close()

    def _address_of(self, uid: str) -> str:
        with self._lock:
            if uid not in self._given:
                number = next(self._free, None)
                # An address is reused only after all others have been assigned.
                self._given[uid] = (
                    str(self._network[number]) if number is not None else self._returned.pop(0)
                )
            return self._given[uid]
