"""KubeExecAll v0.0.0: a command in many containers at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, ClassVar

from kanister_py.core.errors import CommandFailed, KanisterError
from kanister_py.core.objects.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import Target, access_of_command, run_in_container
from kanister_py.ports.arguments import Args, Field
from kanister_py.ports.function import Func, OnRestart, PhaseContext


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


class KubeExecAll(Func):
    """Runs a command in every named container of every named pod, all at once.

    The outputs are those of all commands together; of a key that several print, the last
    in the order of `pods` and `containers` counts. The phase fails when one of the
    commands fails, after all have ended, and has no outputs then. For the rest it is a
    KubeExec.
    """

    name = "KubeExecAll"
    version: ClassVar = "v0.0.0"
    Args = KubeExecAllArgs
    on_restart = OnRestart.FAIL

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return access_of_command(args)

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecAllArgs) -> Mapping[str, Any]:
        del params
        calls = [
            _Call(Target(args.namespace, pod, container))
            for pod in args.pods.split()
            for container in args.containers.split()
        ]
        # Daemons, so that a command that never ends cannot keep the process alive.
        threads = [
            Thread(
                target=each.run, args=(ctx, args.command), name=f"exec {each.target}", daemon=True
            )
            for each in calls
        ]
        for thread in threads:
            thread.start()
        with ctx.idle():
            for thread in threads:
                thread.join()
        ctx.check_cancelled()
        _raise_for(calls)
        return {key: value for each in calls for key, value in each.outputs.items()}


@dataclass(slots=True)
class _Call:
    """One command in one container, and what became of it."""

    target: Target
    outputs: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None

    def run(self, ctx: PhaseContext, command: Sequence[str]) -> None:
        try:
            self.outputs = run_in_container(ctx, self.target, command)
        except Exception as error:  # noqa: BLE001 # raised again once all commands have ended
            self.error = error


def _raise_for(calls: Sequence[_Call]) -> None:
    failed = [each for each in calls if each.error is not None]
    if not failed:
        return
    for each in failed:
        if not isinstance(each.error, CommandFailed) and (
            len(failed) == 1 or not isinstance(each.error, KanisterError)
        ):
            raise each.error or AssertionError
    codes = (each.error.exit_code for each in failed if isinstance(each.error, CommandFailed))
    message = "\n".join(f"{each.target}: {each.error}" for each in failed)
    raise CommandFailed(message, next(codes, None)) from failed[0].error
