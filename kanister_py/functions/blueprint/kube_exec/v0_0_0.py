"""KubeExec v0.0.0: a command in a running container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import CommandFunc, Target, run_in_container
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class KubeExecArgs(Args):
    """Arguments of KubeExec."""

    namespace: str = Field(description="The namespace of the pod.")
    pod: str = Field(description="The pod to run the command in; it must be running.")
    command: list[str] = Field(
        description="The command and its arguments. It does not run in a shell unless it names "
        "one: `[sh, -c, …]`."
    )
    container: str = Field(
        default="",
        description="The container; by default, the pod's default container or its only one.",
    )


class KubeExec(CommandFunc):
    """Runs a command in a running container and collects the outputs that it prints.

    Every line that `kando output KEY VALUE` prints on stdout becomes an output. All other
    lines, and stderr, are logged. The phase fails if the command exits with a code other than
    0; the error contains the last lines of both streams. There is no time limit. If the
    connection breaks, the result of the command is unknown and the phase fails with the
    reason `StreamLost`. If the phase is resumed after a restart, it fails with the reason
    `Interrupted`. Both are retried only if the phase's `retry` names them.
    """

    name = "KubeExec"
    needs_pods = True
    version: ClassVar = "v0.0.0"
    Args = KubeExecArgs

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecArgs) -> Mapping[str, Any]:
        del params
        return run_in_container(ctx, Target(args.namespace, args.pod, args.container), args.command)
