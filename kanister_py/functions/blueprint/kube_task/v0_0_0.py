"""KubeTask v0.0.0: a command in a new pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import (
    JOB_PREFIX,
    Job,
    PodArgs,
    PodFunc,
    pod_of,
    running,
    spec_of,
)
from kanister_py.ports.function import PhaseContext


class KubeTaskArgs(PodArgs):
    """Arguments of KubeTask."""

    image: str = Field(description="The image of the pod's container.")
    command: list[str] = Field(
        description="The command and its arguments. It does not run in a shell unless it names "
        "one: `[sh, -c, …]`."
    )
    namespace: str = Field(
        default="",
        description="The namespace in which the pod runs; by default, the namespace of the "
        "controller.",
    )


class KubeTask(PodFunc):
    """Runs a command in a new pod and collects the outputs that it prints.

    The pod has one container, named `container`. Every line that `kando output KEY VALUE`
    prints on stdout or stderr becomes an output; all other lines are logged. The phase fails
    if the command exits with a code other than 0, and its outputs are then lost. The pod must
    start within 15 minutes (`TIMEOUT_WORKER_POD_READY` sets another number of minutes); the
    command has no time limit. The pod is deleted when the phase ends. A phase that is resumed
    after a restart continues with its existing pod.
    """

    name = "KubeTask"
    version: ClassVar = "v0.0.0"
    Args = KubeTaskArgs

    def exec(self, ctx: PhaseContext, params: Params, args: KubeTaskArgs) -> Mapping[str, Any]:
        with running(ctx, self.name, pod_of(ctx, params, job_of(params, args))) as pod:
            pod.wait_until_ready()
            outputs = pod.read_outputs()
            pod.wait_for_end()
        return outputs


def job_of(params: Params, args: KubeTaskArgs) -> Job:
    """Return the pod of a task."""
    return Job(
        JOB_PREFIX,
        args.namespace,
        spec_of(args.image, args.command),
        args,
        params.facts.pod_override,
    )
