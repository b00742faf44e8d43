"""Identity of revisions: hashes of content and labels, names and numbers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from kanister_py.core.kube.names import MAX_LABEL, MAX_SUBDOMAIN

COMPOSITION_NAME_LABEL: Final = "crossplane.io/composition-name"
COMPOSITION_HASH_LABEL: Final = "crossplane.io/composition-hash"
SPEC_HASH_LABEL: Final = "crossplane.io/composition-spec-hash"
PACKAGE_LABEL: Final = "pkg.crossplane.io/package"

# Prefixes of labels that tools add to all objects, or that only revisions have.
_NOISE: Final = (
    "helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "crossplane.io/composition-",
    "pkg.crossplane.io/",
)
_HASH_IN_NAMES: Final = 7


def content_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels that belong to the content: without labels of tools and of revisions."""
    return {key: value for key, value in (labels or {}).items() if not key.startswith(_NOISE)}


def composition_identity(spec: Mapping[str, Any], labels: Mapping[str, str] | None) -> str:
    """Hash the content of a composition. The order of keys does not matter.

    The spec of a revision has the same hash, since its number is left out.
    """
    return _hash({"spec": _content(spec), "labels": content_labels(labels)})


def composition_spec_hash(spec: Mapping[str, Any]) -> str:
    """Hash the spec of a composition, without its labels."""
    return _hash(_content(spec))


def function_identity(digest: str, labels: Mapping[str, str] | None) -> str:
    """Hash the package of a function and its labels at installation."""
    return _hash({"digest": digest, "labels": content_labels(labels)})


def revision_name(owner: str, identity: str, used_names: Collection[str] = ()) -> str:
    """Return the name of a revision: its owner and the beginning of its hash.

    `used_names` belong to other identities. On a collision, more of the hash is used.
    """
    return _name(owner, identity, used_names, MAX_SUBDOMAIN)


def function_revision_name(function: str, identity: str, used_names: Collection[str] = ()) -> str:
    """Return the name of a function's revision, which is also valid for a Service."""
    return _name(function.replace(".", "-"), identity, used_names, MAX_LABEL)


def _name(owner: str, identity: str, used_names: Collection[str], limit: int) -> str:
    for length in range(_HASH_IN_NAMES, len(identity) + 1):
        kept = owner[: limit - length - 1].rstrip("-.")
        name = f"{kept}-{identity[:length]}"
        if name not in used_names:
            return name
    return name


def _content(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "revision"}


def _hash(content: Any) -> str:
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Normalize a value: 3.0 becomes 3, and keys without a value are left out."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# Numbers


class Numbered(NamedTuple):
    """An existing revision. `is_orphaned` is set if a restore removed its owner reference."""

    name: str
    number: int
    identity: str
    is_orphaned: bool = False


class Change(StrEnum):
    """Change that makes a revision the current one."""

    NONE = "none"
    RAISE = "raise"
    CREATE = "create"


class Numbering(NamedTuple):
    """The current revision, its number, and the required change.

    `adopted` are the revisions whose owner reference must be restored.
    """

    change: Change
    number: int
    name: str = ""
    adopted: tuple[str, ...] = ()


def number_revision(identity: str, existing: Sequence[Numbered]) -> Numbering:
    """Find the revision with the owner's current content, or number a new one.

    Numbers only increase. If the owner returns to earlier content, the existing revision of that
    content gets the next number. If two revisions have the same content, the one with the higher
    number is used; otherwise both would be raised in turn, endlessly.
    """
    adopted = tuple(sorted(revision.name for revision in existing if revision.is_orphaned))
    latest = max((revision.number for revision in existing), default=0)
    same = [revision for revision in existing if revision.identity == identity]
    if not same:
        return Numbering(Change.CREATE, latest + 1, "", adopted)
    current = max(same, key=lambda revision: (revision.number, revision.name))
    rivals = [
        revision
        for revision in existing
        if revision.number >= current.number and revision is not current
    ]
    if rivals:
        return Numbering(Change.RAISE, latest + 1, current.name, adopted)
    return Numbering(Change.NONE, current.number, current.name, adopted)
