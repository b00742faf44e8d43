"""KubeTask v0.0.0: a command in a pod of its own."""

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
    """What KubeTask takes."""

    image: str = Field(description="The image of the pod's container.")
    command: list[str] = Field(
        description="The command and its arguments. It is no shell unless it names one: "
        "`[sh, -c, …]`."
    )
    namespace: str = Field(
        default="", description="Where the pod runs; left out, where the controller does."
    )


class KubeTask(PodFunc):
    """Runs a command in a new pod, and gives what it prints as outputs.

    The pod has one container, named `container`. Every line that
    `kando output KEY VALUE` prints, on stdout or stderr, becomes an output; all other
    lines are logged. The phase fails when the command ends with anything but 0, and its
    outputs are lost then. The pod is given 15 minutes to start (`TIMEOUT_WORKER_POD_READY`,
    in minutes, says otherwise), and the command as long as it takes. The pod is deleted
    as soon as the phase ends. A phase that is taken up again after a restart follows the
    pod it finds.
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
    """Say which pod a task wants."""
    return Job(
        JOB_PREFIX,
        args.namespace,
        spec_of(args.image, args.command),
        args,
        params.facts.pod_override,
    )
