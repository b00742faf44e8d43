"""Commands in containers that are there already: their output, and how they end."""

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
    """The container a command runs in; without a name, the pod's default or only one."""

    namespace: str
    pod: str
    container: str = ""

    def __str__(self) -> str:
        return f"{self.pod}/{self.container}" if self.container else self.pod


def command_lost(target: Target) -> UsageError:
    """Say that the connection broke off: nobody knows whether the command ended, and how."""
    return UsageError(
        f"Failed to exec command in pod: the connection to {target} broke before the "
        "command ended; retry with `on: [StreamLost]` if it is safe to do twice",
        reason="StreamLost",
    )


def access_to_commands(args: Mapping[str, Any]) -> Access:
    """Say what it takes to run a command in a pod; any pod, where only the run will know."""
    namespace, pod = str(args.get("namespace") or ""), str(args.get("pod") or "")
    # Which of the two verbs an API server wants depends on how it is asked.
    return Access("", "pods/exec", ("get", "create"), namespace, pod)


class CommandFunc(Func):
    """A function that runs a command in a container that is there."""

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
    """Run a command to its end, log what it prints, and give the outputs among its stdout.

    `keep` is handed stdout as it comes, in pieces that are cut anywhere.
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
    """What is done for one of many, and what became of it."""

    of: T
    result: Any = None
    error: BaseException | None = None


def call_at_once(
    ctx: PhaseContext, several: Iterable[T], work: Callable[[T], Any], limit: int = 0
) -> list[Call[T]]:
    """Do something for all at once, or for so many; comes back when all have ended."""
    calls = [Call(each) for each in several]
    turns = BoundedSemaphore(limit or len(calls) or 1)

    def run(call: Call[T]) -> None:
        try:
            with turns:
                call.result = work(call.of)
        except BaseException as error:  # noqa: BLE001 # raised again once all have ended
            call.error = error

    # Daemons, so that a command that never ends cannot keep the process alive.
    threads = [
        Thread(target=run, args=(each,), name=f"pod {each.of}", daemon=True) for each in calls
    ]
    for thread in threads:
        thread.start()
    with ctx.idle():
        for thread in threads:
            thread.join()
    ctx.check_cancelled()
    return calls
