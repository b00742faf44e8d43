"""ValidPipeline: whether the functions that a CompositionRevision calls can compose."""

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
    tell: PostEvent,
) -> KubeObject | None:
    """Have a revision say whether its pipeline is valid; give it if that had to be written.

    It is for people to read. Composing looks at the functions itself, so that it
    neither waits for this condition nor goes by one that is out of date.
    """
    if revision["metadata"].get("deletionTimestamp"):
        return None
    judgement = _judge(revision, functions)
    try:
        written = write_status(cluster, clock, revision, judgement, patched=COMPOSITION_REVISIONS)
    except NotFound:
        return None
    if written is revision:
        return None
    for each in judgement:
        if each["status"] == "False" and not _is_known(each, revision):
            tell(subject_of(revision), WARNING, _CHECKED, each["message"])
    return written


def _judge(
    revision: KubeObject, functions: Registry[FunctionRevision]
) -> Sequence[Mapping[str, Any]]:
    name = revision["metadata"]["name"]
    try:
        composition = parse_composition(Document.of(revision, f"compositionrevisions {name}"))
    except InvalidDocument as error:
        # Nobody knows what it would call.
        return [condition("Synced", "False", RECONCILE_ERROR, error.message)]
    synced = condition("Synced", "True", "ReconcileSuccess")
    foreseen = check_pipeline(composition.steps, functions)
    if foreseen.errors:
        # Of several, the first one gives its name to all.
        reason = next(iter(foreseen.errors.values())).reason
        messages = {step: [error.message] for step, error in foreseen.errors.items()}
        return [synced, condition(VALID_PIPELINE, "False", reason, _text_of(messages))]
    if foreseen.notices:
        messages = {
            step: [each.message for each in notices] for step, notices in foreseen.notices.items()
        }
        return [synced, condition(VALID_PIPELINE, "True", DEPRECATED, _text_of(messages))]
    return [synced, condition(VALID_PIPELINE, "True", "ValidPipeline")]


def _text_of(by_step: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f'Pipeline step "{step}": {each}' for step, messages in by_step.items() for each in messages
    )


def _is_known(wanted: Mapping[str, Any], revision: KubeObject) -> bool:
    """Say whether a condition stood there before, in the same words."""
    return any(wanted.items() <= each.items() for each in conditions_of(revision))
