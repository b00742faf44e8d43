"""Scripted pods, whose commands have scripted results instead of being run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from typing import Any, Final, TypeAlias

from kanister_py.core.errors import BadRequest
from kanister_py.core.kube.parts import owners_of
from kanister_py.core.kube.timestamps import timestamp
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Channel, ExecChunk, ExecSession, LogOptions, LogStream, Stream
from kanister_py.ports.pods import PodRunner, PodSources, PodStatus, ReportStatus

_NOT_SCRIPTED: Final = 127


@dataclass(frozen=True, slots=True)
class Command:
    """Command that a pod runs, from its spec or by exec."""

    pod: str
    """`namespace/name`"""
    container: str
    image: str
    words: tuple[str, ...]
    is_exec: bool = False

    @property
    def text(self) -> str:
        """All words in one text, which scripts match."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Answer:
    """Output and exit of a command. With `stays`, it runs until its pod is deleted."""

    prints: str = ""
    complains: str = ""
    """Output on stderr."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs, as with `kando output`."""
    exit_code: int = 0
    stays: bool = False

    @property
    def stdout(self) -> bytes:
        text = self.prints if self.prints.endswith("\n") or not self.prints else f"{self.prints}\n"
        for key, value in self.outputs.items():
            line = json.dumps({"key": key, "value": value}, separators=(",", ":"))
            text += f"###Phase-output###: {line}\n"
        return text.encode()

    @property
    def stderr(self) -> bytes:
        text = self.complains
        return (text if text.endswith("\n") or not text else f"{text}\n").encode()


Reply: TypeAlias = Answer | Callable[[Command], Answer]


@dataclass(slots=True)
class _Row:
    """Row of a script: pattern of commands, and their reply."""

    pattern: re.Pattern[str]
    reply: Reply
    left: int | None
    """Remaining number of uses; None for unlimited."""


class Script:
    """Replies to commands. The first matching row that is not used up applies."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._lock = Lock()
        self.otherwise: Reply = _not_scripted

    def add(self, pattern: str, reply: Reply, times: int | None = None) -> None:
        """Set the reply to commands whose text matches the regular expression."""
        self._rows.append(_Row(re.compile(pattern, re.DOTALL), reply, times))

    def answer(self, command: Command) -> Answer:
        """Return the answer to a command, and count the use of its row."""
        with self._lock:
            reply = self._find(command)
        return reply if isinstance(reply, Answer) else reply(command)

    def _find(self, command: Command) -> Reply:
        for row in self._rows:
            if row.left != 0 and row.pattern.search(command.text):
                if row.left is not None:
                    row.left -= 1
                return row.reply
        return self.otherwise


def _not_scripted(command: Command) -> Answer:
    why = f"No script matches this command: {command.text}"
    return Answer(complains=why, exit_code=_NOT_SCRIPTED)


class ScriptedPods:
    """Pod runner that takes the results of commands from a script.

    Init containers run first, in order. Containers of pods with restartPolicy Always keep running
    like servers, unless a script ends them.
    """

    def __init__(self, script: Script, clock: Clock) -> None:
        self._script = script
        self._clock = clock
        self._lock = Lock()
        self._pods: dict[str, _ScriptedPod] = {}
        self._is_closed = False

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:  # noqa: ARG002 - scripts have no volumes
        uid = str(pod["metadata"]["uid"])
        with self._lock:
            if self._is_closed or uid in self._pods:
                return
            scripted_pod = self._pods[uid] = _ScriptedPod(pod, self._script, self._clock, report)
        Thread(target=scripted_pod.play, name=f"pod-{pod['metadata']['name']}", daemon=True).start()

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:  # noqa: ARG002 - scripted pods end at once
        with self._lock:
            scripted_pod = self._pods.pop(uid, None)
        if scripted_pod is not None:
            scripted_pod.end()
        done()

    def is_known(self, uid: str) -> bool:
        return uid in self._pods

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        return self._pod(uid).read_log(options)

    def exec(
        self,
        uid: str,
        command: Sequence[str],
        *,
        container: str,
        has_stdin: bool,  # noqa: ARG002 - scripts do not read input
    ) -> ExecSession:
        program = self._pod(uid).command(container, command, is_exec=True)
        return _ScriptedSession(self._script.answer(program))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            pods = list(self._pods.values())
            self._pods.clear()
        for scripted_pod in pods:
            scripted_pod.end()

    def _pod(self, uid: str) -> _ScriptedPod:
        scripted_pod = self._pods.get(uid)
        if scripted_pod is None:
            raise BadRequest("the pod does not run on this node")
        return scripted_pod


class _ScriptedPod:
    """One pod, until its last status."""

    def __init__(
        self, pod: Mapping[str, Any], script: Script, clock: Clock, report: ReportStatus
    ) -> None:
        self._pod = pod
        self._script = script
        self._clock = clock
        self._report = report
        self._changed = Condition()
        self._logs: dict[str, bytes] = {}
        self._codes: dict[str, int | None] = {}
        """Exit codes of containers; None for running ones."""
        self._is_over = False
        self._is_reported = False
        """Whether the status of the containers has been reported to the cluster."""

    def play(self) -> None:
        spec = self._pod["spec"]
        for container in spec.get("initContainers") or ():
            self._start(container)
            if self._codes[container["name"]]:
                self._report_status()
                return
        for container in spec["containers"]:
            self._start(container)
        self._report_status()

    def _start(self, container: Mapping[str, Any]) -> None:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        is_server = self._pod["spec"].get("restartPolicy", "Always") == "Always"
        if is_server or not words:
            # The command of the image: a server keeps running, other programs end without output.
            answer = Answer(stays=is_server)
        else:
            answer = self._script.answer(self.command(container["name"], words))
        with self._changed:
            self._logs[container["name"]] = answer.stdout + answer.stderr
            self._codes[container["name"]] = None if answer.stays else answer.exit_code
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def command(self, container: str, words: Sequence[str], *, is_exec: bool = False) -> Command:
        """Return a command of the pod. Without a container's name, of the first container."""
        return _command_in(self._pod, self._container(container), words, is_exec=is_exec)

    def read_log(self, options: LogOptions) -> LogStream:
        name = self._container(options.container)
        with self._changed:
            if name not in self._logs:
                raise BadRequest(f"container {name} has not started")
        return _ScriptedLog(self, name, options)

    def log_of(self, container: str, tail_lines: int | None) -> bytes:
        text = self._logs[container]
        if tail_lines is None:
            return text
        return b"".join(text.splitlines(keepends=True)[-tail_lines:] if tail_lines else [])

    def wait_for_end_of(self, container: str, is_closed: Callable[[], bool]) -> None:
        """Wait until a container has ended, its pod is deleted, or the reader is closed."""
        with self._changed:
            # Not before the cluster has the status: clients that find a running container after
            # the end of the log would wait on the fast clock of the stage and read the log again.
            while not (self._is_over or is_closed() or self._has_ended(container)):
                self._changed.wait()

    def _has_ended(self, container: str) -> bool:
        return self._is_reported and self._codes[container] is not None

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _container(self, name: str) -> str:
        """Return the name of a container; by default that of the first one."""
        spec = self._pod["spec"]
        names = [str(container["name"]) for container in spec["containers"]]
        inits = [str(container["name"]) for container in spec.get("initContainers") or ()]
        if not name:
            return names[0]
        if name not in names + inits:
            pod = self._pod["metadata"]["name"]
            raise BadRequest(f"container {name} is not valid for pod {pod}")
        return name

    def _report_status(self) -> None:
        if not self._is_over:
            self._report(self._status())
        with self._changed:
            self._is_reported = True
            self._changed.notify_all()

    def _status(self) -> PodStatus:
        now = timestamp(self._clock.now())
        spec = self._pod["spec"]
        mains = [container["name"] for container in spec["containers"]]
        codes = [self._codes.get(name) for name in mains if name in self._codes]
        has_failed = any(self._codes.get(name) for name in self._codes)
        if len(codes) == len(mains) and None in codes:
            phase = "Running"
        else:
            phase = "Failed" if has_failed else "Succeeded"
        is_ready = "True" if phase == "Running" else "False"
        status: PodStatus = {
            "phase": phase,
            "startTime": now,
            "podIP": "127.0.0.1",
            "conditions": [
                {"type": name, "status": is_ready, "lastTransitionTime": now}
                for name in ("Ready", "ContainersReady")
            ],
            "containerStatuses": [
                self._container_status(container, now) for container in spec["containers"]
            ],
        }
        if inits := spec.get("initContainers"):
            status["initContainerStatuses"] = [self._container_status(init, now) for init in inits]
        return status

    def _container_status(self, container: Mapping[str, Any], now: str) -> dict[str, Any]:
        name = container["name"]
        state: dict[str, Any]
        if name not in self._codes:
            state = {"waiting": {"reason": "PodInitializing"}}
        elif (code := self._codes[name]) is None:
            state = {"running": {"startedAt": now}}
        else:
            reason = "Error" if code else "Completed"
            ended = {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}
            state = {"terminated": ended}
        return {
            "name": name,
            "image": str(container.get("image", "")),
            "imageID": "",
            "ready": "running" in state,
            "started": "running" in state,
            "restartCount": 0,
            "state": state,
        }


class _ScriptedLog(Stream):
    """Output of a container. Readers that follow it stay until the container ends."""

    def __init__(self, pod: _ScriptedPod, container: str, options: LogOptions) -> None:
        self._pod = pod
        self._container = container
        self._options = options
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        text = self._pod.log_of(self._container, self._options.tail_lines)
        if text:
            yield text
        if self._options.follow:
            self._pod.wait_for_end_of(self._container, lambda: self._is_closed)

    def close(self) -> None:
        self._is_closed = True
        self._pod.wake()


class _ScriptedSession(Stream):
    """Exec session: all output, then the exit code."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.exit_code: int | None = None

    def __iter__(self) -> Iterator[ExecChunk]:
        for channel, text in (
            (Channel.STDOUT, self._answer.stdout),
            (Channel.STDERR, self._answer.stderr),
        ):
            if text:
                yield ExecChunk(channel, text)
        self.exit_code = self._answer.exit_code

    def write_stdin(self, data: bytes) -> None:
        """Ignore the input."""

    def close_stdin(self) -> None:
        """Ignore the end of the input."""

    def close(self) -> None:
        """Do nothing: the session holds no resources."""


class RecordedPods:
    """Pod runner that records the pods and commands of another runner."""

    def __init__(self, runner: PodRunner) -> None:
        self._runner = runner
        self._lock = Lock()
        self._places: dict[str, Mapping[str, Any]] = {}
        self.pods: list[Mapping[str, Any]] = []
        self.commands: list[Command] = []

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        uid = str(pod["metadata"]["uid"])
        with self._lock:
            is_new = uid not in self._places
            self._places[uid] = pod
            if is_new and not is_controlled(pod):
                self.pods.append(pod)
                self.commands.extend(commands_of(pod))
        self._runner.start(pod, sources, report)

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:
        self._runner.stop(uid, grace_seconds, done)

    def is_known(self, uid: str) -> bool:
        return self._runner.is_known(uid)

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        return self._runner.read_log(uid, options)

    def exec(
        self, uid: str, command: Sequence[str], *, container: str, has_stdin: bool
    ) -> ExecSession:
        pod = self._places.get(uid)
        if pod is not None:
            name = container or str(pod["spec"]["containers"][0]["name"])
            with self._lock:
                self.commands.append(_command_in(pod, name, command, is_exec=True))
        return self._runner.exec(uid, command, container=container, has_stdin=has_stdin)

    def close(self) -> None:
        self._runner.close()


def commands_of(pod: Mapping[str, Any]) -> Iterator[Command]:
    """Yield the commands of the containers of a pod."""
    for container in _containers_of(pod):
        words = (*(container.get("command") or ()), *(container.get("args") or ()))
        yield _command_in(pod, str(container["name"]), words)


def _command_in(
    pod: Mapping[str, Any], container: str, words: Sequence[str], *, is_exec: bool = False
) -> Command:
    metadata = pod["metadata"]
    images = {
        container["name"]: str(container.get("image", "")) for container in _containers_of(pod)
    }
    place = f"{metadata['namespace']}/{metadata['name']}"
    return Command(place, container, images.get(container, ""), tuple(map(str, words)), is_exec)


def _containers_of(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def is_controlled(obj: Mapping[str, Any]) -> bool:
    """Say whether an object belongs to another one that makes and removes it."""
    return any(owner.get("controller") for owner in owners_of(obj))
