"""Containers of a pod: their processes, logs and exec sessions, including restarts."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kanister_py.core.errors import BadRequest
from kanister_py.core.kube.parts import annotations_of, namespace_of
from kanister_py.core.kube.timestamps import timestamp
from kanister_py.embedded.pods.environment import (
    NODE_IP,
    ContainerConfigError,
    address_of,
    environment_of,
    expand,
    hostname_of,
)
from kanister_py.embedded.pods.launcher import Exit, Launch, Mount, Process, StartFailed, drain
from kanister_py.embedded.pods.logs import ContainerLog
from kanister_py.embedded.pods.node_setup import NodeSetup
from kanister_py.embedded.pods.readiness import ReadinessProbe
from kanister_py.embedded.pods.sessions import ProcessSession
from kanister_py.embedded.pods.volumes import Volume, VolumeUnavailable, mounts_of
from kanister_py.ports.cluster import LogOptions, LogStream
from kanister_py.ports.pods import VOLUMES_ONLY, PodSources

_CONFIG_RETRY_SECONDS: Final = 2.0
_MAX_BACKOFF_SECONDS: Final = 300.0
_CALM_SECONDS: Final = 600.0
_MESSAGE_BYTES: Final = 4096
_IDLE_COMMAND: Final = ("/bin/sh", "-c", "while :; do sleep 3600; done")


class PodContext:
    """State shared by the containers of a pod.

    `changed` protects it. Containers call `wake`, while they hold `changed`, to notify the pod.
    """

    def __init__(
        self,
        pod: Mapping[str, Any],
        setup: NodeSetup,
        sources: PodSources,
        folder: Path,
        wake: Callable[[], None],
    ) -> None:
        self.pod = pod
        self.setup = setup
        self.sources = sources
        self.folder = folder
        self.wake = wake
        self.changed = threading.Condition()
        self.volumes: Mapping[str, Volume] = {}

    def now(self) -> str:
        return timestamp(self.setup.clock.now())

    def hosts_file(self) -> Path:
        """Write /etc/hosts with the names of the Services, because there is no DNS."""
        path = self.folder / "hosts"
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines.append(f"{address_of(self.pod)} {hostname_of(self.pod)}")
        namespace = self.pod["metadata"]["namespace"]
        for service in self.sources.services():
            name, at = service["metadata"]["name"], namespace_of(service)
            names = [f"{name}.{at}", f"{name}.{at}.svc", f"{name}.{at}.svc.cluster.local"]
            lines.append(" ".join([NODE_IP, *([name] if at == namespace else []), *names]))
        with contextlib.suppress(OSError):
            lines.append(Path("/etc/hosts").read_text("utf-8", "replace"))
        path.write_text("\n".join(lines) + "\n")
        return path


class Container:
    """One container of a pod. The pod's thread starts it and records its end."""

    def __init__(self, spec: Mapping[str, Any], kind: str, shared: PodContext) -> None:
        self.spec = spec
        self.kind = kind
        """`init`, `sidecar` or `main`."""
        self.restart_policy = _restart_policy_of(kind, shared.pod["spec"])
        self.restarts = -1
        """Number of restarts; -1 before the first start."""
        self.restart_at: float | None = None
        self.state: dict[str, Any] = {}
        self.last_state: dict[str, Any] = {}
        self.ended: Exit | None = None
        self.is_ready = False
        self._shared = shared
        self._setup = shared.setup
        self._process: Process | None = None
        self._exited: Exit | None = None
        self._log: ContainerLog | None = None
        self._previous_log: ContainerLog | None = None
        self._env: Mapping[str, str] = {}
        self._message_file = Path()
        self._started_at = 0.0
        self._backoff_step = 0
        self._probe: ReadinessProbe | None = None
        self._sessions: set[ProcessSession] = set()

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def was_started(self) -> bool:
        return self.restarts >= 0

    @property
    def has_succeeded(self) -> bool:
        return self.ended is not None and self.ended.code == 0

    @property
    def may_restart(self) -> bool:
        if self.ended is None or self.restart_policy == "Always":
            return True
        return self.restart_policy == "OnFailure" and self.ended.code != 0

    # Called from any thread

    def read_log(self, options: LogOptions) -> LogStream:
        name = self._shared.pod["metadata"]["name"]
        log = self._previous_log if options.previous else self._log
        if log is not None:
            return log.read(options)
        if options.previous:
            raise BadRequest(
                f'previous terminated container "{self.name}" in pod "{name}" not found'
            )
        reason = self.state.get("waiting", {}).get("reason", "ContainerCreating")
        raise BadRequest(f'container "{self.name}" in pod "{name}" is waiting to start: {reason}')

    def exec(self, command: Sequence[str], *, has_stdin: bool) -> ProcessSession:
        """Run a command in the container. The caller holds the pod's lock."""
        if self._process is None:
            raise BadRequest(f'unable to upgrade connection: container not found ("{self.name}")')
        folder = self.spec.get("workingDir") or "/"
        launch = Launch(tuple(command), self._env, folder, is_exec=True)

        def ended(session: ProcessSession) -> None:
            with self._shared.changed:
                self._sessions.discard(session)

        session = ProcessSession(
            self._setup.launcher, launch, self._process, has_stdin=has_stdin, ended=ended
        )
        self._sessions.add(session)
        return session

    def kill(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    # Called from the thread of the pod

    def keep_running(self) -> None:
        """Start the container if it is not running and may start now."""
        now = self._setup.clock.monotonic()
        if self.is_running or not self.may_restart:
            return
        if self.restart_at is not None and now < self.restart_at:
            return
        try:
            self._start()
        except (ContainerConfigError, VolumeUnavailable) as error:
            self.state = {"waiting": {"reason": error.reason, "message": error.message}}
            self.restart_at = now + _CONFIG_RETRY_SECONDS

    def _start(self) -> None:
        launch = self._next_launch()
        self._rotate_logs()
        self.ended = self.restart_at = None
        if self.state.get("terminated"):
            self.last_state = self.state
        self._started_at = self._setup.clock.monotonic()
        self._launch(launch)

    def _next_launch(self) -> Launch:
        pod = self._shared.pod
        env = environment_of(
            pod,
            self.spec,
            self._shared.sources,
            self._setup.base_environment,
            self._setup.helpers_in_pod,
        )
        mounts = mounts_of(self.spec, self._shared.volumes)
        argv = _command_of(self.spec, env)
        self._env = env
        self.restarts += 1
        folder = self._shared.folder / "containers" / f"{self.name}-{self.restarts}"
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        self._message_file = folder / "message"
        self._message_file.touch()
        self._message_file.chmod(0o666)
        message_path = self.spec.get("terminationMessagePath") or "/dev/termination-log"
        return Launch(
            argv,
            env,
            self.spec.get("workingDir") or "/",
            hostname=hostname_of(pod),
            root=str(self._shared.folder / "root"),
            tmp=str(folder / "tmp"),
            mounts=[
                *self._setup.mounts(),
                Mount(str(self._shared.hosts_file()), "/etc/hosts"),
                *mounts,
                Mount(str(self._message_file), message_path),
            ],
            has_read_only_root=annotations_of(pod).get(VOLUMES_ONLY) == "true",
        )

    def _rotate_logs(self) -> None:
        if self._previous_log is not None:
            self._previous_log.remove()
        self._previous_log = self._log
        self._log = ContainerLog(
            self._setup.log_folder_of(self._shared.pod) / f"{self.name}-{self.restarts}",
            self._setup.clock.now,
        )

    def _launch(self, launch: Launch) -> None:
        log = self._log
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
            log.append(f"{_start_problem(launch.argv, error)}\n".encode())
            log.finish()
            text = f"failed to create containerd task: {error}"
            self._record_end(Exit(error.exit_code), "StartError", text)
            return
        except OSError:
            os.close(output)
            log.finish()
            raise
        finally:
            os.close(output_write)
            os.close(null)
        self._process = process
        self.state = {"running": {"startedAt": self._shared.now()}}
        self._watch(process, output, log)
        self._begin_probe(process)

    def _watch(self, process: Process, output: int, log: ContainerLog) -> None:
        """Copy the output to the log, and report the exit after the last byte."""
        is_open = True

        def read() -> bool:
            nonlocal is_open
            is_open = is_open and drain(output, log.append)
            return is_open

        def ended() -> bool:
            exited = process.wait_exited()
            # All output of the ended container is in the pipe now.
            size = -1
            while is_open and log.size + log.lost_bytes != size:
                size = log.size + log.lost_bytes
                read()
            log.finish()
            with self._shared.changed:
                self._exited = exited
                self._shared.wake()
            return False

        self._setup.reactor.watch(output, read)
        self._setup.reactor.watch(process.detach_control(), ended)

    def _begin_probe(self, process: Process) -> None:
        # Only exec probes are supported: with any other probe, a container is ready at once.
        probe = self.spec.get("readinessProbe") or {}
        self.is_ready = not probe.get("exec")
        if self.is_ready:
            return

        def report(is_good: bool) -> None:
            with self._shared.changed:
                # The process may have been replaced since the probe started.
                if self._process is process:
                    self.is_ready = is_good
                    self._shared.wake()

        self._probe = ReadinessProbe(probe, self._setup.clock, run=self._run, report=report)

    def _run(self, command: Sequence[str], seconds: float) -> bool:
        """Run a command in the container. Returns True if it succeeds in time."""
        try:
            with self._shared.changed:
                session = self.exec(command, has_stdin=False)
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

    # End of the container

    def collect_exit(self) -> None:
        """Record the end of the process if it has ended."""
        with self._shared.changed:
            exited, self._exited = self._exited, None
        if exited is not None:
            reason = "Completed" if exited.code == 0 else "Error"
            self._record_end(exited, reason, self._termination_message())

    def end_probe(self) -> None:
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def _record_end(self, exited: Exit, reason: str, message: str) -> None:
        # Without namespaces, processes of exec sessions outlive the container.
        if not self._setup.launcher.namespaces:
            self._end_sessions()
        now = self._shared.now()
        terminated: dict[str, Any] = {
            "exitCode": exited.code,
            "reason": reason,
            "startedAt": self.state.get("running", {}).get("startedAt", now),
            "finishedAt": now,
        }
        if exited.signal:
            terminated["signal"] = exited.signal
        if message:
            terminated["message"] = message
        with self._shared.changed:
            if self._process is not None:
                self._process.close()
                self._process = None
            self.ended = exited
            self.is_ready = False
            self.state = {"terminated": terminated}
        self.end_probe()
        if self.may_restart:
            self._plan_restart()

    def _plan_restart(self) -> None:
        """Set the time of the next start: immediately at first, then with exponential backoff."""
        now = self._setup.clock.monotonic()
        if now - self._started_at >= _CALM_SECONDS:
            self._backoff_step = 0
        delay = 0.0
        if self._backoff_step:
            delay = self._setup.restart_backoff_seconds * 2 ** (self._backoff_step - 1)
            delay = min(delay, _MAX_BACKOFF_SECONDS)
        self._backoff_step += 1
        self.restart_at = now + delay
        if delay:
            self.last_state = self.state
            message = f"back-off {delay:g}s restarting failed container={self.name}"
            self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}

    def _termination_message(self) -> str:
        words = b""
        with contextlib.suppress(OSError), self._message_file.open("rb") as file:
            words = file.read(_MESSAGE_BYTES)
        return words.decode("utf-8", "replace")

    def _end_sessions(self) -> None:
        for session in list(self._sessions):
            session.close()

    def clean(self) -> None:
        """Release all resources. Logs are removed when their last reader closes."""
        self._end_sessions()
        for log in (self._log, self._previous_log):
            if log is not None:
                log.finish()
                log.remove()


def _restart_policy_of(kind: str, pod_spec: Mapping[str, Any]) -> str:
    if kind == "sidecar":
        return "Always"
    policy = str(pod_spec.get("restartPolicy") or "Always")
    return "OnFailure" if kind == "init" and policy == "Always" else policy


def _command_of(spec: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """Return the command of a container. Without one it idles, because there is no image."""
    if not spec.get("command"):
        return list(_IDLE_COMMAND)
    words = (*spec["command"], *(spec.get("args") or ()))
    return [expand(str(word), env) for word in words]


def _start_problem(argv: Sequence[str], error: StartFailed) -> str:
    """Return the line for the log of a container that did not start."""
    is_missing = str(error).endswith("executable file not found in $PATH")
    return f"{argv[0]}: not found on this machine" if is_missing else str(error)
