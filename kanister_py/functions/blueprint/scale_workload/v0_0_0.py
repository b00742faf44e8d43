"""ScaleWorkload v0.0.0: the replicas of a workload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from kanister_py.core.errors import KanisterError, NotFound
from kanister_py.core.kube.access import Access
from kanister_py.core.retries import retry_on_conflict
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.workloads import (
    KIND_PATTERN,
    ORIGINAL_REPLICAS,
    Target,
    access_of,
    original_replicas,
    original_replicas_annotation,
    refusals_of,
    replicas_of,
    target_of,
    why_not_ready,
)
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs

_DECIMAL = re.compile(r"[+-]?[0-9]+")


class ScaleWorkloadArgs(Args):
    """Arguments of ScaleWorkload."""

    replicas: int | str = Field(
        description="The desired number of replicas, as a number or as a string of digits.",
        json_schema_extra={
            "anyOf": [{"type": "integer"}, {"type": "string", "pattern": _DECIMAL.pattern}]
        },
    )
    namespace: str | None = Field(
        default=None,
        description="The namespace of the workload; by default, the namespace of the "
        "ActionSet's object.",
    )
    name: str | None = Field(
        default=None,
        description="The name of the workload; by default, the name of the ActionSet's object.",
    )
    kind: str | None = Field(
        default=None,
        description="The kind of the workload: `StatefulSet`, `Deployment` or "
        "`DeploymentConfig`, not case-sensitive; by default, the kind of the ActionSet's "
        "object.",
        json_schema_extra={
            "anyOf": [{"type": "string", "pattern": KIND_PATTERN}, {"type": "null"}]
        },
    )
    wait_for_ready: bool = Field(
        default=True, description="Whether to wait until the workload has the desired pods."
    )

    @field_validator("replicas", mode="before")
    @classmethod
    def _whole_number(cls, value: object) -> object:
        if isinstance(value, str):
            if not _DECIMAL.fullmatch(value):
                raise ValueError(f"cannot convert {value!r} to a number")
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            kind = type(value).__name__
            raise ValueError(f"invalid arg type {kind} for arg replicas")
        return value


class ScaleWorkloadOutputs(Outputs):
    """Outputs of ScaleWorkload.
    # The same for every attempt: a second one must not take what the first one set"""

    original_replica_count: int = Field(
        description="The desired number of replicas before the change."
    )


class ScaleWorkload(Func):
    """Sets the number of replicas of a StatefulSet, Deployment or DeploymentConfig.

    By default, it scales the workload of the ActionSet. The whole object is updated. The
    phase then waits, without a time limit, until the workload has the desired pods: for a
    StatefulSet, the desired number of running and ready pods; for a Deployment or
    DeploymentConfig, additionally no pods that are not running. A workload that disappears
    during the wait is waited for. The update also records the previous number of replicas in
    the annotation `kanister-py.io/original-replicas` of the workload, so that a phase that is
    resumed after a restart returns the original number.
    """

    name = "ScaleWorkload"
    version: ClassVar = "v0.0.0"
    Args = ScaleWorkloadArgs
    Outputs = ScaleWorkloadOutputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args, "update")

    @classmethod
    def refusals(cls, args: Mapping[str, Any]) -> Iterable[tuple[str, KanisterError]]:
        return refusals_of(args)

    def exec(self, ctx: PhaseContext, params: Params, args: ScaleWorkloadArgs) -> Mapping[str, Any]:
        target = target_of(args, params.facts)
        original = retry_on_conflict(lambda: self._scale(ctx, target, int(args.replicas)))
        if args.wait_for_ready:
            ctx.wait(lambda: self._has_its_pods(ctx, target), what=f"the pods of {target}")
        return {"originalReplicaCount": original}

    def _scale(self, ctx: PhaseContext, target: Target, replicas: int) -> int:
        # The same for every attempt: a second one must not take what the first one set
        # The key is the same for every attempt: a second attempt must not mistake the number set
        # by the first one for the original number.
        key = ctx.run.key("scale", attempt=1)
        workload = target.read(ctx.cluster)
        original = original_replicas(workload, key)
        if original is None or replicas_of(workload) != replicas:
            ctx.cluster.replace(_with_replicas(workload, replicas, key))
        return replicas_of(workload) if original is None else original

    def _has_its_pods(self, ctx: PhaseContext, target: Target) -> bool:
        try:
            return not why_not_ready(ctx.cluster, target)
        except NotFound:
            return False


def _with_replicas(workload: KubeObject, replicas: int, key: str) -> KubeObject:
    metadata = {**workload["metadata"]}
    if original_replicas(workload, key) is None:
        annotations = {**(metadata.get("annotations") or {})}
        annotations[ORIGINAL_REPLICAS] = original_replicas_annotation(workload, key)
        metadata["annotations"] = annotations
    return {**workload, "metadata": metadata, "spec": {**workload["spec"], "replicas": replicas}}
