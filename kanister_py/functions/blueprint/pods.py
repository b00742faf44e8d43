"""Pods of functions: created once per attempt, or adopted after a restart, and deleted."""

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
    UsageError,
)
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.durations import InvalidDuration, parse_duration
from kanister_py.core.kube.merge_rules import pod_spec_rules
from kanister_py.core.kube.parts import labels_of
from kanister_py.core.kube.patches import InvalidPatch, strategic_patched
from kanister_py.core.kube.pod_shapes import shape_problems, unreadable_field
from kanister_py.core.kube.privileges import check_privileges, restricted_spec
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
"""Label with the run key without a part, to find the pods of a phase that has several."""
_SECURE_VARIABLE: Final = "SECURE_DEFAULTS_FOR_JOB_PODS"
_SECURITY_VARIABLE: Final = "KANISTER_PY_JOB_POD_SECURITY"
_USER_VARIABLE: Final = "KANISTER_PY_JOB_POD_USER"


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
"""Time limit such as `1h30m`; empty for no limit."""


def _checked_override(override: dict[str, Any] | None) -> dict[str, Any] | None:
    if wrong := [
        str(problem) for problem in shape_problems(override, "podOverride") if problem.expected_type
    ]:
        raise ValueError(", ".join(wrong))
    return override


PodOverride = Annotated[dict[str, Any] | None, AfterValidator(_checked_override)]
"""Partial PodSpec. Fields whose type every API server would reject are rejected here."""


class PodArgs(Args):
    """Arguments of functions that create a pod."""

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
    """Pod of a function, before any overrides.

    `override` is the ActionSet's and takes precedence over the phase's. `part` distinguishes
    the pods of one phase.
    """

    prefix: str
    namespace: str
    spec: Mapping[str, Any]
    args: PodArgs
    override: Mapping[str, Any] | None = None
    annotations: Mapping[str, str] = MappingProxyType({})
    part: str = ""


def container_of(name: str, image: str, command: Sequence[str], **fields: Any) -> dict[str, Any]:
    """Return a container of a job, without empty fields."""
    container = {"name": name, "image": image, "command": [*command], **fields}
    return {key: value for key, value in container.items() if value not in ([], "", None)}


def spec_of(image: str, command: Sequence[str], **fields: Any) -> dict[str, Any]:
    """Return the spec of a pod with a single container of the default name."""
    return {
        "containers": [
            container_of(MAIN_CONTAINER, image, command, imagePullPolicy="IfNotPresent", **fields)
        ],
        "restartPolicy": "Never",
    }


def pod_of(ctx: PhaseContext, params: Params, job: Job) -> KubeObject:
    """Return the pod of a job, with the overrides, labels and annotations of all sources.

    Its name only depends on the attempt, not on the process.
    """
    facts, args = params.facts, job.args
    spec: dict[str, Any] = dict(job.spec)
    if os.environ.get(_SECURE_VARIABLE) == "true":
        spec |= {"automountServiceAccountToken": False, "serviceAccountName": "default"}
    if args.pod_override:
        spec = _overridden(spec, args.pod_override)
    spec = _with_pod_security(spec)
    if job.override:
        before, spec = spec, _overridden(spec, job.override)
        if ctx.confinement is not None:
            check_privileges(before, spec, "podOverride of the ActionSet")
        # For containers that the override adds.
        spec = _with_pod_security(spec)
    if ctx.service_account:
        # A run that is limited to this account must not use another account in a pod.
        spec |= {"serviceAccountName": ctx.service_account}
        spec.pop("serviceAccount", None)
    if named := traceparent():
        spec["containers"] = [_in_span(container, named) for container in spec["containers"]]
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


def _with_pod_security(spec: dict[str, Any]) -> dict[str, Any]:
    """Apply the Pod Security Standard that the operator chose, if any."""
    standard = os.environ.get(_SECURITY_VARIABLE, "")
    if not standard:
        return spec
    user = os.environ.get(_USER_VARIABLE, "")
    if standard != "restricted" or not (user.isdecimal() or not user):
        raise UsageError(
            f"{_SECURITY_VARIABLE} must be restricted and {_USER_VARIABLE} a user ID, found "
            f"{standard!r} and {user!r}",
            reason="PodSecurityUnknown",
        )
    return restricted_spec(spec, int(user) if user else None)


def _overridden(spec: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    if wrong := unreadable_field(override, "podOverride"):
        raise InvalidPatch(str(wrong))
    return strategic_patched(spec, override, pod_spec_rules())


def _in_span(container: Mapping[str, Any], named: str) -> dict[str, Any]:
    """Set the environment variable with the tracing context in a container."""
    env = [variable for variable in container.get("env") or () if variable.get("name") != VARIABLE]
    return {**container, "env": [*env, {"name": VARIABLE, "value": named}]}


class PodFunc(Func):
    """Function that creates a pod, follows it and deletes it."""

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
    """Run a pod for the duration of the block: a new one, or the one of an earlier process.

    `is_repeatable` states that the work in the pod can be repeated, even if it was done before.

    The pod is deleted when the block ends, but only after the outcome is recorded. Until then,
    only the pod shows that its command was started, and possibly how it ended.
    """
    adopted = _create_or_adopt(ctx, function, pod, is_repeatable=is_repeatable)
    try:
        yield RunningPod(ctx, adopted, timeout)
    finally:
        ctx.afterwards(lambda: _delete(ctx, adopted))


def _create_or_adopt(
    ctx: PhaseContext, function: str, pod: KubeObject, *, is_repeatable: bool
) -> KubeObject:
    metadata = pod["metadata"]
    place = metadata["name"], metadata["namespace"]
    if ctx.may_lack_objects and not is_repeatable and not pod_exists(ctx, *place):
        # The command may already have run. Only the phase's `retry` can allow a repetition.
        raise interrupted(function)
    try:
        return ctx.cluster.create(pod)
    except TransientApiError:
        # The pod may have been created although the response was lost.
        identical = _existing_pod(ctx, pod)
        if identical is not None:
            return identical
        ctx.afterwards(lambda: _delete(ctx, pod))
        raise
    except AlreadyExists as error:
        already = error
    try:
        existing = ctx.cluster.get(PODS, metadata["name"], namespace=metadata["namespace"])
    except NotFound as error:
        raise interrupted(function) from error
    labels = labels_of(existing)
    if labels.get(RUN_LABEL) != metadata["labels"][RUN_LABEL]:
        raise already
    if existing["metadata"].get("deletionTimestamp"):
        # Only the process that deleted the pod knew how the command ended.
        raise interrupted(function)
    return existing


def _existing_pod(ctx: PhaseContext, pod: KubeObject) -> KubeObject | None:
    """Return the pod of this attempt if it exists and is not being deleted."""
    metadata = pod["metadata"]
    try:
        existing = ctx.cluster.get(PODS, metadata["name"], namespace=metadata["namespace"])
    except KanisterError:
        return None
    labels = labels_of(existing)
    is_ours = labels.get(RUN_LABEL) == metadata["labels"][RUN_LABEL]
    return existing if is_ours and not existing["metadata"].get("deletionTimestamp") else None


def pod_exists(ctx: PhaseContext, name: str, namespace: str) -> bool:
    """Return True if a pod of this name exists."""
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
