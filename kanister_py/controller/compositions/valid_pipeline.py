"""ValidPipeline: the condition on whether the functions of a CompositionRevision can compose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kanister_py.controller.machine.events import WARNING, PostEvent, subject_of
from kanister_py.controller.machine.writing import condition, write_status
from kanister_py.core.compositions.capabilities import check_pipeline
from kanister_py.core.compositions.model import parse_composition
from kanister_py.core.compositions.results import DEPRECATED, RECONCILE_ERROR
from kanister_py.core.errors import InvalidDocument, NotFound
from kanister_py.core.kube.parts import conditions_of
from kanister_py.core.registry.entries import FunctionRevision, Registry
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.core.yaml.documents import Document
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

VALID_PIPELINE: Final = "ValidPipeline"
_CHECKED: Final = "CheckCapabilities"


def reconcile_composition_revision(
    cluster: Cluster,
    clock: Clock,
    revision: KubeObject,
    functions: Registry[FunctionRevision],
    post_event: PostEvent,
) -> KubeObject | None:
    """Set the condition ValidPipeline of a revision; return the revision if it was written.

    The condition is for people. Composing checks the functions itself, so it neither waits for
    this condition nor relies on an outdated one.
    """
    if revision["metadata"].get("deletionTimestamp"):
        return None
    findings = _check(revision, functions)
    try:
        written = write_status(cluster, clock, revision, findings, patched=COMPOSITION_REVISIONS)
    except NotFound:
        return None
    if written is revision:
        return None
    for finding in findings:
        if finding["status"] == "False" and not _has_condition(revision, finding):
            post_event(subject_of(revision), WARNING, _CHECKED, finding["message"])
    return written


def _check(
    revision: KubeObject, functions: Registry[FunctionRevision]
) -> Sequence[Mapping[str, Any]]:
    name = revision["metadata"]["name"]
    try:
        composition = parse_composition(Document.of(revision, f"compositionrevisions {name}"))
    except InvalidDocument as error:
        # The functions that it calls are unknown.
        return [condition("Synced", "False", RECONCILE_ERROR, error.message)]
    synced = condition("Synced", "True", "ReconcileSuccess")
    checked = check_pipeline(composition.steps, functions)
    if checked.errors:
        # The condition has one reason: that of the first error.
        reason = next(iter(checked.errors.values())).reason
        messages = {step: [error.message] for step, error in checked.errors.items()}
        return [synced, condition(VALID_PIPELINE, "False", reason, _text_of(messages))]
    if checked.notices:
        messages = {
            step: [notice.message for notice in notices]
            for step, notices in checked.notices.items()
        }
        return [synced, condition(VALID_PIPELINE, "True", DEPRECATED, _text_of(messages))]
    return [synced, condition(VALID_PIPELINE, "True", "ValidPipeline")]


def _text_of(by_step: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f'Pipeline step "{step}": {message}'
        for step, messages in by_step.items()
        for message in messages
    )


def _has_condition(revision: KubeObject, finding: Mapping[str, Any]) -> bool:
    """Return whether a revision already has a condition with the same message."""
    return any(finding.items() <= existing.items() for existing in conditions_of(revision))
