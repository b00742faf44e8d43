"""PrepareData v0.0.0: a command in a pod with volumes mounted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from kanister_py.core.errors import CommandFailed, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.claims import access_to_claim, spec_with_claims
from kanister_py.functions.blueprint.pods import Job, PodArgs, PodFunc, pod_of, running, spec_of
from kanister_py.ports.function import PhaseContext

_PREFIX: Final = "prepare-data-job-"
_MOUNT_FOLDER: Final = "/mnt/prepare_data"


class PrepareDataArgs(PodArgs):
    """Arguments of PrepareData."""

    namespace: str = Field(description="The namespace of the pod and of the volumes.")
    image: str = Field(description="The image of the pod's container.")
    command: list[str] = Field(
        description="The command and its arguments. It does not run in a shell unless it names "
        "one: `[sh, -c, …]`."
    )
    volumes: dict[str, str] = Field(
        default_factory=dict,
        description="PersistentVolumeClaims and their mount paths. By default, all claims of "
        "the Deployment or StatefulSet of the action, mounted at `/mnt/prepare_data/<claim>`.",
    )
    serviceaccount: str = Field(default="", description="The service account of the pod.")
    fail_on_error: bool = Field(
        default=False, description="Whether the phase fails if the command fails."
    )


class PrepareData(PodFunc):
    """Runs a command in a new pod with volumes mounted.

    A volume whose claim has the access mode `ReadOnlyMany` is mounted read-only. A failed
    command does not fail the phase unless `failOnError` is true. Otherwise it behaves like
    KubeTask.
    """

    name = "PrepareData"
    version: ClassVar = "v0.0.0"
    Args = PrepareDataArgs

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        claims = (access_to_claim(args, name) for name in _named_volumes(args))
        return [*super().access(args), *claims]

    def exec(self, ctx: PhaseContext, params: Params, args: PrepareDataArgs) -> Mapping[str, Any]:
        job = Job(
            _PREFIX, args.namespace, _spec_of(ctx, params, args), args, params.facts.pod_override
        )
        with running(ctx, self.name, pod_of(ctx, params, job)) as pod:
            pod.wait_until_ready()
            outputs = pod.read_outputs()
            try:
                pod.wait_for_end()
            except CommandFailed as error:
                if args.fail_on_error:
                    raise
                ctx.log(f"{error.message}; the phase goes on, since failOnError is false")
        return outputs


def _named_volumes(args: Mapping[str, Any]) -> list[str]:
    """Return the names of the claims to read; an empty name means any claim."""
    volumes = args.get("volumes")
    return [str(name) for name in volumes] if isinstance(volumes, Mapping) and volumes else [""]


def _spec_of(ctx: PhaseContext, params: Params, args: PrepareDataArgs) -> dict[str, Any]:
    claims = args.volumes or _volumes_of(params)
    spec = spec_with_claims(ctx, args.namespace, claims, spec_of(args.image, args.command))
    if args.serviceaccount:
        spec["serviceAccountName"] = args.serviceaccount
    return spec


def _volumes_of(params: Params) -> dict[str, str]:
    workload = params.facts.deployment or params.facts.stateful_set
    if workload is None:
        raise _no_volumes("Failed to get volumes: the object of the action is not a workload")
    claims = {
        claim: f"{_MOUNT_FOLDER}/{claim}"
        for mounted in workload.persistent_volume_claims.values()
        for claim in mounted
    }
    if not claims:
        raise _no_volumes(f"No volumes found: the pods of {workload.name} mount none")
    return claims


def _no_volumes(why: str) -> UsageError:
    return UsageError(f"{why}; name them in `volumes`", reason="VolumesNotFound")
