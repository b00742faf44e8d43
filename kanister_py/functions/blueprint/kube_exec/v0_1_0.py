"""KubeExec v0.1.0: as v0.0.0, with a `timeout`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import Target, run_in_container
from kanister_py.functions.blueprint.kube_exec.v0_0_0 import KubeExec, KubeExecArgs
from kanister_py.functions.blueprint.pods import Timeout
from kanister_py.ports.function import Func, PhaseContext


class KubeExecArgsV010(KubeExecArgs):
    """What KubeExec takes from v0.1.0 on."""

    timeout: Timeout = Field(
        default="",
        description="How long the command may take, such as `90s` or `1h30m`; left out, as long "
        "as it needs. The connection is closed then; a cluster may let the command run on.",
    )


class KubeExecV010(Func, parent=KubeExec):
    """Runs a command in a container that is running, and gives what it prints as outputs.

    As v0.0.0, and: `timeout` ends a command that takes too long, or whose connection has
    gone silent for good.
    """

    version: ClassVar = "v0.1.0"
    Args = KubeExecArgsV010

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecArgsV010) -> Mapping[str, Any]:
        del params
        target = Target(args.namespace, args.pod, args.container)
        return run_in_container(ctx, target, args.command, timeout=args.timeout)
