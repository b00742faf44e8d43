"""References to Kubernetes objects in blueprints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic import Field

from kanister_py.core.errors import ApiError, NotFound, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.parts import labels_of
from kanister_py.core.kube.request_paths import problems_with
from kanister_py.core.kube.resources import GroupVersionResource, group_version_of, guess_plural
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args

RUN_LABEL: Final = "kanister-py.io/run"


class ObjectReference(Args):
    """Reference to an object."""

    api_version: str = Field(
        default="", description="The API version of the object, without the group: `v1`."
    )
    group: str = Field(
        default="",
        description="The API group of the object, such as `apps`; empty for core resources.",
    )
    resource: str = Field(
        default="", description="The resource name, which is the plural of the kind: `deployments`."
    )
    kind: str = Field(
        default="", description="The kind of the object; not used to find the object."
    )
    name: str = Field(default="", description="The name of the object.")
    namespace: str = Field(default="", description="The namespace of the object.")

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.api_version, self.resource)


def access_to(
    reference: Any, *verbs: str, namespace: str = "", is_cluster_wide: bool | None = None
) -> list[Access]:
    """Return the permissions that `verbs` need on the object of a reference.

    `namespace` is used if the reference has none. Without either, the object is
    cluster-scoped, unless `is_cluster_wide` says otherwise.
    """
    if not isinstance(reference, Mapping):
        return []
    where = str(reference.get("namespace") or namespace)
    group, _ = group_version_of(str(reference.get("apiVersion") or ""))
    resource = str(reference.get("resource") or "")
    if not resource:
        resource = guess_plural(str(reference.get("kind") or ""))
    wide = not where if is_cluster_wide is None else is_cluster_wide
    name = str(reference.get("name") or "")
    return [Access(str(reference.get("group") or group), resource, verbs, where, name, wide)]


def as_output(resource: GroupVersionResource, name: str, namespace: str) -> dict[str, str]:
    """Return the outputs that identify an object for later phases. The kind is always empty."""
    return {
        "apiVersion": resource.version,
        "group": resource.group,
        "resource": resource.resource,
        "kind": "",
        "name": name,
        "namespace": namespace,
    }


def check_scope(cluster: Cluster, resource: GroupVersionResource, namespace: str) -> None:
    """Raise NotFound, like the API server, if the namespace does not fit the resource's scope."""
    if cluster.describe(resource).is_namespaced != bool(namespace):
        raise NotFound(
            "the server could not find the requested resource", resource=resource.group_resource
        )


def check_address(reference: ObjectReference) -> None:
    """Reject a reference with a field that cannot be part of a request path."""
    for field, problem in problems_with(reference.model_dump(by_alias=True)):
        message = f"objectReference.{field} is not valid: {problem}"
        raise UsageError(message, reason="InvalidReference")


def resolve_resource(cluster: Cluster, reference: ObjectReference) -> GroupVersionResource:
    """Find a resource by plural or kind, with the group in `group` or in `apiVersion`."""
    group, version = group_version_of(reference.api_version)
    group = reference.group or group
    if reference.resource:
        return GroupVersionResource(group, version, reference.resource)
    api_version = f"{group}/{version}" if group else version
    return cluster.resource_for(api_version, reference.kind).gvr


def was_created_by(ctx: PhaseContext, obj: KubeObject, part: str) -> bool:
    """Return True if this attempt, in an earlier process, or an earlier one created an object."""
    label = labels_of(obj).get(RUN_LABEL)
    attempts = range(1, ctx.run.attempt + 1)
    return any(label == ctx.run.key(part, attempt=attempt) for attempt in attempts)


def wait_until_gone(
    ctx: PhaseContext, resource: GroupVersionResource, name: str, namespace: str, uid: str
) -> None:
    """Wait until an object is gone; a new object of the same name is not waited for."""

    def is_gone() -> bool:
        try:
            existing = ctx.cluster.get(resource, name, namespace=namespace)
        except NotFound:
            return True
        return bool(uid) and existing["metadata"].get("uid") != uid

    ctx.wait(is_gone, what=f"the end of {resource.group_resource} {name}")


@contextmanager
def prefix_errors(prefix: str) -> Iterator[None]:
    """Add a prefix to the message of an ApiError."""
    try:
        yield
    except ApiError as error:
        error.args = (f"{prefix}: {error.message}",)
        raise
