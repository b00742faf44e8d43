"""Pods of functions: made once for each attempt, or found as they were left, and cleaned up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field

from kanister_py.core.errors import (
    AlreadyExists,
    ApiError,
    KanisterError,
    NotFound,
    TransientApiError,
)
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.durations import InvalidDuration, parse_duration
from kanister_py.core.kube.merge_rules import pod_spec_rules
from kanister_py.core.kube.parts import labels_of
from kanister_py.core.kube.patches import InvalidPatch, strategic_patched
from kanister_py.core.kube.pod_shapes import misshapen_in, unreadable_in
from kanister_py.core.kube.privileges import check_privileges
from kanister_py.core.kube.resources import PODS
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.references import RUN_LABEL
from kanister_py.functions.blueprint.running_pod import MAIN_CONTAINER, RunningPod
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext, interrupted
from kanister_py.ports.models import Args
from kanister_py.ports.tracing import VARIABLE, traceparent

JOB_PREFIX: Final = "kanister-job-"
CREATED_BY: Final = {"createdBy": "kanister"}
ATTEMPT_LABEL: Final = "kanister-py.io/attempt"
"""Holds the run key without a part, by which pods that have one are found again."""
_SECURE_VARIABLE: Final = "SECURE_DEFAULTS_FOR_JOB_PODS"


def _readable_timeout(text: str) -> str:
    if not text:
        return text
    try:
        if parse_duration(text) > 0:
            return text
    except InvalidDuration as error:
        raise ValueError(error.message) from error
    raise ValueError(f"a timeout of {text} leaves no time")


Timeout = Annotated[str, AfterValidator(_readable_timeout)]
"""How long something may take, as `1h30m`; empty for as long as it needs."""


def _laid_over_a_pod(override: dict[str, Any] | None) -> dict[str, Any] | None:
    if wrong := [str(each) for each in misshapen_in(override, "podOverride") if each.wanted]:
        raise ValueError(", ".join(wrong))
    return override


PodOverride = Annotated[dict[str, Any] | None, AfterValidator(_laid_over_a_pod)]
"""Part of a PodSpec, in which no field has a shape that no API server takes."""


class PodArgs(Args):
    """What the pod of any function takes that makes one."""

    pod_override: PodOverride = Field(
        default=None,
        description="A partial PodSpec that is merged over the spec of the pod; lists of "
        "containers and volumes are merged by name. The podOverride of the ActionSet is merged "
        "over this one.",
    )
    pod_annotations: dict[str, str] | None = Field(
        default=None,
        description="Annotations of the pod. They take precedence over the annotations set in "
        "the ActionSet.",
    )
    pod_labels: dict[str, str] | None = Field(
        default=None,
        description="Labels of the pod. They take precedence over the labels set in the ActionSet.",
    )


class Job(NamedTuple):
    """A pod as a function wants it, before any overrides.

    `override` is the ActionSet's, and wins over the phase's. `part` tells the pods of one
    phase apart.
    """

    prefix: str
    namespace: str
    spec: Mapping[str, Any]
    args: PodArgs
    override: Mapping[str, Any] | None = None
    annotations: Mapping[str, str] = MappingProxyType({})
    part: str = ""


def container_of(name: str, image: str, command: Sequence[str], **rest: Any) -> dict[str, Any]:
    """Say what one container of a job looks like; what is empty is left out."""
    container = {"name": name, "image": image, "command": [*command], **rest}
    return {key: value for key, value in container.items() if value not in ([], "", None)}


def spec_of(image: str, command: Sequence[str], **rest: Any) -> dict[str, Any]:
    """Say what the spec of a pod with the one usual container looks like."""
    return {
        "containers": [
            container_of(MAIN_CONTAINER, image, command, imagePullPolicy="IfNotPresent", **rest)
        ],
        "restartPolicy": "Never",
    }


def pod_of(ctx: PhaseContext, params: Params, job: Job) -> KubeObject:
    """Say which pod a job becomes, with everybody's overrides, labels and annotations.

    Its name is the same for the same attempt, in whichever process.
    """
    facts, args = params.facts, job.args
    spec: dict[str, Any] = dict(job.spec)
    if os.environ.get(_SECURE_VARIABLE) == "true":
        spec |= {"automountServiceAccountToken": False, "serviceAccountName": "default"}
    if args.pod_override:
        spec = _overridden(spec, args.pod_override)
    if job.override:
        before, spec = spec, _overridden(spec, job.override)
        if ctx.confinement is not None:
            check_privileges(before, spec, "podOverride of the ActionSet")
    if ctx.service_account:
        # A run that is limited to this account must not get the rights of another one by a pod.
        spec |= {"serviceAccountName": ctx.service_account}
        spec.pop("serviceAccount", None)
    if named := traceparent():
        spec["containers"] = [_in_span(each, named) for each in spec["containers"]]
    namespace = job.namespace or ctx.cluster.default_namespace
    metadata: dict[str, Any] = {
        "name": job.prefix + ctx.run.key(job.part),
        "namespace": namespace,
        "labels": {
            **(facts.pod_labels or {}),
            **(args.pod_labels or {}),
            **CREATED_BY,
            **ctx.labels(job.part),
            **({ATTEMPT_LABEL: ctx.run.key()} if job.part else {}),
        },
    }
    annotations = {
        **(facts.pod_annotations or {}),
        **(args.pod_annotations or {}),
        **job.annotations,
    }
    if annotations:
        metadata["annotations"] = annotations
    if owners := ctx.owner_references(namespace):
        metadata["ownerReferences"] = owners
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _overridden(spec: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    if wrong := unreadable_in(override, "podOverride"):
        raise InvalidPatch(str(wrong))
    return strategic_patched(spec, override, pod_spec_rules())


def _in_span(container: Mapping[str, Any], named: str) -> dict[str, Any]:
    """Tell a container which span it belongs to, as programs that trace expect it."""
    env = [each for each in container.get("env") or () if each.get("name") != VARIABLE]
    return {**container, "env": [*env, {"name": VARIABLE, "value": named}]}


class PodFunc(Func):
    """A function that makes a pod, follows it, and takes it away."""

    on_restart = OnRestart.ADOPT
    needs_pods = True

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        namespace = str(args.get("namespace") or "")
        return [
            Access("", "pods", ("get", "list", "watch", "create", "delete"), namespace),
            Access("", "pods/log", ("get",), namespace),
        ]


@contextmanager
def running(
    ctx: PhaseContext,
    function: str,
    pod: KubeObject,
    *,
    timeout: str = "",
    is_repeatable: bool = False,
) -> Iterator[RunningPod]:
    """Have a pod for as long as the block lasts: made, or found as an earlier process left it.

    `is_repeatable`: what is done in it may be done again, whatever became of it before.

    Whatever ends the block ends the pod, as soon as the outcome is written down: until
    then only the pod tells that its command was begun, and maybe how it ended.
    """
    found = _create_or_adopt(ctx, function, pod, is_repeatable=is_repeatable)
    try:
        yield RunningPod(ctx, found, timeout)
    finally:
        ctx.afterwards(lambda: _delete(ctx, found))


def _create_or_adopt(
    ctx: PhaseContext, function: str, pod: KubeObject, *, is_repeatable: bool
) -> KubeObject:
    metadata = pod["metadata"]
    place = metadata["name"], metadata["namespace"]
    if ctx.may_have_forgotten and not is_repeatable and not is_there(ctx, *place):
        # Its command may have run, as far as is known: it is not run again unasked.
        raise interrupted(function)
    try:
        return ctx.cluster.create(pod)
    except TransientApiError:
        # It may have been made all the same, only the answer was lost.
        made = _made_all_the_same(ctx, pod)
        if made is not None:
            return made
        ctx.afterwards(lambda: _delete(ctx, pod))
        raise
    except AlreadyExists as error:
        already = error
    try:
        found = ctx.cluster.get(PODS, metadata["name"], namespace=metadata["namespace"])
    except NotFound as error:
        raise interrupted(function) from error
    labels = labels_of(found)
    if labels.get(RUN_LABEL) != metadata["labels"][RUN_LABEL]:
        raise already
    if found["metadata"].get("deletionTimestamp"):
        # The process that followed it had seen its end, and it alone knew how it ended.
        raise interrupted(function)
    return found


def _made_all_the_same(ctx: PhaseContext, pod: KubeObject) -> KubeObject | None:
    """Find the pod of this attempt, if it is known to be there and to stay."""
    metadata = pod["metadata"]
    try:
        found = ctx.cluster.get(PODS, metadata["name"], namespace=metadata["namespace"])
    except KanisterError:
        return None
    labels = labels_of(found)
    is_ours = labels.get(RUN_LABEL) == metadata["labels"][RUN_LABEL]
    return found if is_ours and not found["metadata"].get("deletionTimestamp") else None


def is_there(ctx: PhaseContext, name: str, namespace: str) -> bool:
    """Say whether there is a pod of this name."""
    try:
        ctx.cluster.get(PODS, name, namespace=namespace)
    except NotFound:
        return False
    return True


def _delete(ctx: PhaseContext, pod: KubeObject) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    try:
        ctx.cluster.delete(PODS, name, namespace=namespace, grace_period_seconds=0)
    except NotFound:
        pass
    except ApiError as error:
        ctx.log(f"Pod {namespace}/{name} is left behind, delete it by hand: {error.message}")
