"""Pod runner that runs containers as local processes, for machines without a kubelet."""

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
    """Runner of pods whose containers are processes of this machine, with the user's rights.

    **It executes the commands of pods on this machine.** Images are ignored and programs are taken
    from this machine; a container without a command idles. Processes have their own view of files,
    processes and host name, but this is no security boundary: do not run pods that you would not
    run as a script. It is only used if the user requests it.

    `state` stores the data of claims. The folder `locations` replaces every object store that
    `kando` uses. All processes and mounts end with this process, even if it is killed.
    """

    def __init__(self, clock: Clock, **settings: Any) -> None:
        """Accept the settings of `NodeSetup`."""
        self._setup = NodeSetup(clock, **settings)
        self._lock = threading.Lock()
        self._runs: dict[str, PodRun] = {}
        self._is_closed = False

    def wait_until_ready(self) -> None:
        """Wait until pods can be started. Raises `ProcessesUnavailable`."""
        self._setup.wait_until_ready()

    @property
    def why_no_mounts(self) -> str:
        """Return why pods cannot have mounts on this machine, or an empty text."""
        return "" if self._setup.launcher.namespaces else self._setup.launcher.why

    def why_hidden(self, folder: str) -> str:
        """Return why files that pods write into a folder do not appear on this machine, if so."""
        if not self._setup.launcher.namespaces:
            return ""
        # Pods follow the same links, so both the path and its target matter.
        for path in (os.path.normpath(folder), os.path.realpath(folder)):
            top = path.strip("/").partition("/")[0]
            if top in OWN_FOLDERS:
                return f"they have a /{top} of their own, so use a folder elsewhere"
        return ""

    def claims_that_end(self) -> list[str]:
        """Return the claims whose data is deleted with this runner."""
        return [] if self._setup.is_kept else self._setup.claims.names_with_data()

    def claim_path(self, claim: KubeObject) -> Path:
        """Return the folder with the data of a PersistentVolumeClaim."""
        return self._setup.claims.open(claim)

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        uid = str(pod["metadata"]["uid"])
        with self._lock:
            if self._is_closed or uid in self._runs:
                return
            run = PodRun(pod, self._setup, sources, report)
            self._runs[uid] = run
            # Start it under the lock, because close() waits for started pods.
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
            raise BadRequest("the pod does not run on this node")
        return run
