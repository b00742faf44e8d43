"""KubeExec v0.1.0: like v0.0.0, with a `timeout`."""

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
    """Arguments of KubeExec from v0.1.0 on."""

    timeout: Timeout = Field(
        default="",
        description="Time limit of the command, such as `90s` or `1h30m`; unlimited by "
        "default. When it expires, the connection is closed; the cluster may let the command "
        "continue to run.",
    )


class KubeExecV010(Func, parent=KubeExec):
    """Runs a command in a running container and collects the outputs that it prints.

    Like v0.0.0, with one difference: `timeout` ends a command that takes too long or whose
    connection no longer transmits anything.
    """

    version: ClassVar = "v0.1.0"
    Args = KubeExecArgsV010

    def exec(self, ctx: PhaseContext, params: Params, args: KubeExecArgsV010) -> Mapping[str, Any]:
        del params
        target = Target(args.namespace, args.pod, args.container)
        return run_in_container(ctx, target, args.command, timeout=args.timeout)
