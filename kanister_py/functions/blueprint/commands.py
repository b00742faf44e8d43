"""Commands in containers that are there already: their output, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kanister_py.core.actionsets.outputs import LogLines, LogTail
from kanister_py.core.errors import CommandFailed, StreamLost, UsageError
from kanister_py.core.objects.access import Access
from kanister_py.functions.blueprint.running_pod import TimeLimit
from kanister_py.ports.cluster import Channel, ExecSession
from kanister_py.ports.function import PhaseContext


class CommandLost(UsageError):
    """The connection to a command broke off; nobody knows whether it ended, and how."""

    reason = "StreamLost"

    def __init__(self, container: str) -> None:
        super().__init__(
            f"Failed to exec command in pod: the connection to {container} broke before the "
            "command ended; retry with `on: [StreamLost]` if it is safe to do twice"
        )
        self.container = container


@dataclass(frozen=True, slots=True)
class Target:
    """The container a command runs in; without a name, the pod's default or only one."""

    namespace: str
    pod: str
    container: str = ""

    def __str__(self) -> str:
        return f"{self.pod}/{self.container}" if self.container else self.pod


def access_of_command(args: Mapping[str, Any], pod: str = "") -> list[Access]:
    """Say what it takes to run a command in a pod; any pod, where only the run will know."""
    namespace = str(args.get("namespace") or "")
    # Which of the two verbs an API server wants depends on how it is asked.
    return [Access("", "pods/exec", ("get", "create"), namespace, pod)]


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
            raise CommandLost(str(target)) from error
        exit_code = session.exit_code
    if exit_code is None:
        limit.check()
        raise CommandLost(str(target))
    if exit_code != 0:
        raise CommandFailed(
            f"Failed to exec command in pod: command terminated with exit code {exit_code}.\n"
            f"stdout: {output.text()}\nstderr: {complained.text()}",
            exit_code,
        )
    return outputs
