"""KubeExec v0.0.0: a command in a container that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import CommandFunc, Target, run_in_container
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class KubeExecArgs(Args):
    """What KubeExec takes."""

    namespace: str = Field(description="The namespace of the pod.")
    pod: str = Field(description="The pod to run the command in; it must be running.")
    command: list[str] = Field(
        description="The command and its arguments. It is no shell unless it names one: "
        "`[sh, -c, …]`."
    )
    container: str = Field(
        default="", description="The container; left out, the pod's default or only one."
    )


class KubeExec(CommandFunc):
    """Runs a command in a container that is running, and gives what it prints as outputs.

    Every line that `kando output KEY VALUE` prints on stdout becomes an output; all other
    lines, and stderr, are logged. The phase fails when the command ends with anything but
    0, with the last lines of both streams in the error. It has no time limit. When the
    connection breaks nobody knows what became of the command: the phase fails with the
    reason `StreamLost`, and with `Interrupted` when it is taken up after a restart; both
    are retried only if the phase's `retry` names them.
    """

    name = "KubeExec"
    needs_pods = True
    version: ClassVar = "v0.0.0"
    Args = KubeExecArgs

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecArgs) -> Mapping[str, Any]:
        del params
        return run_in_container(ctx, Target(args.namespace, args.pod, args.container), args.command)
