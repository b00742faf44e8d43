"""ScaleWorkload v0.1.0: like v0.0.0, through the scale subresource, with a `timeout`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError, WaitTimedOut
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.retries import retry_on_conflict
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import Timeout
from kanister_py.functions.blueprint.scale_workload.v0_0_0 import ScaleWorkload, ScaleWorkloadArgs
from kanister_py.functions.blueprint.workloads import (
    ORIGINAL_REPLICAS,
    Target,
    access_of,
    original_replicas,
    original_replicas_annotation,
    replicas_of,
    target_of,
    why_not_ready,
)
from kanister_py.ports.function import Func, PhaseContext


class ScaleWorkloadArgsV010(ScaleWorkloadArgs):
    """Arguments of ScaleWorkload from v0.1.0 on."""

    timeout: Timeout = Field(
        default="",
        description="Time limit of the wait for the desired pods, such as `5m`; unlimited by "
        "default.",
    )


class ScaleWorkloadV010(Func, parent=ScaleWorkload):
    """Sets the number of replicas of a StatefulSet, Deployment or DeploymentConfig.

    Like v0.0.0, with these differences: the number of replicas is set through the `scale`
    subresource, so apart from its annotations no permission to change the workload is needed.
    `timeout` limits the wait, and the error reports the missing pods. A workload that
    disappears during the wait fails the phase at once.
    """

    version: ClassVar = "v0.1.0"
    Args = ScaleWorkloadArgsV010

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args, "patch", scales=True)

    def exec(
        self, ctx: PhaseContext, params: Params, args: ScaleWorkloadArgsV010
    ) -> Mapping[str, Any]:
        target = target_of(args, params.facts)
        original = retry_on_conflict(lambda: self._record_original(ctx, target))
        ctx.cluster.scale(
            target.resource, target.name, int(args.replicas), namespace=target.namespace
        )
        if args.wait_for_ready:
            self._wait(ctx, target, parse_seconds(args.timeout) if args.timeout else None)
        return {"originalReplicaCount": original}

    def _record_original(self, ctx: PhaseContext, target: Target) -> int:
        """Record the original number of replicas on the workload before changing it."""
        key = ctx.run.key("scale", attempt=1)
        workload = target.read(ctx.cluster)
        original = original_replicas(workload, key)
        if original is not None:
            return original
        metadata = {
            "resourceVersion": workload["metadata"]["resourceVersion"],
            "annotations": {ORIGINAL_REPLICAS: original_replicas_annotation(workload, key)},
        }
        ctx.cluster.patch(
            target.resource, target.name, {"metadata": metadata}, namespace=target.namespace
        )
        return replicas_of(workload)

    def _wait(self, ctx: PhaseContext, target: Target, seconds: float | None) -> None:
        why = ""

        def has_its_pods() -> bool:
            nonlocal why
            why = why_not_ready(ctx.cluster, target)
            return not why

        what = f"the pods of {target}"
        try:
            ctx.wait(has_its_pods, timeout_seconds=seconds, what=what)
        except WaitTimedOut as error:
            raise UsageError(f"{error}: {why}", reason=error.reason) from error
