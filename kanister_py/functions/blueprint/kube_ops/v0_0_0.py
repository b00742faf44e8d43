"""KubeOps v0.0.0: creation, deletion and patches of Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import (
    AlreadyExists,
    InvalidDocument,
    KanisterError,
    NoMatch,
    NotFound,
    UsageError,
    did_you_mean,
)
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.parts import namespace_of
from kanister_py.core.kube.request_paths import problems_with
from kanister_py.core.kube.resources import (
    BUILTIN_KINDS,
    WELL_KNOWN_CUSTOM_KINDS,
    GroupVersionResource,
)
from kanister_py.core.templates.engines import is_template
from kanister_py.core.yaml.documents import Document, kind_of, nearest, parse_documents
from kanister_py.functions.blueprint.references import (
    RUN_LABEL,
    ObjectReference,
    access_to,
    as_output,
    check_address,
    check_scope,
    wait_until_gone,
    was_created_by,
)
from kanister_py.ports.cluster import KubeObject, PatchType
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs

OPERATIONS = ("create", "delete", "patch")
OPERATION_PATTERN = "|".join(OPERATIONS)
_FIELD_MANAGER = "kanister-create"
_KNOWN = {builtin.kind: builtin for builtin in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS)}


class KubeOpsArgs(Args):
    """Arguments of KubeOps."""

    operation: str = Field(
        description="The operation: `create`, `delete` or `patch`.",
        json_schema_extra={"pattern": OPERATION_PATTERN},
    )
    spec: str = Field(
        default="",
        description="The objects to create, as one or more YAML or JSON documents, or the patch.",
    )
    namespace: str = Field(
        default="default", description="The namespace of objects that do not set one themselves."
    )
    object_reference: ObjectReference | None = Field(
        default=None, description="The object to delete or patch."
    )


class KubeOpsOutputs(Outputs):
    """Outputs of KubeOps: the reference of the object, or of the last of several objects."""

    api_version: str = Field(description="The API version of the object, without the group.")
    group: str = Field(description="The API group of the object; empty for core resources.")
    resource: str = Field(description="The resource name: the plural of the kind.")
    kind: str = Field(description="Always empty.")
    name: str = Field(description="The name of the object.")
    namespace: str = Field(
        description="The namespace of the object; empty if it is cluster-scoped."
    )


class KubeOps(Func):
    """Creates, deletes or patches Kubernetes objects.

    `create` creates the documents in `spec` in order. An object that already exists fails the
    phase, and objects created before it remain. The namespace of a document also applies to
    the documents after it.

    `delete` waits, without a time limit, until the object in `objectReference` is gone. An
    object that does not exist or is cluster-scoped fails the phase.

    `patch` applies a strategic merge patch to one object; custom resources do not support
    these. The namespace is always that of `objectReference`.

    Created objects remain when the ActionSet is deleted. A phase that is resumed after a
    restart recognizes the objects that it has already created and deleted.
    """

    name = "KubeOps"
    version: ClassVar = "v0.0.0"
    Args = KubeOpsArgs
    Outputs = KubeOpsOutputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args, "create", "get", "list")

    @classmethod
    def refusals(cls, args: Mapping[str, Any]) -> Iterable[tuple[str, KanisterError]]:
        return _refusals_of(args)

    def exec(self, ctx: PhaseContext, params: Any, args: KubeOpsArgs) -> Mapping[str, Any]:
        reference = args.object_reference or ObjectReference()
        if args.operation == "create":
            return self._create(ctx, args.spec, args.namespace)
        if args.operation == "delete":
            check_reference(reference, args.operation)
            namespace = reference.namespace or args.namespace or "default"
            return self._delete(ctx, reference, namespace)
        if args.operation == "patch":
            check_reference(reference, args.operation)
            return self._patch(ctx, reference, args.spec)
        raise invalid_operation(args.operation)

    def _create(self, ctx: PhaseContext, spec: str, namespace: str) -> Mapping[str, Any]:
        output: Mapping[str, Any] = {}
        for index, manifest in enumerate(manifests_in(read_spec(spec), "create")):
            check_manifest(manifest)
            kind = ctx.cluster.resource_for(
                str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
            )
            own = namespace_of(manifest)
            namespace = own or namespace
            created = create_once(
                ctx, kind.gvr, manifest, namespace if kind.is_namespaced else "", str(index)
            )
            metadata = created["metadata"]
            output = as_output(kind.gvr, metadata["name"], metadata.get("namespace", ""))
        return output

    def _delete(
        self, ctx: PhaseContext, reference: ObjectReference, namespace: str
    ) -> Mapping[str, Any]:
        check_scope(ctx.cluster, reference.gvr, namespace)
        delete_and_wait(ctx, reference.gvr, reference.name, namespace)
        return as_output(reference.gvr, reference.name, namespace)

    def _patch(self, ctx: PhaseContext, reference: ObjectReference, spec: str) -> Mapping[str, Any]:
        patch = next(iter(manifests_in(read_spec(spec), "patch")))
        check_scope(ctx.cluster, reference.gvr, reference.namespace)
        patched = ctx.cluster.patch(
            reference.gvr,
            reference.name,
            patch,
            namespace=reference.namespace,
            patch_type=PatchType.STRATEGIC,
        )
        return as_output(reference.gvr, patched["metadata"]["name"], reference.namespace)


def access_of(args: Mapping[str, Any], *creating: str) -> list[Access] | None:
    """Return the permissions of an operation, or None if they depend on the rendered spec."""
    reference, namespace = args.get("objectReference"), str(args.get("namespace") or "default")
    if args.get("operation") == "delete":
        return access_to(reference, "get", "list", "watch", "delete", namespace=namespace)
    if args.get("operation") == "patch":
        return access_to(reference, "patch", namespace=namespace)
    spec = args.get("spec")
    if isinstance(spec, str) and is_template(spec):
        return None
    try:
        documents = documents_of(spec)
    except InvalidDocument:
        return None
    accesses: list[Access] = []
    for document in documents:
        for manifest in _flat(document, document.root.value):
            where = str(metadata_of(manifest).get("namespace") or namespace)
            builtin = _KNOWN.get(str(manifest.get("kind", "")))
            wide = builtin is not None and not builtin.is_namespaced
            accesses += access_to(
                manifest, *creating, namespace="" if wide else where, is_cluster_wide=wide
            )
    return accesses


def _refusals_of(args: Mapping[str, Any]) -> Iterator[tuple[str, KanisterError]]:
    """Yield errors for an unknown operation, and for manifests of unknown kinds."""
    operation, spec = args.get("operation"), args.get("spec")
    if isinstance(operation, str) and operation not in OPERATIONS:
        yield "operation", invalid_operation(operation)
    if operation != "create" or not spec:
        return
    try:
        manifests = manifests_in(documents_of(spec), operation)
    except UsageError as error:
        yield "spec", error
        return
    for manifest in manifests:
        version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
        # APIs of other groups may be installed later; these groups are complete on every cluster.
        kinds = [builtin.kind for builtin in BUILTIN_KINDS if builtin.gvr.api_version == version]
        if version in _WHOLE and kind not in kinds:
            hint = did_you_mean(nearest(kind, kinds))
            yield "spec", NoMatch(f'no matches for kind "{kind}" in version "{version}"{hint}')


_WHOLE = ("v1", "apps/v1", "batch/v1")


def invalid_operation(operation: str) -> UsageError:
    message = f"Invalid operation '{operation}'; use {', '.join(OPERATIONS)}"
    return UsageError(message, reason="InvalidOperation")


def _incomplete(operation: str, missing: Sequence[str]) -> UsageError:
    message = f"Operation {operation} needs {', '.join(missing)}"
    return UsageError(message, reason="IncompleteOperation")


def check_reference(reference: ObjectReference, operation: str, *, by_kind: bool = False) -> None:
    """Reject a reference that lacks fields of an operation; with `by_kind`, its kind is enough."""
    target = {"name": reference.name, "apiVersion": reference.api_version}
    if by_kind:
        target["resource or kind"] = reference.resource or reference.kind
    else:
        target["resource"] = reference.resource
    missing = [f"objectReference.{key}" for key, value in target.items() if not value]
    if missing:
        raise _incomplete(operation, missing)
    check_address(reference)


def read_spec(text: str) -> list[Document]:
    """Parse a spec as Kubernetes' tools do: of a duplicate key, the last value is used."""
    return parse_documents(text, "spec", repeated_keys_win=True)


def documents_of(spec: Any) -> list[Document]:
    """Return the documents of a spec that is a text, a map or a list of maps."""
    if isinstance(spec, str):
        return read_spec(spec)
    several = spec if isinstance(spec, list) else [spec]
    return [Document.of(text, "spec") for text in several if text]


def manifests_in(documents: Iterable[Document], operation: str) -> list[KubeObject]:
    """Yield every object of a spec, including the items of lists."""
    flat_manifests = [
        manifest for document in documents for manifest in _flat(document, document.root.value)
    ]
    if not flat_manifests:
        raise _incomplete(operation, ["spec"])
    return flat_manifests


def check_manifest(manifest: KubeObject) -> None:
    """Reject a manifest whose kind or name cannot be part of a request path."""
    metadata = metadata_of(manifest)
    address = {key: manifest.get(key) for key in ("apiVersion", "kind")}
    address |= {key: metadata.get(key) for key in ("name", "namespace")}
    for field, problem in problems_with(address):
        raise UsageError(f"spec has an invalid {field}: {problem}", reason="InvalidManifest")


def _flat(document: Document, value: Any) -> Iterator[KubeObject]:
    if not isinstance(value, dict):
        raise InvalidDocument([document.problem((), f"Wants an object, found {kind_of(value)}")])
    items = value.get("items")
    if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
        for item in items:
            yield from _flat(document, item)
    else:
        yield value


def metadata_of(manifest: KubeObject) -> Mapping[str, Any]:
    metadata = manifest.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def labelled(ctx: PhaseContext, manifest: KubeObject, namespace: str, part: str) -> KubeObject:
    """Set the namespace of an object, and record the attempt that creates it."""
    metadata = {**metadata_of(manifest)}
    metadata["labels"] = {**(metadata.get("labels") or {}), **ctx.labels(part)}
    if namespace:
        metadata["namespace"] = namespace
    return {**manifest, "metadata": metadata}


def create_once(
    ctx: PhaseContext,
    resource: GroupVersionResource,
    manifest: KubeObject,
    namespace: str,
    part: str,
    field_manager: str = _FIELD_MANAGER,
) -> KubeObject:
    """Create an object unless this attempt created it before its process ended."""
    metadata = metadata_of(manifest)
    name = str(metadata.get("name") or "")
    if not name and ctx.is_resumed:
        selector = f"{RUN_LABEL}={ctx.run.key(part)}"
        existing = ctx.cluster.list(resource, namespace=namespace, label_selector=selector).items
        if existing:
            return existing[0]
    labelled_manifest = labelled(ctx, manifest, namespace, part)
    try:
        return ctx.cluster.create(labelled_manifest, field_manager=field_manager)
    except AlreadyExists:
        obj = ctx.cluster.get(resource, name, namespace=namespace)
        if not was_created_by(ctx, obj, part):
            raise
        return obj


def delete_and_wait(
    ctx: PhaseContext, resource: GroupVersionResource, name: str, namespace: str
) -> None:
    """Delete an object and wait until it is gone.

    A missing object is an error, unless this attempt deleted it before its process
    ended.
    """
    try:
        deleted = ctx.cluster.delete(resource, name, namespace=namespace)
    except NotFound:
        if ctx.is_resumed:
            return
        raise
    wait_until_gone(ctx, resource, name, namespace, deleted["metadata"].get("uid", ""))
