"""CompositionRevisions: made, raised or found for what a Composition says now."""

from __future__ import annotations

from typing import Any, Final

from kanister_py.controller.machine.events import NORMAL, WARNING, PostEvent, Subject, subject_of
from kanister_py.core.errors import AlreadyExists, Conflict
from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.parts import (
    annotations_of,
    controller_of,
    controller_reference,
    is_controlled_by,
    labels_of,
    spec_of,
    with_controller,
)
from kanister_py.core.revisions.identity import (
    COMPOSITION_HASH_LABEL,
    COMPOSITION_NAME_LABEL,
    SPEC_HASH_LABEL,
    Change,
    Numbered,
    composition_identity,
    composition_spec_hash,
    number_revision,
    revision_name,
)
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS
from kanister_py.ports.cluster import Cluster, KubeObject, PatchType, find

_CREATED: Final = "CreateRevision"
_RAISED: Final = "UpdateRevision"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def reconcile_composition(cluster: Cluster, name: str, tell: PostEvent) -> str:
    """Make, raise or find the revision of a Composition; give its name.

    Empty if there is no Composition to have one. Two that do this at once end with one
    revision: its name follows from what it says.
    """
    composition = find(cluster, COMPOSITIONS, name)
    if composition is None or composition["metadata"].get("deletionTimestamp"):
        return ""
    revisions = cluster.list(
        COMPOSITION_REVISIONS, label_selector=f"{COMPOSITION_NAME_LABEL}={name}"
    ).items
    subject = subject_of(composition)
    ours = {
        each["metadata"]["name"]: each for each in revisions if not _is_foreign(each, composition)
    }
    for each in revisions:
        if each["metadata"]["name"] not in ours:
            other = controller_of(each) or {}
            tell(
                subject,
                WARNING,
                _RAISED,
                f"Revision {each['metadata']['name']} is controlled by {other.get('kind')} "
                f"{other.get('name')}; it is left alone",
            )
    identity = composition_identity(spec_of(composition), labels_of(composition))
    existing = {name: _numbered(each, composition) for name, each in ours.items()}
    plan = number_revision(identity, list(existing.values()))
    for orphan in plan.adopted:
        ours[orphan] = cluster.replace(with_controller(ours[orphan], composition))
    if plan.change is Change.NONE:
        return plan.name
    if plan.change is Change.RAISE:
        return _raise(cluster, ours[plan.name], plan.number, subject, tell)
    taken = {each["metadata"]["name"] for each in revisions} - {
        each for each, found in existing.items() if found.identity == identity
    }
    return _create(cluster, composition, identity, plan.number, taken, tell)


def _is_foreign(revision: KubeObject, composition: KubeObject) -> bool:
    """Say whether another owner controls a revision; an owner that was made anew does not."""
    owner = controller_of(revision)
    if owner is None or is_controlled_by(revision, composition):
        return False
    return (owner.get("kind"), owner.get("name")) != (
        composition["kind"],
        composition["metadata"]["name"],
    )


def _numbered(revision: KubeObject, composition: KubeObject) -> Numbered:
    spec = spec_of(revision)
    metadata = revision["metadata"]
    return Numbered(
        metadata["name"],
        int(spec.get("revision") or 0),
        composition_identity(spec, metadata.get("labels")),
        not is_controlled_by(revision, composition),
    )


def _raise(
    cluster: Cluster, revision: KubeObject, number: int, subject: Subject, tell: PostEvent
) -> str:
    metadata = revision["metadata"]
    # Over this very version: a controller that raised one meanwhile makes us look again.
    cluster.patch(
        COMPOSITION_REVISIONS,
        metadata["name"],
        {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "spec": {"revision": number},
        },
        patch_type=PatchType.MERGE,
    )
    tell(subject, NORMAL, _RAISED, f"Revision {metadata['name']} is in force again as {number}")
    name: str = metadata["name"]
    return name


def _create(
    cluster: Cluster,
    composition: KubeObject,
    identity: str,
    number: int,
    taken: set[str],
    tell: PostEvent,
) -> str:
    owner = composition["metadata"]["name"]
    name = revision_name(owner, identity, taken)
    try:
        cluster.create(_revision_of(composition, name, identity, number))
    except AlreadyExists:
        # Another controller was faster, or the name is another Composition's: look again.
        found = cluster.get(COMPOSITION_REVISIONS, name)
        labels = labels_of(found)
        if labels.get(COMPOSITION_NAME_LABEL) == owner:
            raise Conflict(f"CompositionRevision {name} has just been made") from None
        return _create(cluster, composition, identity, number, {*taken, name}, tell)
    tell(subject_of(composition), NORMAL, _CREATED, f"Created new revision {name} as {number}")
    return name


def _revision_of(composition: KubeObject, name: str, identity: str, number: int) -> dict[str, Any]:
    metadata = composition["metadata"]
    spec = spec_of(composition)
    annotations = {**annotations_of(composition)}
    annotations.pop(_LAST_APPLIED, None)
    made: dict[str, Any] = {
        "apiVersion": COMPOSITION_REVISIONS.api_version,
        "kind": "CompositionRevision",
        "metadata": {
            "name": name,
            "labels": {
                **labels_of(composition),
                COMPOSITION_NAME_LABEL: metadata["name"],
                COMPOSITION_HASH_LABEL: identity[:MAX_LABEL],
                SPEC_HASH_LABEL: composition_spec_hash(spec)[:MAX_LABEL],
            },
            "ownerReferences": [controller_reference(composition)],
        },
        "spec": {**spec, "revision": number},
    }
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made
