"""References to objects as they are typed on a command line."""

from __future__ import annotations

from typing import Final

from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS, ResourceKind

# What an ActionSet calls by its kind alone; templates see more of these than of others.
_BY_KIND: Final = {
    "statefulset": "StatefulSet",
    "deployment": "Deployment",
    "deploymentconfig": "DeploymentConfig",
    "persistentvolumeclaim": "PVC",
    "namespace": "Namespace",
}
_FORMS: Final = "KIND/NAMESPACE/NAME, KIND/NAME, or GROUP/VERSION/RESOURCE/NAMESPACE/NAME"


def _invalid(text: str, why: str, forms: str = _FORMS) -> UsageError:
    message = f"{text!r} leads to no object: {why}; write {forms}"
    return UsageError(message, reason="InvalidReference")


def parse_object_reference(text: str, namespace: str = "default") -> ObjectReference:
    """Read `Deployment/shop/db`, `ns/shop`, `apps/v1/deployments/shop/db` or `v1/pods/shop/db`.

    Kinds may be written as their plurals or short names too. `namespace` is where
    an object is that names none.
    """
    parts = text.split("/")
    if not all(parts):
        raise _invalid(text, "a part of it is empty")
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
    found = _kind_of(word)
    if found is None:
        raise _invalid(text, f"no kind is called {word}")
    alone = _BY_KIND.get(found.kind.lower())
    if alone == "Namespace":
        # Templates read a namespace's name out of `namespace`.
        return ObjectReference(kind=alone, name=name, namespace=name)
    if alone is not None:
        return ObjectReference(kind=alone, name=name, namespace=namespace)
    return ObjectReference(
        api_version=found.gvr.version,
        group=found.gvr.group,
        resource=found.gvr.resource,
        name=name,
        namespace=namespace if found.is_namespaced else "",
    )


def _kind_of(word: str) -> ResourceKind | None:
    lower = word.lower()
    for each in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS):
        if lower in (each.kind.lower(), each.gvr.resource, *each.short_names):
            return each
    return None


def parse_named_reference(text: str, namespace: str = "default") -> tuple[str, ObjectReference]:
    """Read `ref=namespace/name` or `ref=name`: an object under the name a blueprint gives it."""
    reference, _, place = text.partition("=")
    if not reference or not place:
        raise _invalid(text, "it is no pair", "REF=NAMESPACE/NAME")
    return reference, parse_place(place, namespace)


def parse_place(text: str, namespace: str = "default") -> ObjectReference:
    """Read `namespace/name` or `name`."""
    where, slash, name = text.rpartition("/")
    if not name or "/" in where or (slash and not where):
        raise _invalid(text, "it names no object", "NAMESPACE/NAME or NAME")
    return ObjectReference(name=name, namespace=where or namespace)
