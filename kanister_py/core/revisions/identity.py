"""What makes a revision of a composition or of a function a new one? Its content and its labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from kanister_py.core.objects.names import MAX_LABEL, MAX_SUBDOMAIN

COMPOSITION_NAME_LABEL: Final = "crossplane.io/composition-name"
COMPOSITION_HASH_LABEL: Final = "crossplane.io/composition-hash"
SPEC_HASH_LABEL: Final = "crossplane.io/composition-spec-hash"
PACKAGE_LABEL: Final = "pkg.crossplane.io/package"

# What tools write on everything they touch, and what is written on revisions only.
_NOISE: Final = (
    "helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "crossplane.io/composition-",
    "pkg.crossplane.io/",
)
_HASH_IN_NAMES: Final = 7


def labels_that_count(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Leave out the labels that tools write for themselves."""
    return {key: value for key, value in (labels or {}).items() if not key.startswith(_NOISE)}


def composition_identity(spec: Mapping[str, Any], labels: Mapping[str, str] | None) -> str:
    """Hash what a composition says, the order of its keys aside.

    The spec of a revision may be given as well: its number is no content.
    """
    return _hash({"spec": _content(spec), "labels": labels_that_count(labels)})


def composition_spec_hash(spec: Mapping[str, Any]) -> str:
    """Hash what a composition does, whatever it is labelled."""
    return _hash(_content(spec))


def function_identity(digest: str, labels: Mapping[str, str] | None) -> str:
    """Hash which package a function is, and how whoever installed it labelled it."""
    return _hash({"digest": digest, "labels": labels_that_count(labels)})


def revision_name(owner: str, identity: str, taken: Collection[str] = ()) -> str:
    """Name a revision after its owner and its identity.

    `taken` are names that belong to other identities: the more of the hash tells apart.
    """
    return _name(owner, identity, taken, MAX_SUBDOMAIN)


def function_revision_name(function: str, identity: str, taken: Collection[str] = ()) -> str:
    """Name a revision of a function, so that a Service may have the same name."""
    return _name(function.replace(".", "-"), identity, taken, MAX_LABEL)


def _name(owner: str, identity: str, taken: Collection[str], limit: int) -> str:
    for length in range(_HASH_IN_NAMES, len(identity) + 1):
        kept = owner[: limit - length - 1].rstrip("-.")
        name = f"{kept}-{identity[:length]}"
        if name not in taken:
            return name
    return name


def _content(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "revision"}


def _hash(content: Any) -> str:
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Write one thing in one way: 3.0 is 3, and a key without a value is none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
