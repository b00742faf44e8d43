"""KubeExecAll v0.0.0: a command in many containers at once."""

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
    """What KubeExecAll takes."""

    namespace: str = Field(description="The namespace of the pods.")
    pods: str = Field(description="The names of the pods, with spaces between them.")
    containers: str = Field(
        description="The names of the containers, with spaces between them; every pod has them all."
    )
    command: list[str] = Field(
        description="The command and its arguments. It is no shell unless it names one: "
        "`[sh, -c, …]`."
    )


class KubeExecAll(CommandFunc):
    """Runs a command in every named container of every named pod, all at once.

    The outputs are those of all commands together; of a key that several print, the last
    in the order of `pods` and `containers` counts. The phase fails when one of the
    commands fails, after all have ended, and has no outputs then. For the rest it is a
    KubeExec.
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
        return {key: value for each in calls for key, value in each.result.items()}


def _raise_for(calls: Sequence[Call[Target]]) -> None:
    failed = [each for each in calls if each.error is not None]
    if not failed:
        return
    for each in failed:
        if not isinstance(each.error, CommandFailed) and (
            len(failed) == 1 or not isinstance(each.error, KanisterError)
        ):
            raise each.error or AssertionError
    codes = (each.error.exit_code for each in failed if isinstance(each.error, CommandFailed))
    message = "\n".join(f"{each.of}: {each.error}" for each in failed)
    raise CommandFailed(message, next(codes, None)) from failed[0].error
