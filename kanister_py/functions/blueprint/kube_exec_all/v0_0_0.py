"""KubeExecAll v0.0.0: a command in several containers in parallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import CommandFailed, KanisterError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import (
    Call,
    CommandFunc,
    Target,
    call_at_once,
    run_in_container,
)
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class KubeExecAllArgs(Args):
    """Arguments of KubeExecAll."""

    namespace: str = Field(description="The namespace of the pods.")
    pods: str = Field(description="The names of the pods, separated by spaces.")
    containers: str = Field(
        description="The names of the containers, separated by spaces. Every pod must have all "
        "of them."
    )
    command: list[str] = Field(
        description="The command and its arguments. It does not run in a shell unless it names "
        "one: `[sh, -c, …]`."
    )


class KubeExecAll(CommandFunc):
    """Runs a command in all named containers of all named pods, in parallel.

    The outputs of all commands are combined. If several commands print the same key, the last
    one in the order of `pods` and `containers` is used. If a command fails, the phase fails
    once all commands have ended, and has no outputs. Otherwise it behaves like KubeExec.
    """

    name = "KubeExecAll"
    version: ClassVar = "v0.0.0"
    Args = KubeExecAllArgs

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecAllArgs) -> Mapping[str, Any]:
        del params
        targets = [
            Target(args.namespace, pod, container)
            for pod in args.pods.split()
            for container in args.containers.split()
        ]
        calls = call_at_once(
            ctx, targets, lambda target: run_in_container(ctx, target, args.command)
        )
        _raise_for(calls)
        return {key: value for call in calls for key, value in call.result.items()}


def _raise_for(calls: Sequence[Call[Target]]) -> None:
    failed = [call for call in calls if call.error is not None]
    if not failed:
        return
    for failed_call in failed:
        if not isinstance(failed_call.error, CommandFailed) and (
            len(failed) == 1 or not isinstance(failed_call.error, KanisterError)
        ):
            raise failed_call.error or AssertionError
    codes = (call.error.exit_code for call in failed if isinstance(call.error, CommandFailed))
    message = "\n".join(f"{call.of}: {call.error}" for call in failed)
    raise CommandFailed(message, next(codes, None)) from failed[0].error
