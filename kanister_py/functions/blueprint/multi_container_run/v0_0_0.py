"""MultiContainerRun v0.0.0: two commands in parallel in one pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from kanister_py.core.kube.quantities import parse_quantity
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import (
    JOB_PREFIX,
    Job,
    PodArgs,
    PodFunc,
    container_of,
    pod_of,
    running,
)
from kanister_py.functions.blueprint.running_pod import MAIN_CONTAINER
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import PhaseContext

INIT: Final = "init"
BACKGROUND: Final = "background"
OUTPUT: Final = "output"
_SHARED: Final = "shared"
_DEFAULT_CONTAINER: Final = {"kubectl.kubernetes.io/default-container": OUTPUT}


class MultiContainerRunArgs(PodArgs):
    """Arguments of MultiContainerRun."""

    background_image: str = Field(description="The image of the container `background`.")
    background_command: list[str] = Field(description="The command of the container `background`.")
    output_image: str = Field(description="The image of the container `output`.")
    output_command: list[str] = Field(
        description="The command of the container `output`. Only outputs that this command "
        "prints become outputs of the phase."
    )
    init_image: str = Field(
        default="",
        description="The image of the container `init`, which ends before the others start. By "
        "default, there is no such container.",
    )
    init_command: list[str] = Field(
        default_factory=list, description="The command of the container `init`."
    )
    namespace: str = Field(
        default="",
        description="The namespace in which the pod runs; by default, the namespace of the "
        "controller.",
    )
    shared_volume_medium: str = Field(
        default="",
        description="The medium of the shared volume: `Memory`, or by default the node's disk.",
    )
    shared_volume_size_limit: str = Field(
        default="", description="The size limit of the shared volume, such as `1Gi`."
    )
    shared_volume_dir: str = Field(
        default="/tmp/",  # noqa: S108 # a path in the pod, the default since the first release
        description="The path at which the shared volume is mounted in every container.",
    )


class MultiContainerRun(PodFunc):
    """Runs two commands in parallel in a new pod whose containers share a volume.

    The containers are named `output` and `background`; an optional container `init` prepares
    the volume. Lines that `kando output KEY VALUE` prints in `output` become outputs; output
    of the other containers is ignored. The phase fails unless every container exits with 0.
    Settings for a container named `container` in the ActionSet's podOverride apply to all
    three containers, except to containers that the podOverride names explicitly. Otherwise it
    behaves like KubeTask.
    """

    name = "MultiContainerRun"
    version: ClassVar = "v0.0.0"
    Args = MultiContainerRunArgs

    def exec(
        self, ctx: PhaseContext, params: Params, args: MultiContainerRunArgs
    ) -> Mapping[str, Any]:
        job = Job(
            JOB_PREFIX,
            args.namespace,
            _spec_of(args),
            args,
            override_of(params.facts.pod_override, has_init=bool(args.init_image)),
            _DEFAULT_CONTAINER,
        )
        with running(ctx, self.name, _output_first(pod_of(ctx, params, job))) as pod:
            pod.wait_until_ready()
            outputs = pod.read_outputs(OUTPUT)
            pod.wait_for_end()
        return outputs


def _spec_of(args: MultiContainerRunArgs) -> dict[str, Any]:
    volume: dict[str, str] = {}
    if args.shared_volume_medium:
        volume["medium"] = args.shared_volume_medium
    if args.shared_volume_size_limit:
        parse_quantity(args.shared_volume_size_limit)
        volume["sizeLimit"] = args.shared_volume_size_limit
    mounts = [{"name": _SHARED, "mountPath": args.shared_volume_dir}]

    def container(name: str, image: str, command: Sequence[str]) -> dict[str, Any]:
        return container_of(name, image, command, volumeMounts=mounts)

    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "volumes": [{"name": _SHARED, "emptyDir": volume}],
        "containers": [
            container(OUTPUT, args.output_image, args.output_command),
            container(BACKGROUND, args.background_image, args.background_command),
        ],
    }
    if args.init_image:
        spec["initContainers"] = [container(INIT, args.init_image, args.init_command)]
    return spec


def override_of(override: Mapping[str, Any] | None, *, has_init: bool) -> Mapping[str, Any] | None:
    """Apply the ActionSet's override of the container `container` to the containers of this pod."""
    containers = list((override or {}).get("containers") or ())
    main = next(
        (container for container in containers if container.get("name") == MAIN_CONTAINER), None
    )
    if override is None or main is None:
        return override
    inits = list(override.get("initContainers") or ())
    sidecars = [container for container in containers if container is not main]
    spread = {
        **override,
        "containers": [*sidecars, *_copies_for(main, sidecars, (OUTPUT, BACKGROUND))],
    }
    if has_init:
        spread["initContainers"] = [*inits, *_copies_for(main, inits, (INIT,))]
    return spread


def _copies_for(
    override: Mapping[str, Any], containers: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    named = {container.get("name") for container in containers}
    for name in names:
        if name not in named:
            yield {**override, "name": name}


def _output_first(pod: KubeObject) -> KubeObject:
    containers = sorted(
        pod["spec"]["containers"], key=lambda container: container["name"] != OUTPUT
    )
    return {**pod, "spec": {**pod["spec"], "containers": containers}}
