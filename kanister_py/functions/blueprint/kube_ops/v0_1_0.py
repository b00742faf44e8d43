"""KubeOps v0.1.0: like v0.0.0, but `create` applies, and `patch` supports custom resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UnsupportedMediaType
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.functions.blueprint.kube_ops.v0_0_0 import (
    OPERATION_PATTERN,
    OPERATIONS,
    KubeOps,
    access_of,
    check_manifest,
    check_reference,
    create_once,
    delete_and_wait,
    documents_of,
    invalid_operation,
    labelled,
    manifests_in,
    metadata_of,
)
from kanister_py.functions.blueprint.references import ObjectReference, as_output, resolve_resource
from kanister_py.ports.cluster import KubeObject, PatchType
from kanister_py.ports.function import Func, PhaseContext
from kanister_py.ports.models import Args

_FIELD_MANAGER = "kanister-py"


class ObjectReferenceV010(ObjectReference):
    """Reference to an object, by the plural of its kind or by the kind itself."""

    api_version: str = Field(
        default="",
        description="The API version of the object, with or without the group: `apps/v1`.",
    )
    kind: str = Field(default="", description="The kind of the object, if `resource` is not set.")


class KubeOpsArgsV010(Args):
    """Arguments of KubeOps from v0.1.0 on."""

    operation: str = Field(
        description="The operation: `create`, `delete` or `patch`.",
        json_schema_extra={"pattern": OPERATION_PATTERN},
    )
    spec: str | dict[str, Any] | list[dict[str, Any]] = Field(
        default="",
        description="The objects to create, or the patch: as YAML or JSON text, as a map, or "
        "as a list of maps.",
    )
    namespace: str = Field(
        default="default", description="The namespace of objects that do not set one themselves."
    )
    object_reference: ObjectReferenceV010 | None = Field(
        default=None, description="The object to delete or patch."
    )
    force: bool = Field(
        default=False,
        description="Whether `create` takes ownership of fields that another field manager owns.",
    )


class KubeOpsV010(Func, parent=KubeOps):
    """Creates, deletes or patches Kubernetes objects.

    Like v0.0.0, with these differences:

    `create` is a server-side apply with the field manager `kanister-py`: an existing object
    is updated, and a field owned by another manager fails the phase unless `force` is set. A
    document with `generateName` creates a new object. The namespace of a document applies to
    that document only.

    `patch` is a merge patch for resources that do not support a strategic one.

    `delete` and `patch` support cluster-scoped objects, can find the resource by its `kind`,
    and use `namespace` if the reference has none.

    `spec` may be a map.
    """

    version: ClassVar = "v0.1.0"
    Args = KubeOpsArgsV010

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args, "get", "list", "create", "patch")

    def exec(self, ctx: PhaseContext, params: Any, args: KubeOpsArgsV010) -> Mapping[str, Any]:
        if args.operation not in OPERATIONS:
            raise invalid_operation(args.operation)
        if args.operation == "create":
            return self._create(ctx, args)
        reference = args.object_reference or ObjectReference()
        check_reference(reference, args.operation, by_kind=True)
        resource = resolve_resource(ctx.cluster, reference)
        namespace = ""
        if ctx.cluster.describe(resource).is_namespaced:
            namespace = reference.namespace or args.namespace
        if args.operation == "delete":
            delete_and_wait(ctx, resource, reference.name, namespace)
        else:
            [patch, *_] = manifests_in(documents_of(args.spec), args.operation)
            self._patch(ctx, resource, reference.name, namespace, patch)
        return as_output(resource, reference.name, namespace)

    def _create(self, ctx: PhaseContext, args: KubeOpsArgsV010) -> Mapping[str, Any]:
        output: Mapping[str, Any] = {}
        for index, manifest in enumerate(manifests_in(documents_of(args.spec), args.operation)):
            check_manifest(manifest)
            kind = ctx.cluster.resource_for(
                str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
            )
            metadata = metadata_of(manifest)
            own = str(metadata.get("namespace") or args.namespace)
            namespace = own if kind.is_namespaced else ""
            if metadata.get("name"):
                created = ctx.cluster.apply(
                    labelled(ctx, manifest, namespace, str(index)),
                    field_manager=_FIELD_MANAGER,
                    force=args.force,
                )
            else:
                created = create_once(
                    ctx, kind.gvr, manifest, namespace, str(index), _FIELD_MANAGER
                )
            created_metadata = created["metadata"]
            output = as_output(
                kind.gvr, created_metadata["name"], created_metadata.get("namespace", "")
            )
        return output

    def _patch(
        self,
        ctx: PhaseContext,
        resource: GroupVersionResource,
        name: str,
        namespace: str,
        patch: KubeObject,
    ) -> None:
        for patch_type in (PatchType.STRATEGIC, PatchType.MERGE):
            try:
                ctx.cluster.patch(
                    resource,
                    name,
                    patch,
                    namespace=namespace,
                    patch_type=patch_type,
                    field_manager=_FIELD_MANAGER,
                )
            except UnsupportedMediaType:
                if patch_type is PatchType.MERGE:
                    raise
            else:
                return
