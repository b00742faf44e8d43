"""Running pod: waiting for its start and its end, and reading its output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from math import ceil
from threading import Timer
from typing import Any, Final

from kanister_py.core.errors import (
    BadRequest,
    CommandFailed,
    KanisterError,
    NotFound,
    TransientApiError,
    UsageError,
    WaitTimedOut,
)
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.parts import condition_of, spec_of, status_of
from kanister_py.core.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from kanister_py.gotemplate.durations import SECOND, format_duration
from kanister_py.ports.cluster import KubeObject, LogOptions, find
from kanister_py.ports.function import PhaseContext


class PodNotReady(UsageError, reason="PodNotReady"):
    """Error for a pod that did not start in time, or that cannot start."""


MAIN_CONTAINER: Final = "container"
_READY_SECONDS: Final = 15 * 60.0
_READY_MINUTES_VARIABLE: Final = "TIMEOUT_WORKER_POD_READY"
_ENDED: Final = ("Succeeded", "Failed")
_OUT_OF_ROOM: Final = ("OutOfmemory", "OutOfcpu")
# The kubelet reports the end of a container a moment after the last byte of its log.
_END_SEEN_SECONDS: Final = 5.0
_RECONNECT_SECONDS: Final = 1.0
_MOST_RECONNECTS_AFTER_END: Final = 5
_OVERLAP_SECONDS: Final = 2
_LONGEST_HELD_BYTES: Final = 1024 * 1024
# The kubelet retries in these states, but a person has to fix the cause first.
_STUCK: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)


class RunningPod:
    """Pod that a function follows. Every wait ends if the phase is cancelled."""

    def __init__(self, ctx: PhaseContext, pod: KubeObject, timeout: str = "") -> None:
        self._ctx = ctx
        self._pod = pod
        self._name: str = pod["metadata"]["name"]
        self._namespace: str = pod["metadata"]["namespace"]
        self._limit = TimeLimit(ctx, timeout, _created_at(pod, ctx))
        self._is_node_unresponsive = False
        self._logged_waits: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def main_container(self) -> str:
        """Return the name of the main container: `container`, or the first one if there is none."""
        names = [container["name"] for container in self._pod["spec"]["containers"]]
        return MAIN_CONTAINER if MAIN_CONTAINER in names else str(names[0])

    # Start

    def wait_until_ready(self, *, fails_early: bool = False) -> None:
        """Wait until the pod is no longer pending.

        With `fails_early`, raises at once for a pod that cannot start unless a person fixes
        the cause.
        """
        try:
            self._wait(
                lambda: self._is_ready(fails_early=fails_early), ready_seconds(), self._not_ready
            )
        except PodNotReady as error:
            raise PodNotReady(f"Failed while waiting for Pod to be ready: {error}") from error

    def _is_ready(self, *, fails_early: bool) -> bool:
        pod = self._read()
        status = status_of(pod)
        if status.get("phase", "Pending") != "Pending":
            return True
        if status.get("reason") in _OUT_OF_ROOM:
            raise PodNotReady(f"Pod stuck in pending state, reason: {status['reason']}")
        if fails_early:
            if why := _text_of(_stuck_part(pod)):
                raise PodNotReady(why)
        else:
            self._check_node(pod)
        self._check_volumes(pod)
        self._log_start_reason(pod)
        return False

    def _log_start_reason(self, pod: KubeObject) -> None:
        """Log once the reason, given by the node or the scheduler, why a pod does not start."""
        blocker = _waiting_part(pod)
        why = _text_of(blocker)
        # A reason without a message is normal for a pod that is about to start.
        if blocker[1].get("message") and why not in self._logged_waits:
            self._logged_waits.add(why)
            self._ctx.log(f"Pod {self._namespace}/{self._name}: {why}")

    def _check_node(self, pod: KubeObject) -> None:
        name = pod["spec"].get("nodeName", "")
        node = self._ctx.find_if_allowed(NODES, name) if name else None
        if node is None:
            return
        if spec_of(node).get("unschedulable"):
            raise PodNotReady(f"Node {name} is unschedulable")
        ready = condition_of(node, "Ready")
        if ready and ready.get("status") != "True":
            raise PodNotReady(f"Node {name} is not ready")

    def _check_volumes(self, pod: KubeObject) -> None:
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
            if claim:
                self._check_claim(claim)

    def _check_claim(self, name: str) -> None:
        # An account without permission to read nodes or volumes may still run pods.
        find = self._ctx.find_if_allowed
        claim = find(PERSISTENT_VOLUME_CLAIMS, name, namespace=self._namespace)
        if claim is None:
            return
        if status_of(claim).get("phase") == "Lost":
            raise PodNotReady(f"PVC {name} is lost: the volume it was bound to is gone")
        bound_to = spec_of(claim).get("volumeName", "")
        volume = find(PERSISTENT_VOLUMES, bound_to) if bound_to else None
        if volume is not None and status_of(volume).get("phase") == "Failed":
            raise PodNotReady(f"PV {bound_to}, to which PVC {name} is bound, has failed")

    def _not_ready(self, seconds: float) -> KanisterError:
        limit = format_duration(int(seconds * SECOND))
        message = f"Pod did not transition into running state. Timeout: {limit}"
        with suppress(KanisterError):
            if why := _text_of(_waiting_part(self._read())):
                message = f"{message}, {why}"
        return PodNotReady(message)

    # Output

    def read_outputs(self, container: str = "") -> dict[str, str]:
        """Log both output streams of a container until it ends, and return its outputs."""
        return self._ctx.read_outputs(self._follow_log(container or self.main_container))

    def _follow_log(self, container: str) -> Iterator[bytes]:
        """Yield the log in complete lines, reconnecting if necessary.

        After a reconnect, the last lines may be repeated: repeated outputs have the same
        values, and a duplicate line in a log is better than a missing one.
        """
        held, since, tries_after_end = b"", None, 0
        while self._wait_for_start(container):
            seen_at = self._ctx.now()
            is_lost = False
            try:
                for chunk in self._stream(container, since):
                    seen_at = self._ctx.now()
                    lines, held = _whole_lines(held + chunk)
                    if lines:
                        yield lines
                    since = seen_at
            except (TransientApiError, BadRequest):
                is_lost = True
                if self._has_ended(container):
                    tries_after_end += 1
                if tries_after_end >= _MOST_RECONNECTS_AFTER_END:
                    if self._has_failed():
                        # The result of the container is a better error than its missing log.
                        return
                    raise
            self._limit.check()
            self._ctx.check_cancelled()
            if is_lost:
                self._ctx.sleep(_RECONNECT_SECONDS)
            elif self._ends_soon(container):
                break
            held = b""
        if held:
            yield held

    def _stream(self, container: str, since: datetime | None) -> Iterator[bytes]:
        options = LogOptions(
            container=container,
            follow=True,
            since_seconds=None
            if since is None
            else ceil((self._ctx.now() - since).total_seconds()) + _OVERLAP_SECONDS,
        )
        try:
            stream = self._ctx.cluster.read_log(
                self._name, namespace=self._namespace, options=options
            )
        except NotFound:
            # The missing pod is a better error than its missing log.
            self._read()
            raise
        with stream, self._ctx.on_cancel(stream.close), self._limit.closing(stream.close):
            yield from stream

    def _wait_for_start(self, container: str) -> bool:
        """Wait until a container has a log. Returns False if it will never have one."""

        def has_begun() -> str:
            status = status_of(self._read())
            state = _state_of(status, container)
            if "running" in state or "terminated" in state:
                return "yes"
            return "no" if status.get("phase") in _ENDED else ""

        return bool(self._wait(has_begun, ready_seconds(), self._not_ready) == "yes")

    def _has_ended(self, container: str) -> bool:
        status = status_of(self._read())
        return status.get("phase") in _ENDED or "terminated" in _state_of(status, container)

    def _has_failed(self) -> bool:
        return bool(status_of(self._read()).get("phase") == "Failed")

    def _ends_soon(self, container: str) -> bool:
        """Return True if the log ended because the container ended."""
        try:
            return bool(
                self._ctx.wait(
                    lambda: self._has_ended(container), timeout_seconds=_END_SEEN_SECONDS
                )
            )
        except WaitTimedOut:
            return False

    # End

    def wait_for_end(self) -> None:
        """Wait until the pod has ended, and raise if it failed."""
        status = self._wait(self._end)
        if status.get("phase") != "Succeeded":
            raise _failure_of(status)

    def _end(self) -> Mapping[str, Any] | None:
        status: Mapping[str, Any] = status_of(self._read())
        return status if status.get("phase") in _ENDED else None

    def _read(self) -> KubeObject:
        pod = find(self._ctx.cluster, PODS, self._name, self._namespace)
        if pod is None or pod["metadata"].get("uid") != self._pod["metadata"].get("uid"):
            which = f"Pod {self._namespace}/{self._name}"
            raise UsageError(f"{which} was deleted before its command had ended", reason="PodGone")
        self._log_unresponsive_node(pod)
        return pod

    def _log_unresponsive_node(self, pod: KubeObject) -> None:
        """Log when the pod's node stops responding, and when it responds again."""
        status = status_of(pod)
        is_stranded = _is_node_unresponsive(pod)
        if is_stranded is self._is_node_unresponsive or status.get("phase") in _ENDED:
            return
        self._is_node_unresponsive = is_stranded
        which = f"Pod {self._namespace}/{self._name}"
        node = pod["spec"].get("nodeName") or "unknown"
        if is_stranded:
            detail = f" ({status['message']})" if status.get("message") else ""
            self._ctx.log(
                f"{which} is on node {node}, which does not respond{detail}: the phase continues "
                "when the node is back, and fails when the pod is deleted or the phase times out"
            )
        else:
            self._ctx.log(f"{which} is on node {node}, which responds again")

    def _wait(
        self,
        until: Callable[[], Any],
        timeout_seconds: float | None = None,
        failure: Callable[[float], KanisterError] | None = None,
    ) -> Any:
        left = self._limit.left()
        seconds = min(
            (timeout for timeout in (timeout_seconds, left) if timeout is not None), default=None
        )
        try:
            return self._ctx.wait(until, timeout_seconds=seconds, what="the pod")
        except WaitTimedOut as error:
            self._limit.check()
            if failure is None or timeout_seconds is None:
                raise
            raise failure(timeout_seconds) from error


class TimeLimit:
    """Time limit of an operation; without `timeout` there is none."""

    def __init__(self, ctx: PhaseContext, timeout: str, since: datetime | None = None) -> None:
        self._ctx = ctx
        self._seconds = parse_seconds(timeout) if timeout else None
        started = ctx.now() if since is None else since
        self._due = None if self._seconds is None else started + timedelta(seconds=self._seconds)

    def left(self) -> float | None:
        """Return the remaining seconds, or None without a limit."""
        if self._due is None:
            return None
        return max(0.0, (self._due - self._ctx.now()).total_seconds())

    def check(self) -> None:
        """Raise if the time limit is reached."""
        if self._seconds is not None and self.left() == 0.0:
            raise WaitTimedOut("the command to end", self._seconds)

    @contextmanager
    def closing(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` from another thread if the time limit is reached inside the block."""
        left = self.left()
        if left is None:
            yield
            return
        timer = Timer(left, stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def ready_seconds() -> float:
    """Return the time limit for the start of a pod."""
    minutes = os.environ.get(_READY_MINUTES_VARIABLE, "")
    return int(minutes) * 60.0 if minutes.isascii() and minutes.isdigit() else _READY_SECONDS


def _created_at(pod: KubeObject, ctx: PhaseContext) -> datetime:
    text = pod["metadata"].get("creationTimestamp") or ""
    try:
        created = datetime.fromisoformat(text)
    except ValueError:
        return ctx.now()
    # The cluster's clock must not extend the limit if it is ahead; it has a resolution of 1s.
    now = ctx.now()
    return now if abs(now - created) < timedelta(seconds=2) else min(created, now)


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    end = data.rfind(b"\n") + 1
    if len(data) - end > _LONGEST_HELD_BYTES:
        return data, b""
    return data[:end], data[end:]


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _state_of(status: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    states = (
        entry.get("state") or {} for entry in _containers(status) if entry["name"] == container
    )
    return next(states, {})


def _is_node_unresponsive(pod: KubeObject) -> bool:
    """Return True if the node of a running pod does not respond.

    A kubelet sets a reason when a pod is not ready. The node controller, which marks the pods
    of a node that does not respond, sets none.
    """
    status, ready = status_of(pod), condition_of(pod, "Ready")
    if status.get("reason") == "NodeLost":
        return True
    is_marked = ready.get("status") in ("False", "Unknown") and not ready.get("reason")
    return status.get("phase") == "Running" and is_marked


def _stuck_part(pod: KubeObject) -> tuple[str, Mapping[str, Any]]:
    """Return the part of a pod that a person has to fix, and the state with the reason."""
    for container in _containers(status_of(pod)):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return f"Container {container['name']} cannot start", waiting
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return "No node takes the pod", scheduled
    return "", {}


def _waiting_part(pod: KubeObject) -> tuple[str, Mapping[str, Any]]:
    """Return the part of a pod that has not started yet, and the state with the reason."""
    stuck = _stuck_part(pod)
    if stuck[0]:
        return stuck
    for container in _containers(status_of(pod)):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return f"container {container['name']} waits", waiting
    return "", {}


def _text_of(part: tuple[str, Mapping[str, Any]]) -> str:
    what, state = part
    return f"{what}: {_reason(state)}" if what else ""


def _reason(state: Mapping[str, Any]) -> str:
    return ": ".join(state[key] for key in ("reason", "message") if state.get(key))


def _failure_of(status: Mapping[str, Any]) -> KanisterError:
    message, why = "Failed while waiting for Pod to complete: Pod failed", _reason(status)
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if code := ended.get("exitCode"):
            name = container["name"]
            who = "its command" if name == MAIN_CONTAINER else f"container {name}"
            message = f"{message}: {who} ended with exit code {code}"
            return CommandFailed(f"{message}: {why}" if why else message, code)
    return UsageError(f"{message}: {why}" if why else message, reason="PodFailed")
