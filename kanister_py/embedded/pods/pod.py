"""Lifecycle of a pod: volumes, containers and status."""

from __future__ import annotations

import copy
import logging
import shutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kanister_py.core.errors import BadRequest, KanisterError, UsageError
from kanister_py.core.kube.parts import annotations_of
from kanister_py.embedded.pods.container import Container, PodContext
from kanister_py.embedded.pods.node_setup import NodeSetup
from kanister_py.embedded.pods.pod_status import PodReport
from kanister_py.embedded.pods.sessions import ProcessSession
from kanister_py.embedded.pods.volumes import Volumes, VolumeUnavailable
from kanister_py.ports.cluster import LogOptions, LogStream
from kanister_py.ports.pods import PodSources, ReportStatus

_LOG: Final = logging.getLogger(__name__)
# Without a handler, tracebacks would be printed between the output of a run.
_LOG.addHandler(logging.NullHandler())

_DEFAULT_GRACE_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


class PodRun:
    """Run of one pod in its own thread, which alone changes and reports the status."""

    def __init__(
        self, pod: Mapping[str, Any], setup: NodeSetup, sources: PodSources, report: ReportStatus
    ) -> None:
        self._pod: dict[str, Any] = copy.deepcopy(dict(pod))
        self._name = str(self._pod["metadata"]["name"])
        self._spec: Mapping[str, Any] = self._pod["spec"]
        self._setup = setup
        self._clock = setup.clock
        self._folder = setup.folder_of(self._pod)
        self._report_status = report
        self._shared = PodContext(self._pod, setup, sources, self._folder, self._wake)
        self._changed = self._shared.changed
        self._has_news = False
        self._stop_at: float | None = None
        self._is_abandoned = False
        self._done: list[Callable[[], None]] = []
        self._is_over = False
        self._failure: tuple[str, str] | None = None
        self._start_monotonic = self._clock.monotonic()
        self._status = PodReport(self._pod, self._shared.now)
        self._mains = [Container(spec, "main", self._shared) for spec in self._spec["containers"]]
        self._inits = [
            Container(
                spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init", self._shared
            )
            for spec in self._spec.get("initContainers") or ()
        ]
        self._containers = [*self._inits, *self._mains]
        self._thread = threading.Thread(
            target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True
        )

    # Called from any thread

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace_seconds: float, done: Callable[[], None]) -> None:
        """Stop the pod. The earliest of several deadlines applies."""
        with self._changed:
            if not self._is_over:
                at = self._clock.monotonic() + grace_seconds
                self._stop_at = at if self._stop_at is None else min(at, self._stop_at)
                self._done.append(done)
                self._changed.notify_all()
                return
        done()

    def abandon(self) -> None:
        """Kill everything without further reports, and wait for the end."""
        with self._changed:
            self._is_abandoned = True
            self._stop_at = self._clock.monotonic()
            self._changed.notify_all()
        self._thread.join()

    def read_log(self, options: LogOptions) -> LogStream:
        with self._changed:
            return self._find(options.container).read_log(options)

    def exec(self, command: Sequence[str], *, container: str, has_stdin: bool) -> ProcessSession:
        with self._changed:
            return self._find(container).exec(command, has_stdin=has_stdin)

    def _find(self, name: str) -> Container:
        if not name and len(self._mains) > 1:
            name = annotations_of(self._pod).get(_DEFAULT_CONTAINER, "")
            if not name:
                choices = [one.name for one in self._mains]
                raise BadRequest(
                    f"a container name must be specified for pod {self._name}, "
                    f"choose one of: {choices}"
                )
        if not name:
            return self._mains[0]
        for container in self._containers:
            if container.name == name:
                return container
        raise BadRequest(f"container {name} is not valid for pod {self._name}")

    def _wake(self) -> None:
        self._has_news = True
        self._changed.notify_all()

    # Called from the thread of the pod

    def _run(self) -> None:
        self._attempt(lambda: self._run_containers() if self._prepare() else None)
        self._attempt(self._terminate)
        try:
            self._report()
        except Exception as error:  # noqa: BLE001 - the end of the pod must be reported
            reason, message = _log_defect(self._name, error)
            with suppress(Exception):
                self._report_status({"phase": "Failed", "reason": reason, "message": message})
        self._wait_for_stop()
        self._clean()

    def _attempt(self, act: Callable[[], None]) -> None:
        """Run a part of the lifecycle. Any error makes the pod fail with its reason."""
        try:
            act()
        except KanisterError as error:
            self._failure = (error.reason, error.message)
        except OSError as error:
            # For example a full disk or a deleted folder.
            self._failure = ("NodeError", str(error))
        except Exception as error:  # noqa: BLE001 - clients would wait forever for the pod
            self._failure = _log_defect(self._name, error)

    def _prepare(self) -> bool:
        """Create the volumes, and wait for missing ones."""
        has_mounts = any(one.spec.get("volumeMounts") for one in self._containers)
        why = self._setup.launcher.why
        has_devices = any(one.spec.get("volumeDevices") for one in self._containers)
        if has_devices:
            why = "block devices need a real node"
        if has_devices or (has_mounts and not self._setup.launcher.namespaces):
            raise UsageError(
                f"Volumes cannot be mounted: {why}; use Linux with user namespaces, "
                "or a real cluster",
                reason="MountsUnavailable",
            )
        self._setup.wait_until_ready()
        (self._folder / "root").mkdir(parents=True, exist_ok=True)
        volumes = Volumes(self._folder / "volumes", self._setup.claims, self._shared.sources)
        attempt = 0
        while True:
            try:
                self._shared.volumes = volumes.prepare(self._pod)
            except VolumeUnavailable as error:
                self._report(waiting=("ContainerCreating", error.message))
                if not self._pause(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]):
                    return False
                attempt += 1
            else:
                return True

    def _run_containers(self) -> None:
        while True:
            self._collect_exits()
            if self._stop_at is not None:
                return
            considered_at = self._clock.monotonic()
            if self._deadline is not None and considered_at >= self._deadline:
                message = "Pod was active on the node longer than the specified deadline"
                self._failure = ("DeadlineExceeded", message)
                return
            self._advance()
            if self._failure is not None or self._is_finished():
                return
            self._report()
            self._sleep(considered_at)

    def _advance(self) -> None:
        """Start the containers that may run: init containers one by one, then the others."""
        for container in self._inits:
            if container.kind == "init" and container.has_succeeded:
                continue
            container.keep_running()
            if container.kind == "init":
                if container.ended is not None and not container.may_restart:
                    self._failure = ("", "")
                return
            if not container.is_running:
                return
        for container in self._mains:
            container.keep_running()

    def _collect_exits(self) -> None:
        for container in self._containers:
            container.collect_exit()

    def _is_finished(self) -> bool:
        return all(one.ended is not None and not one.may_restart for one in self._mains)

    @property
    def _deadline(self) -> float | None:
        seconds = self._spec.get("activeDeadlineSeconds")
        return None if seconds is None else self._start_monotonic + float(seconds)

    def _sleep(self, considered_at: float) -> None:
        """Wait for a change or the next deadline.

        Deadlines up to `considered_at` have been handled already.
        """
        restarts = [one.restart_at for one in self._containers if not one.is_running]
        due = [at for at in (*restarts, self._deadline) if at is not None and at > considered_at]
        with self._changed:
            while not self._has_news and self._stop_at is None:
                left = min(due) - self._clock.monotonic() if due else None
                if left is not None and left <= 0:
                    break
                self._clock.wait(self._changed, left)
            self._has_news = False

    def _pause(self, seconds: float) -> bool:
        """Wait. Returns False if the pod is to stop."""
        until = self._clock.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)
            return self._stop_at is None

    # End of the pod

    def _terminate(self) -> None:
        """Stop the containers, and then the sidecars."""
        for container in self._containers:
            container.restart_policy = "Never"
        grace = self._spec.get("terminationGracePeriodSeconds")
        grace_seconds = _DEFAULT_GRACE_SECONDS if grace is None else float(grace)
        end = self._clock.monotonic() + grace_seconds if self._stop_at is None else self._stop_at
        for is_sidecar in (False, True):
            self._end(
                [
                    one
                    for one in self._containers
                    if one.is_running and (one.kind == "sidecar") is is_sidecar
                ],
                end,
            )

    def _end(self, containers: Sequence[Container], end: float) -> None:
        for container in containers:
            container.end_probe()
            container.kill(signal.SIGTERM)
        is_killed = False
        while any(one.is_running for one in containers):
            if not self._wait_for_news(None if is_killed else end) and not is_killed:
                is_killed = True
                for container in containers:
                    container.kill(signal.SIGKILL)
            self._collect_exits()

    def _wait_for_news(self, end: float | None) -> bool:
        """Wait until a container ends. Returns False at the deadline."""
        with self._changed:
            while not self._has_news:
                left = None
                if end is not None:
                    end = min(end, self._stop_at) if self._stop_at is not None else end
                    left = end - self._clock.monotonic()
                    if left <= 0:
                        return False
                self._clock.wait(self._changed, left)
            self._has_news = False
            return True

    def _wait_for_stop(self) -> None:
        """Keep the logs of a terminated pod until it is deleted."""
        with self._changed:
            while self._stop_at is None:
                self._clock.wait(self._changed)

    def _clean(self) -> None:
        for container in self._containers:
            container.clean()
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._changed:
            self._is_over = True
            done, self._done = self._done, []
        for call in done:
            call()

    # Status

    def _report(self, *, waiting: tuple[str, str] = ("", "")) -> None:
        if self._is_abandoned:
            return
        status = self._status.next_status(
            self._phase(), self._containers, failure=self._failure or ("", ""), waiting=waiting
        )
        if status is not None:
            self._report_status(status)

    def _phase(self) -> str:
        if self._failure is not None:
            return "Failed"
        if not any(one.was_started for one in self._mains):
            return "Pending" if self._stop_at is None else "Failed"
        if not self._is_finished():
            return "Running"
        return "Succeeded" if all(one.has_succeeded for one in self._mains) else "Failed"


def _log_defect(name: str, error: Exception) -> tuple[str, str]:
    """Log a defect, and return the reason and message for the pod's status."""
    _LOG.error("Pod %s failed because of a defect", name, exc_info=error)
    return ("NodeError", f"This is a defect of kanister-py: {type(error).__name__}: {error}")
