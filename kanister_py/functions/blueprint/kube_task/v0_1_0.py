"""KubeTask v0.1.0: like v0.0.0, with a `timeout`, and no wait for a pod that cannot start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import CommandFailed
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.kube_task.v0_0_0 import KubeTask, KubeTaskArgs, job_of
from kanister_py.functions.blueprint.pods import Timeout, pod_of, running
from kanister_py.ports.function import Func, PhaseContext


class KubeTaskArgsV010(KubeTaskArgs):
    """Arguments of KubeTask from v0.1.0 on."""

    timeout: Timeout = Field(
        default="",
        description="Time limit of the pod, from its creation to its end, such as `90s` or "
        "`1h30m`; unlimited by default.",
    )


class KubeTaskV010(Func, parent=KubeTask):
    """Runs a command in a new pod and collects the outputs that it prints.

    Like v0.0.0, with these differences: `timeout` ends a pod that takes too long. A pod that
    cannot start because its image cannot be pulled, it cannot be scheduled, or an object it
    refers to is missing fails the phase at once instead of after 15 minutes. The outputs that
    a failed command printed are available to the deferPhase and in the status.
    """

    version: ClassVar = "v0.1.0"
    Args = KubeTaskArgsV010

    def exec(self, ctx: PhaseContext, params: Params, args: KubeTaskArgsV010) -> Mapping[str, Any]:
        pod = pod_of(ctx, params, job_of(params, args))
        with running(ctx, self.name, pod, timeout=args.timeout) as followed:
            followed.wait_until_ready(fails_early=True)
            outputs = followed.read_outputs()
            try:
                followed.wait_for_end()
            except CommandFailed as error:
                raise CommandFailed(error.message, error.exit_code, outputs) from error
        return outputs
