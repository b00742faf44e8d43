"""Parser for object references on the command line."""

from __future__ import annotations

from typing import Final

from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS, ResourceKind

# Kinds that Kanister knows by name, so a reference needs no group, version and resource. Templates
# provide more data about objects of these kinds.
_BY_KIND: Final = {
    "statefulset": "StatefulSet",
    "deployment": "Deployment",
    "deploymentconfig": "DeploymentConfig",
    "persistentvolumeclaim": "PVC",
    "namespace": "Namespace",
}
_FORMS: Final = "KIND/NAMESPACE/NAME, KIND/NAME, or GROUP/VERSION/RESOURCE/NAMESPACE/NAME"


def _invalid(text: str, why: str, forms: str = _FORMS) -> UsageError:
    message = f"{text!r} is not a reference to an object: {why}; write {forms}"
    return UsageError(message, reason="InvalidReference")


def parse_object_reference(text: str, namespace: str = "default") -> ObjectReference:
    """Parse `Deployment/shop/db`, `ns/shop`, `apps/v1/deployments/shop/db` or `v1/pods/shop/db`.

    Plurals and short names of kinds are accepted. `namespace` is the default namespace.
    """
    parts = text.split("/")
    if not all(parts):
        raise _invalid(text, "one of its parts is empty")
    match parts:
        case [kind, name]:
            return _of_kind(text, kind, namespace, name)
        case [kind, where, name]:
            return _of_kind(text, kind, where, name)
        case [version, resource, where, name]:
            return ObjectReference(
                api_version=version, resource=resource, namespace=where, name=name
            )
        case [group, version, resource, where, name]:
            return ObjectReference(
                api_version=version, group=group, resource=resource, namespace=where, name=name
            )
    raise _invalid(text, f"it has {len(parts)} parts")


def _of_kind(text: str, word: str, namespace: str, name: str) -> ObjectReference:
    resource_kind = _kind_of(word)
    if resource_kind is None:
        raise _invalid(text, f"there is no kind {word}")
    builtin_name = _BY_KIND.get(resource_kind.kind.lower())
    if builtin_name == "Namespace":
        # Templates read the name of a Namespace from `namespace`.
        return ObjectReference(kind=builtin_name, name=name, namespace=name)
    if builtin_name is not None:
        return ObjectReference(kind=builtin_name, name=name, namespace=namespace)
    return ObjectReference(
        api_version=resource_kind.gvr.version,
        group=resource_kind.gvr.group,
        resource=resource_kind.gvr.resource,
        name=name,
        namespace=namespace if resource_kind.is_namespaced else "",
    )


def _kind_of(word: str) -> ResourceKind | None:
    lower = word.lower()
    for kind in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS):
        if lower in (kind.kind.lower(), kind.gvr.resource, *kind.short_names):
            return kind
    return None


def parse_named_reference(text: str, namespace: str = "default") -> tuple[str, ObjectReference]:
    """Parse `ref=namespace/name` or `ref=name`, where `ref` is the name in the Blueprint."""
    reference, _, place = text.partition("=")
    if not reference or not place:
        raise _invalid(text, "the name or the reference is missing", "REF=NAMESPACE/NAME")
    return reference, parse_place(place, namespace)


def parse_place(text: str, namespace: str = "default") -> ObjectReference:
    """Parse `namespace/name` or `name`."""
    where, slash, name = text.rpartition("/")
    if not name or "/" in where or (slash and not where):
        raise _invalid(text, "the name is missing", "NAMESPACE/NAME or NAME")
    return ObjectReference(name=name, namespace=where or namespace)
