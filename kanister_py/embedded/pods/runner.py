"""Pod runner: pods as local processes, for a machine without a kubelet."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kanister_py.core.errors import BadRequest
from kanister_py.embedded.pods import OWN_FOLDERS
from kanister_py.embedded.pods.node_setup import NodeSetup
from kanister_py.embedded.pods.pod import PodRun
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import ExecSession, KubeObject, LogOptions, LogStream
from kanister_py.ports.pods import PodSources, ReportStatus


class ProcessPodRunner:
    """Runner of pods whose containers are processes of this machine, with your rights.

    **It executes whatever the pods' commands say, here.** Images are ignored
    and programs are taken from this machine; a container without a command
    idles. Processes have their own view of files, processes and host name, but
    nothing of that is a wall: never run pods that you would not run as a
    script. Nothing makes one of these unless a user asked for it.

    With `state`, the data of claims is kept there; the folder `locations` stands
    in for every store that `kando` uses. When our process ends, however it
    ends, every process and mount of every pod ends with it.
    """

    def __init__(self, clock: Clock, **settings: Any) -> None:
        """Take the settings of a `NodeSetup`."""
        self._setup = NodeSetup(clock, **settings)
        self._lock = threading.Lock()
        self._runs: dict[str, PodRun] = {}
        self._is_closed = False

    def wait_until_ready(self) -> None:
        """Come back when pods can be started; `ProcessesUnavailable` says why they never can."""
        self._setup.wait_until_ready()

    @property
    def why_no_mounts(self) -> str:
        """Say why this machine gives pods no mounts; empty if it does."""
        return "" if self._setup.launcher.namespaces else self._setup.launcher.why

    def why_hidden(self, folder: str) -> str:
        """Say why what pods write into a folder of this machine does not get there, if so."""
        if not self._setup.launcher.namespaces:
            return ""
        # Links mean inside a pod what they say, so the way there counts as well.
        for path in (os.path.normpath(folder), os.path.realpath(folder)):
            top = path.strip("/").partition("/")[0]
            if top in OWN_FOLDERS:
                return f"they have a /{top} of their own, so use a folder elsewhere"
        return ""

    def claims_that_end(self) -> list[str]:
        """Name the claims with data that ends with this runner."""
        return [] if self._setup.is_kept else self._setup.claims.names_with_data()

    def claim_path(self, claim: KubeObject) -> Path:
        """Say which folder holds the data of a PersistentVolumeClaim."""
        return self._setup.claims.open(claim)

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        uid = str(pod["metadata"]["uid"])
        with self._lock:
            if self._is_closed or uid in self._runs:
                return
            run = PodRun(pod, self._setup, sources, report)
            self._runs[uid] = run
            # Before another thread can close the runner, which waits for pods that have begun.
            run.start()

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:
        with self._lock:
            run = self._runs.get(uid)
        if run is None:
            done()
            return

        def forget() -> None:
            with self._lock:
                self._runs.pop(uid, None)
            done()

        run.stop(grace_seconds, forget)

    def is_known(self, uid: str) -> bool:
        return uid in self._runs

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        return self._run_of(uid).read_log(options)

    def exec(
        self, uid: str, command: Sequence[str], *, container: str, has_stdin: bool
    ) -> ExecSession:
        return self._run_of(uid).exec(command, container=container, has_stdin=has_stdin)

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.abandon()
        self._setup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run_of(self, uid: str) -> PodRun:
        run = self._runs.get(uid)
        if run is None:
            raise BadRequest("the pod does not run here")
        return run
