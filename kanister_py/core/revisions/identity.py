"""Identity of revisions: hashes of content and labels; and their names and numbers."""

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
    """Hash the content of a composition, the order of its keys aside.

    The spec of a revision may be given as well: its number is no content.
    """
    return _hash({"spec": _content(spec), "labels": labels_that_count(labels)})


def composition_spec_hash(spec: Mapping[str, Any]) -> str:
    """Hash what a composition does, whatever it is labelled."""
    return _hash(_content(spec))


def function_identity(digest: str, labels: Mapping[str, str] | None) -> str:
    """Hash which package a function is, and how it was labelled when it was installed."""
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
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Write one thing in one way: 3.0 is 3, and a key without a value is none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# Numbers


class Numbered(NamedTuple):
    """A revision that exists. One that was `orphaned` by a restore has lost its owner."""

    name: str
    number: int
    identity: str
    is_orphaned: bool = False


class Change(StrEnum):
    """Change that puts the wanted revision in force."""

    NONE = "none"
    RAISE = "raise"
    CREATE = "create"


class Numbering(NamedTuple):
    """The revision in force, its number, and what is to be written for that.

    `adopted` are those whose owner must be written on them again.
    """

    change: Change
    number: int
    name: str = ""
    adopted: tuple[str, ...] = ()


def number_revision(identity: str, existing: Sequence[Numbered]) -> Numbering:
    """Find or number the revision of what the owner says now.

    Numbers only rise. Content that was there before keeps its revision, which gets the
    next number. Of two with one content the higher one counts, so that nothing is
    written again and again.
    """
    adopted = tuple(sorted(each.name for each in existing if each.is_orphaned))
    latest = max((each.number for each in existing), default=0)
    same = [each for each in existing if each.identity == identity]
    if not same:
        return Numbering(Change.CREATE, latest + 1, "", adopted)
    found = max(same, key=lambda each: (each.number, each.name))
    rivals = [each for each in existing if each.number >= found.number and each is not found]
    if rivals:
        return Numbering(Change.RAISE, latest + 1, found.name, adopted)
    return Numbering(Change.NONE, found.number, found.name, adopted)
