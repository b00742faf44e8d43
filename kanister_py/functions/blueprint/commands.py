"""Commands in running containers: their output and their exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import BoundedSemaphore, Thread
from typing import Any, Generic, TypeVar

from kanister_py.core.actionsets.outputs import LogLines, LogTail
from kanister_py.core.errors import CommandFailed, StreamLost, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.functions.blueprint.running_pod import TimeLimit
from kanister_py.ports.cluster import Channel, ExecSession
from kanister_py.ports.function import Func, OnRestart, PhaseContext

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Container to run a command in; without a name, the pod's default or only container."""

    namespace: str
    pod: str
    container: str = ""

    def __str__(self) -> str:
        return f"{self.pod}/{self.container}" if self.container else self.pod


def command_lost(target: Target) -> UsageError:
    """Return the error for a broken connection, after which the command's result is unknown."""
    return UsageError(
        f"Failed to exec command in pod: the connection to {target} broke before the "
        "command ended; retry with `on: [StreamLost]` if it is safe to do twice",
        reason="StreamLost",
    )


def access_to_commands(args: Mapping[str, Any]) -> Access:
    """Return the permission to run a command in a pod; in any pod if not known yet."""
    namespace, pod = str(args.get("namespace") or ""), str(args.get("pod") or "")
    # The verb that the API server checks depends on the HTTP method of the request.
    return Access("", "pods/exec", ("get", "create"), namespace, pod)


class CommandFunc(Func):
    """Function that runs a command in a running container."""

    on_restart = OnRestart.FAIL

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        return [access_to_commands(args)]


def run_in_container(
    ctx: PhaseContext,
    target: Target,
    command: Sequence[str],
    *,
    timeout: str = "",
    keep: Callable[[bytes], object] | None = None,
) -> dict[str, str]:
    """Run a command to its end, log its output, and return the outputs found in its stdout.

    `keep` receives stdout in chunks of arbitrary size as they arrive.
    """
    limit = TimeLimit(ctx, timeout)
    output, complained = LogTail(), LogTail()
    stderr = LogLines(ctx.log)

    def stdout(session: ExecSession) -> Iterator[bytes]:
        for chunk in session:
            if chunk.channel is Channel.STDOUT:
                output.feed(chunk.data)
                if keep is not None:
                    keep(chunk.data)
                yield chunk.data
            else:
                complained.feed(chunk.data)
                stderr.feed(chunk.data)
        stderr.finish()

    with ExitStack() as stack:
        session = stack.enter_context(
            ctx.cluster.exec(
                target.pod,
                command,
                namespace=target.namespace or ctx.cluster.default_namespace,
                container=target.container,
            )
        )
        stack.enter_context(ctx.on_cancel(session.close))
        stack.enter_context(limit.closing(session.close))
        try:
            outputs = ctx.read_outputs(stdout(session))
        except StreamLost as error:
            raise command_lost(target) from error
        exit_code = session.exit_code
    if exit_code is None:
        limit.check()
        raise command_lost(target)
    if exit_code != 0:
        raise CommandFailed(
            f"Failed to exec command in pod: command terminated with exit code {exit_code}.\n"
            f"stdout: {output.text()}\nstderr: {complained.text()}",
            exit_code,
        )
    return outputs


@dataclass(slots=True)
class Call(Generic[T]):
    """One of several concurrent calls, with its result or error."""

    of: T
    result: Any = None
    error: BaseException | None = None


def call_at_once(
    ctx: PhaseContext, several: Iterable[T], work: Callable[[T], Any], limit: int = 0
) -> list[Call[T]]:
    """Call `work` for all items, at most `limit` at a time, and wait until all calls have ended."""
    calls = [Call(item) for item in several]
    turns = BoundedSemaphore(limit or len(calls) or 1)

    def run(call: Call[T]) -> None:
        try:
            with turns:
                call.result = work(call.of)
        except BaseException as error:  # noqa: BLE001 # re-raised by the caller once all calls have ended
            call.error = error

    # Daemon threads, so that a command that never ends does not keep the process alive.
    threads = [
        Thread(target=run, args=(call,), name=f"pod {call.of}", daemon=True) for call in calls
    ]
    for thread in threads:
        thread.start()
    with ctx.idle():
        for thread in threads:
            thread.join()
    ctx.check_cancelled()
    return calls
