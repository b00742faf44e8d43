"""The life of one pod: from its volumes to the last status a kubelet would write."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kanister_py.core.errors import BadRequest, KanisterError, UsageError
from kanister_py.core.objects.parts import annotations_of, namespace_of, status_of
from kanister_py.embedded.pods.environment import (
    NODE_IP,
    ContainerConfigError,
    address_of,
    environment_of,
    expand,
    hostname_of,
)
from kanister_py.embedded.pods.launcher import (
    Exit,
    Launch,
    Mount,
    Process,
    StartFailed,
    drain,
)
from kanister_py.embedded.pods.logs import ContainerLog
from kanister_py.embedded.pods.node_setup import NodeSetup
from kanister_py.embedded.pods.probes import Prober, RunCommand
from kanister_py.embedded.pods.sessions import ProcessSession
from kanister_py.embedded.pods.volumes import Volume, Volumes, VolumeUnavailable, mounts_of
from kanister_py.ports.cluster import LogOptions, LogStream
from kanister_py.ports.pods import PodSources, PodStatus, ReportStatus

_DEFAULT_GRACE_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)
_MAX_BACKOFF_SECONDS: Final = 300.0
_CALM_SECONDS: Final = 600.0
_MESSAGE_BYTES: Final = 4096
_FALLBACK_MESSAGE_BYTES: Final = 2048
_IDLE_COMMAND: Final = ("/bin/sh", "-c", "while :; do sleep 3600; done")


@dataclass(repr=False, eq=False)
class Container:
    """One container of a pod that runs, over all its restarts."""

    spec: Mapping[str, Any]
    kind: str
    """`init`, `sidecar` or `main`."""
    process: Process | None = None
    log: ContainerLog | None = None
    previous_log: ContainerLog | None = None
    env: dict[str, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    last_state: dict[str, Any] = field(default_factory=dict)
    restarts: int = -1
    """How often it was started again; -1 before the first start."""
    ended: Exit | None = None
    started_at: float = 0.0
    backoff_step: int = 0
    restart_at: float | None = None
    is_ready: bool = False
    has_started: bool = False
    probers: list[Prober] = field(default_factory=list)
    sessions: set[ProcessSession] = field(default_factory=set)
    message_file: Path | None = None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def was_started(self) -> bool:
        return self.restarts >= 0


class PodRun:
    """Runs one pod in a thread of its own, which alone changes and reports its status."""

    def __init__(
        self, pod: Mapping[str, Any], setup: NodeSetup, sources: PodSources, report: ReportStatus
    ) -> None:
        self._pod: dict[str, Any] = copy.deepcopy(dict(pod))
        self._spec: Mapping[str, Any] = self._pod["spec"]
        self._setup = setup
        self._sources = sources
        self._report_status = report
        self._folder = setup.folder_of(self._pod)
        self._clock = setup.clock
        self._changed = threading.Condition()
        self._exits: list[tuple[Container, Process, Exit]] = []
        self._is_dirty = False
        self._stop_at: float | None = None
        self._grace_seconds = _DEFAULT_GRACE_SECONDS
        self._is_abandoned = False
        self._is_ending = False
        self._done: list[Callable[[], None]] = []
        self._is_over = False
        self._volumes: dict[str, Volume] = {}
        self._failure: tuple[str, str] | None = None
        self._conditions: dict[str, dict[str, Any]] = {}
        self._start_time = self._now()
        self._start_monotonic = self._clock.monotonic()
        self._last_reported: PodStatus = {}
        self._containers = [
            *(
                Container(spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init")
                for spec in self._spec.get("initContainers") or ()
            ),
            *(Container(spec, "main") for spec in self._spec["containers"]),
        ]
        self._restart_policy = self._spec.get("restartPolicy") or "Always"
        self._thread = threading.Thread(
            target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True
        )

    # From any thread

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace_seconds: float, done: Callable[[], None]) -> None:
        """End the pod; the earliest end that anybody asked for counts."""
        with self._changed:
            if not self._is_over:
                at = self._clock.monotonic() + grace_seconds
                if self._stop_at is None or at < self._stop_at:
                    self._stop_at = at
                    self._grace_seconds = grace_seconds
                self._done.append(done)
                self._changed.notify_all()
                return
        done()

    def abandon(self) -> None:
        """Kill everything and report nothing more; comes back when that is done."""
        with self._changed:
            self._is_abandoned = True
            self._stop_at = self._clock.monotonic()
            self._grace_seconds = 0.0
            self._changed.notify_all()
        self._thread.join()

    def read_log(self, options: LogOptions) -> LogStream:
        with self._changed:
            container = self._find(options.container)
            log = container.previous_log if options.previous else container.log
            if log is None:
                if options.previous:
                    raise BadRequest(
                        f'previous terminated container "{container.name}" in pod '
                        f'"{self._name}" not found'
                    )
                reason = container.state.get("waiting", {}).get("reason", "ContainerCreating")
                raise BadRequest(
                    f'container "{container.name}" in pod "{self._name}" '
                    f"is waiting to start: {reason}"
                )
            return log.read(options)

    def exec(self, command: Sequence[str], *, container: str, has_stdin: bool) -> ProcessSession:
        with self._changed:
            found = self._find(container)
            process = found.process
            if process is None or self._is_over:
                raise BadRequest(
                    f'unable to upgrade connection: container not found ("{found.name}")'
                )
            launch = Launch(
                tuple(command), found.env, found.spec.get("workingDir") or "/", is_exec=True
            )

            def ended(session: ProcessSession) -> None:
                with self._changed:
                    found.sessions.discard(session)

            session = ProcessSession(
                self._setup.launcher, launch, process, has_stdin=has_stdin, ended=ended
            )
            found.sessions.add(session)
            return session

    # The pod's own thread

    @property
    def _name(self) -> str:
        return str(self._pod["metadata"]["name"])

    def _run(self) -> None:
        try:
            if self._prepare():
                self._live()
        except KanisterError as error:
            self._fail(error.reason, error.message)
        except OSError as error:
            # A full disk, a folder that went away: the pod fails, and says why.
            self._fail("NodeError", str(error))
        finally:
            self._terminate()
            if not self._is_abandoned:
                self._report()
            self._wait_for_stop()
            self._clean()

    def _prepare(self) -> bool:
        """Lay out the volumes, and wait for those that are not there yet."""
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
        (self._folder / "root").mkdir(parents=True, exist_ok=True)
        volumes = Volumes(
            self._folder / "volumes",
            self._setup.claims,
            self._sources,
            host_paths=self._setup.host_paths,
        )
        attempt = 0
        while True:
            try:
                self._volumes = volumes.prepare(self._pod)
            except VolumeUnavailable as error:
                self._report(waiting=("ContainerCreating", error.message))
                if not self._pause(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]):
                    return False
                attempt += 1
            else:
                return True

    def _live(self) -> None:
        while True:
            self._take_exits()
            if self._stop_at is not None:
                return
            if self._is_past_deadline():
                self._fail(
                    "DeadlineExceeded",
                    "Pod was active on the node longer than the specified deadline",
                )
                return
            considered_at = self._clock.monotonic()
            self._advance()
            if self._failure is not None or self._is_finished():
                return
            self._report()
            self._sleep(considered_at)

    def _advance(self) -> None:
        """Start what may run now, in order: init containers one by one, then all others."""
        for container in self._containers:
            if container.kind == "main":
                break
            if container.kind == "init" and _has_succeeded(container):
                continue
            self._keep_running(container)
            if container.kind == "init":
                if container.ended is not None and not self._may_restart(container):
                    self._fail("", "")
                return
            if not container.has_started:
                return
        for container in self._containers:
            if container.kind == "main":
                self._keep_running(container)

    def _keep_running(self, container: Container) -> None:
        if container.is_running:
            return
        if container.was_started:
            if not self._may_restart(container):
                return
            if container.restart_at is not None and self._clock.monotonic() < container.restart_at:
                return
        try:
            self._start(container)
        except (ContainerConfigError, VolumeUnavailable) as error:
            container.state = {"waiting": {"reason": error.reason, "message": error.message}}
            container.restart_at = self._clock.monotonic() + _RETRY_SECONDS[-1]

    def _may_restart(self, container: Container) -> bool:
        if self._is_ending:
            return False
        if container.kind == "sidecar" or container.ended is None:
            return True
        policy = self._restart_policy
        if container.kind == "init" and policy == "Always":
            policy = "OnFailure"
        return policy == "Always" or (policy == "OnFailure" and container.ended.code != 0)

    def _start(self, container: Container) -> None:
        helpers = self._setup.helpers_in_pod
        env = environment_of(
            self._pod, container.spec, self._sources, self._setup.given_env, helpers
        )
        mounts = mounts_of(container.spec, self._volumes, env)
        argv = _command_of(container.spec, env)
        container.restarts += 1
        number = container.restarts
        folder = self._folder / "containers" / f"{container.name}-{number}"
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        container.message_file = folder / "message"
        container.message_file.touch(mode=0o666)
        container.message_file.chmod(0o666)
        launch = Launch(
            argv,
            env,
            container.spec.get("workingDir") or "/",
            hostname=hostname_of(self._pod),
            root=str(self._folder / "root"),
            tmp=str(folder / "tmp"),
            mounts=[
                *self._setup.mounts(),
                Mount(str(self._hosts_file()), "/etc/hosts"),
                *mounts,
                Mount(
                    str(container.message_file),
                    container.spec.get("terminationMessagePath") or "/dev/termination-log",
                ),
            ],
        )
        if container.log is not None:
            if container.previous_log is not None:
                container.previous_log.remove()
            container.previous_log = container.log
        container.log = ContainerLog(
            self._setup.log_folder_of(self._pod) / f"{container.name}-{number}", self._clock.now
        )
        container.ended = None
        container.env = env
        container.restart_at = None
        if container.state.get("terminated"):
            container.last_state = container.state
        container.started_at = self._clock.monotonic()
        self._launch(container, launch)

    def _launch(self, container: Container, launch: Launch) -> None:
        log = container.log
        assert log is not None
        output, output_write = os.pipe()
        os.set_blocking(output, False)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            process = self._setup.launcher.start(
                launch, stdin=null, stdout=output_write, stderr=output_write
            )
            process.wait_started()
        except StartFailed as error:
            os.close(output)
            log.finish()
            text = f"failed to create containerd task: {error}"
            self._record_end(container, Exit(error.exit_code), "StartError", text)
            return
        except OSError:
            os.close(output)
            log.finish()
            raise
        finally:
            os.close(output_write)
            os.close(null)
        container.process = process
        container.state = {"running": {"startedAt": self._now()}}
        self._watch(container, process, output, log)
        spec = container.spec
        container.has_started = not spec.get("startupProbe")
        container.is_ready = container.has_started and not spec.get("readinessProbe")
        self._after_start(container)
        self._probe(container)

    def _watch(
        self, container: Container, process: Process, output: int, log: ContainerLog
    ) -> None:
        """Have the reader fill the log, and tell us of the end once the log has its last byte."""
        is_open = True

        def read() -> bool:
            nonlocal is_open
            is_open = is_open and drain(output, log.append)
            return is_open

        def ended() -> bool:
            exited = process.wait_exited()
            # What the container wrote before it ended is in the pipe by now.
            size = -1
            while is_open and log.size + log.lost_bytes != size:
                size = log.size + log.lost_bytes
                read()
            log.finish()
            with self._changed:
                self._exits.append((container, process, exited))
                self._changed.notify_all()
            return False

        self._setup.reactor.watch(output, read)
        self._setup.reactor.watch(process.detach_control(), ended)

    def _after_start(self, container: Container) -> None:
        hook = (container.spec.get("lifecycle") or {}).get("postStart")
        if hook and not self._run_hook(container, hook, _DEFAULT_GRACE_SECONDS):
            self._kill(container, signal.SIGKILL)

    def _probe(self, container: Container) -> None:
        def run(command: Sequence[str], seconds: float) -> bool:
            return self._run_in(container, command, seconds)

        process = container.process

        def tell_start(good: bool) -> None:
            with self._changed:
                if container.process is not process:
                    # It was asked of one that has ended; another may run by now.
                    return
                if not good:
                    self._kill(container, signal.SIGTERM)
                    return
                container.has_started = True
                container.is_ready = not container.spec.get("readinessProbe")
                self._start_probers(container, run, process)
                self._touch()

        if startup := container.spec.get("startupProbe"):
            container.probers.append(self._prober(container, startup, run, tell_start))
        else:
            self._start_probers(container, run, process)

    def _start_probers(
        self,
        container: Container,
        run: Callable[[Sequence[str], float], bool],
        process: Process | None,
    ) -> None:
        def tell_ready(good: bool) -> None:
            with self._changed:
                if container.process is process:
                    container.is_ready = good
                    self._touch()

        def tell_alive(good: bool) -> None:
            with self._changed:
                if not good and container.process is process:
                    self._kill(container, signal.SIGTERM)

        for name, tell in (("readinessProbe", tell_ready), ("livenessProbe", tell_alive)):
            if probe := container.spec.get(name):
                container.probers.append(self._prober(container, probe, run, tell))

    def _prober(
        self,
        container: Container,
        probe: Mapping[str, Any],
        run: RunCommand,
        tell: Callable[[bool], None],
    ) -> Prober:
        return Prober(probe, container.spec, run, tell, self._clock, address_of(self._pod))

    def _take_exits(self) -> None:
        with self._changed:
            exits, self._exits = self._exits, []
        for container, process, exited in exits:
            if container.process is not process:
                continue
            reason = "Completed" if exited.code == 0 else "Error"
            self._record_end(container, exited, reason, self._message_of(container, exited))

    def _record_end(self, container: Container, exited: Exit, reason: str, message: str) -> None:
        for session in list(container.sessions):
            # Without namespaces, nothing else would end what was started inside.
            if not self._setup.launcher.namespaces:
                session.close()
        now = self._now()
        started = container.state.get("running", {}).get("startedAt", now)
        terminated: dict[str, Any] = {
            "exitCode": exited.code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": now,
        }
        if exited.signal:
            terminated["signal"] = exited.signal
        if message:
            terminated["message"] = message
        with self._changed:
            if container.process is not None:
                container.process.close()
                container.process = None
            container.ended = exited
            container.is_ready = container.has_started = False
            container.state = {"terminated": terminated}
            # Last: one that has just found out that it started may bring in more of them.
            for prober in container.probers:
                prober.stop()
            container.probers.clear()
        self._plan_restart(container)

    def _plan_restart(self, container: Container) -> None:
        """Say when a container that ended may start again: at once first, then ever later."""
        if not self._may_restart(container):
            return
        now = self._clock.monotonic()
        if now - container.started_at >= _CALM_SECONDS:
            container.backoff_step = 0
        delay = 0.0
        if container.backoff_step:
            delay = self._setup.restart_backoff_seconds * 2 ** (container.backoff_step - 1)
            delay = min(delay, _MAX_BACKOFF_SECONDS)
        container.backoff_step += 1
        container.restart_at = now + delay
        if delay:
            container.last_state = container.state
            container.state = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"back-off {delay:g}s restarting failed container={container.name}",
                }
            }

    def _message_of(self, container: Container, exited: Exit) -> str:
        told = b""
        if container.message_file is not None:
            with contextlib.suppress(OSError), container.message_file.open("rb") as file:
                told = file.read(_MESSAGE_BYTES)
        falls_back = container.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not told and falls_back and exited.code and container.log is not None:
            told = container.log.tail(_FALLBACK_MESSAGE_BYTES)
        return told.decode("utf-8", "replace")

    def _is_past_deadline(self) -> bool:
        deadline = self._spec.get("activeDeadlineSeconds")
        return deadline is not None and (
            self._clock.monotonic() - self._start_monotonic >= float(deadline)
        )

    def _is_finished(self) -> bool:
        return all(
            one.ended is not None and not self._may_restart(one)
            for one in self._containers
            if one.kind == "main"
        )

    def _fail(self, reason: str, message: str) -> None:
        self._failure = (reason, message)

    def _sleep(self, considered_at: float) -> None:
        """Wait until something happens, or the next thing is due.

        What was due at `considered_at` was looked at already, and waits for something else.
        """
        restarts = [one.restart_at for one in self._containers if not one.is_running]
        due = [at for at in restarts if at is not None and at > considered_at]
        deadline = self._spec.get("activeDeadlineSeconds")
        if deadline is not None:
            due.append(self._start_monotonic + float(deadline))
        with self._changed:
            while not (self._exits or self._is_dirty or self._stop_at is not None):
                left = min(due) - self._clock.monotonic() if due else None
                if left is not None and left <= 0:
                    break
                self._clock.wait(self._changed, left)
            self._is_dirty = False

    def _pause(self, seconds: float) -> bool:
        """Let some time pass; false if the pod is to end."""
        until = self._clock.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)
            return self._stop_at is None

    def _touch(self) -> None:
        self._is_dirty = True
        self._changed.notify_all()

    # The end

    def _terminate(self) -> None:
        """End what still runs: the containers first, their sidecars after them."""
        self._is_ending = True
        if self._stop_at is None:
            grace = self._spec.get("terminationGracePeriodSeconds")
            self._grace_seconds = _DEFAULT_GRACE_SECONDS if grace is None else float(grace)
            end = self._clock.monotonic() + self._grace_seconds
        else:
            end = self._stop_at
        for kinds in (("main", "init"), ("sidecar",)):
            running = [one for one in self._containers if one.kind in kinds and one.is_running]
            self._end(running, end)

    def _end(self, containers: Sequence[Container], end: float) -> None:
        for container in containers:
            for prober in container.probers:
                prober.stop()
            hook = (container.spec.get("lifecycle") or {}).get("preStop")
            left = end - self._clock.monotonic()
            if hook and left > 0:
                self._run_hook(container, hook, left)
            self._kill(container, _stop_signal(container.spec))
        is_killed = False
        while any(one.is_running for one in containers):
            with self._changed:
                while not self._exits:
                    end = min(end, self._stop_at) if self._stop_at is not None else end
                    left = end - self._clock.monotonic()
                    if left <= 0 and not is_killed:
                        break
                    self._clock.wait(self._changed, None if is_killed else left)
            if not self._exits and not is_killed:
                is_killed = True
                for container in containers:
                    self._kill(container, signal.SIGKILL)
            self._take_exits()

    def _wait_for_stop(self) -> None:
        """Keep the logs of a pod that has ended until somebody deletes it."""
        with self._changed:
            while self._stop_at is None:
                self._clock.wait(self._changed)

    def _clean(self) -> None:
        for container in self._containers:
            for session in list(container.sessions):
                session.close()
            for log in (container.log, container.previous_log):
                if log is not None:
                    log.finish()
                    log.remove()
        # A reader may still hold a log: then that file goes when the reader does.
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._changed:
            self._is_over = True
            done, self._done = self._done, []
        for call in done:
            call()

    def _kill(self, container: Container, number: int) -> None:
        process = container.process
        if process is not None:
            process.send_signal(number)

    def _run_hook(self, container: Container, hook: Mapping[str, Any], seconds: float) -> bool:
        if command := hook.get("exec"):
            return self._run_in(container, command["command"], seconds)
        if nap := hook.get("sleep"):
            self._pause(min(float(nap["seconds"]), seconds))
        return True

    def _run_in(self, container: Container, command: Sequence[str], seconds: float) -> bool:
        try:
            session = self.exec(command, container=container.name, has_stdin=False)
        except BadRequest:
            return False
        with session:
            timer = threading.Timer(seconds, session.close)
            timer.daemon = True
            timer.start()
            for _ in session:
                pass
            timer.cancel()
            return session.exit_code == 0

    # The status

    def _report(self, *, waiting: tuple[str, str] = ("", "")) -> None:
        status = self._status(waiting)
        if status != self._last_reported and not self._is_abandoned:
            self._last_reported = copy.deepcopy(status)
            self._report_status(status)

    def _status(self, waiting: tuple[str, str]) -> PodStatus:
        phase = self._phase()
        inits = [one for one in self._containers if one.kind != "main"]
        mains = [one for one in self._containers if one.kind == "main"]
        is_initialized = all(
            _has_succeeded(one) if one.kind == "init" else one.was_started for one in inits
        )
        is_over = phase in {"Succeeded", "Failed"}
        is_ready = not is_over and all(one.is_ready for one in mains)
        why = "PodCompleted" if phase == "Succeeded" else "PodFailed" if is_over else ""
        unready = [one.name for one in mains if not one.is_ready]
        self._set_condition("PodScheduled", is_true=True)
        self._set_condition(
            "Initialized",
            is_true=is_initialized,
            reason="" if is_initialized else "ContainersNotInitialized",
        )
        for name in ("ContainersReady", "Ready"):
            self._set_condition(
                name,
                is_true=is_ready,
                reason="" if is_ready else why or "ContainersNotReady",
                message="" if is_ready or why else f"containers with unready status: {unready}",
            )
        fallback = (
            waiting if waiting[0] else ("PodInitializing" if inits else "ContainerCreating", "")
        )
        status: PodStatus = {
            "phase": phase,
            "conditions": [dict(one) for one in self._conditions.values()],
            "hostIP": NODE_IP,
            "podIP": address_of(self._pod),
            "podIPs": [{"ip": address_of(self._pod)}],
            "startTime": self._start_time,
            # What an API server has said of a pod, nobody may change.
            "qosClass": status_of(self._pod).get("qosClass") or "BestEffort",
            "containerStatuses": [_container_status(one, fallback) for one in mains],
        }
        if inits:
            status["initContainerStatuses"] = [_container_status(one, fallback) for one in inits]
        if self._failure is not None and self._failure[0]:
            status["reason"], status["message"] = self._failure
        return status

    def _phase(self) -> str:
        mains = [one for one in self._containers if one.kind == "main"]
        if self._failure is not None:
            return "Failed"
        if not any(one.was_started for one in mains):
            return "Pending" if self._stop_at is None else "Failed"
        if self._is_finished():
            codes = {one.ended.code for one in mains if one.ended is not None}
            return "Succeeded" if codes == {0} else "Failed"
        return "Running"

    def _set_condition(
        self, name: str, *, is_true: bool, reason: str = "", message: str = ""
    ) -> None:
        value = "True" if is_true else "False"
        old = self._conditions.get(name)
        changed = self._now() if old is None or old["status"] != value else None
        condition = {
            "type": name,
            "status": value,
            "lastProbeTime": None,
            "lastTransitionTime": changed or (old or {})["lastTransitionTime"],
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        self._conditions[name] = condition

    def _hosts_file(self) -> Path:
        """Write which names mean this machine: there is no DNS that could tell."""
        path = self._folder / "hosts"
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines.append(f"{address_of(self._pod)} {hostname_of(self._pod)}")
        namespace = self._pod["metadata"]["namespace"]
        for service in self._sources.services():
            name, at = service["metadata"]["name"], namespace_of(service)
            names = [f"{name}.{at}", f"{name}.{at}.svc", f"{name}.{at}.svc.cluster.local"]
            lines.append(" ".join([NODE_IP, *([name] if at == namespace else []), *names]))
        lines += [
            " ".join([alias["ip"], *(alias.get("hostnames") or ())])
            for alias in self._spec.get("hostAliases") or ()
        ]
        with contextlib.suppress(OSError):
            lines.append(Path("/etc/hosts").read_text("utf-8", "replace"))
        path.write_text("\n".join(lines) + "\n")
        return path

    def _find(self, name: str) -> Container:
        if not name:
            mains = [one for one in self._containers if one.kind == "main"]
            if len(mains) > 1:
                named = annotations_of(self._pod).get("kubectl.kubernetes.io/default-container")
                if not named:
                    choices = [one.name for one in mains]
                    raise BadRequest(
                        f"a container name must be specified for pod {self._name}, "
                        f"choose one of: {choices}"
                    )
                return self._find(named)
            return mains[0]
        for container in self._containers:
            if container.name == name:
                return container
        raise BadRequest(f"container {name} is not valid for pod {self._name}")

    def _now(self) -> str:
        return _timestamp(self._clock.now())


def _timestamp(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _command_of(spec: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """Say what a container runs; without a command it idles, since there is no image to ask."""
    if not spec.get("command"):
        return list(_IDLE_COMMAND)
    words = (*spec["command"], *(spec.get("args") or ()))
    return [expand(str(word), env) for word in words]


def _has_succeeded(container: Container) -> bool:
    return container.ended is not None and container.ended.code == 0


def _stop_signal(spec: Mapping[str, Any]) -> int:
    name = (spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal, name, signal.SIGTERM))


def _container_status(container: Container, fallback: tuple[str, str]) -> dict[str, Any]:
    state = container.state
    if not state:
        reason, message = fallback
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
    image = container.spec.get("image") or ""
    status = {
        "name": container.name,
        "image": image,
        "imageID": "",
        "ready": container.is_ready or (container.kind == "init" and _has_succeeded(container)),
        "started": container.has_started and container.is_running,
        "restartCount": max(0, container.restarts),
        "state": copy.deepcopy(state),
        "lastState": copy.deepcopy(container.last_state),
    }
    if container.restarts >= 0:
        status["containerID"] = f"process://{container.name}-{container.restarts}"
    return status
