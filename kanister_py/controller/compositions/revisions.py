"""CompositionRevisions: creating or renumbering the revision of a Composition's current spec."""

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
    name_of,
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
_UPDATED: Final = "UpdateRevision"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def reconcile_composition(cluster: Cluster, name: str, post_event: PostEvent) -> str:
    """Create, renumber or find the revision of a Composition; return its name.

    Returns an empty string if the Composition does not exist or is being deleted. Concurrent
    calls end up with one revision, because its name is derived from its content.
    """
    composition = find(cluster, COMPOSITIONS, name)
    if composition is None or composition["metadata"].get("deletionTimestamp"):
        return ""
    revisions = cluster.list(
        COMPOSITION_REVISIONS, label_selector=f"{COMPOSITION_NAME_LABEL}={name}"
    ).items
    subject = subject_of(composition)
    ours = {
        revision["metadata"]["name"]: revision
        for revision in revisions
        if not _is_foreign(revision, composition)
    }
    for revision in revisions:
        if name_of(revision) not in ours:
            controller = controller_of(revision) or {}
            post_event(
                subject,
                WARNING,
                _UPDATED,
                f"Revision {name_of(revision)} is controlled by {controller.get('kind')} "
                f"{controller.get('name')}; it is ignored",
            )
    identity = composition_identity(spec_of(composition), labels_of(composition))
    existing = {name: _numbered(revision, composition) for name, revision in ours.items()}
    plan = number_revision(identity, list(existing.values()))
    for orphan in plan.adopted:
        ours[orphan] = cluster.replace(with_controller(ours[orphan], composition))
    if plan.change is Change.NONE:
        return plan.name
    if plan.change is Change.RAISE:
        return _raise(cluster, ours[plan.name], plan.number, subject, post_event)
    taken_names = {revision["metadata"]["name"] for revision in revisions} - {
        name for name, numbered in existing.items() if numbered.identity == identity
    }
    return _create(cluster, composition, identity, plan.number, taken_names, post_event)


def _is_foreign(revision: KubeObject, composition: KubeObject) -> bool:
    """Return whether another object controls a revision.

    A Composition that was deleted and created again is not another object.
    """
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
    cluster: Cluster, revision: KubeObject, number: int, subject: Subject, post_event: PostEvent
) -> str:
    metadata = revision["metadata"]
    # With the version that was read, so that a concurrent change leads to a retry.
    cluster.patch(
        COMPOSITION_REVISIONS,
        metadata["name"],
        {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "spec": {"revision": number},
        },
        patch_type=PatchType.MERGE,
    )
    post_event(
        subject, NORMAL, _UPDATED, f"Revision {metadata['name']} is current again as {number}"
    )
    name: str = metadata["name"]
    return name


def _create(
    cluster: Cluster,
    composition: KubeObject,
    identity: str,
    number: int,
    taken_names: set[str],
    post_event: PostEvent,
) -> str:
    owner = composition["metadata"]["name"]
    name = revision_name(owner, identity, taken_names)
    try:
        cluster.create(_revision_of(composition, name, identity, number))
    except AlreadyExists:
        # Another controller has created it, or the name belongs to another Composition.
        existing = cluster.get(COMPOSITION_REVISIONS, name)
        labels = labels_of(existing)
        if labels.get(COMPOSITION_NAME_LABEL) == owner:
            raise Conflict(f"CompositionRevision {name} has just been created") from None
        return _create(cluster, composition, identity, number, {*taken_names, name}, post_event)
    post_event(
        subject_of(composition), NORMAL, _CREATED, f"Created new revision {name} as {number}"
    )
    return name


def _revision_of(composition: KubeObject, name: str, identity: str, number: int) -> dict[str, Any]:
    metadata = composition["metadata"]
    spec = spec_of(composition)
    annotations = {**annotations_of(composition)}
    annotations.pop(_LAST_APPLIED, None)
    revision: dict[str, Any] = {
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
        revision["metadata"]["annotations"] = annotations
    return revision
