"""Reconciler of composite resources.

It reads the resource and its composed resources, runs the pipeline of the selected revision,
and writes the differences: first the references to composed resources, then these resources,
then the status. It can be interrupted at any point: names are derived from the composite
resource, and the references are written before the objects are created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kanister_py.controller.compositions.children import ADOPT, Children, is_composed
from kanister_py.controller.compositions.pipelines import ComposedWithStatus, PipelineRunner
from kanister_py.controller.compositions.reconciliation import (
    Dependencies,
    Reconciliation,
    log_transition,
    synced_of,
    was_synced,
)
from kanister_py.controller.compositions.selection import CompositionSelector, Selection
from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.machine.events import NORMAL, WARNING
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.compositions.definitions import MACHINERY_KEY, machinery_of
from kanister_py.core.compositions.desired import Composed, connection_secret_of, observed_resources
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition
from kanister_py.core.compositions.naming import COMPOSITE, COMPOSITE_MANAGER
from kanister_py.core.compositions.pipeline import Observed
from kanister_py.core.compositions.results import (
    COMPOSE,
    DEPRECATED,
    CustomCondition,
    events_of_outcome,
)
from kanister_py.core.compositions.step_inputs import InputRef
from kanister_py.core.errors import Conflict, KanisterError, NotFound, UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.parts import (
    annotations_of,
    controller_reference,
    labels_of,
    spec_of,
    status_of,
)
from kanister_py.core.kube.resources import SECRETS
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import FunctionRevisionNotFound
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.run_pipeline import PipelineStepFailed, PipelineStepUnavailable
from kanister_py.ports.cluster import KubeObject, PatchType, find

FINALIZER: Final = "composite.apiextensions.crossplane.io"
_ORPHAN: Final = "orphan"
"""Finalizer of an object that is deleted without its dependents."""
ALLOW_EMPTY: Final = "kanister-py.io/allow-empty-desired"
PAUSED: Final = "crossplane.io/paused"
POLL_INTERVAL: Final = "crossplane.io/poll-interval"
RECONCILE_REQUESTED: Final = "crossplane.io/reconcile-requested-at"
_LEAST_POLL_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 1.0
"""A pipeline that takes longer does not run a second time before the status is written."""
_LOG: Final = logging.getLogger(__name__)


class _Recomposed(NamedTuple):
    """Result of running the pipeline again over the applied resources."""

    observed: Observed
    composed: Composed


class Outcome(NamedTuple):
    """Result of a reconciliation, for the worker to decide when to reconcile again.

    A failed one is retried with backoff.
    """

    again_seconds: float | None = None
    is_failed: bool = False
    requirements: Mapping[str, Data] = {}
    changed: str = ""
    """A composed object that changed after the pipeline ran, so that it has to run again."""
    unavailable: str = ""
    """The function revision that did not respond."""
    is_gone: bool = False
    is_postponed: bool = False
    """Whether the failure was not reported yet, because it may be over soon."""


class CompositeReconciler:
    """Reconciler of one kind of composite resource."""

    def __init__(
        self,
        part: PartTools,
        cache: ObjectCache,
        kind: Kind,
        selector: CompositionSelector,
        pipelines: PipelineRunner,
        composed_with: ComposedWithStatus,
        poll_seconds: float,
    ) -> None:
        self._part = part
        self._cluster, self._clock, self._post_event = part.cluster, part.clock, part.post_event
        self._cache = cache
        self._kind = kind
        self._selector = selector
        self._pipelines = pipelines
        self._composed_with = composed_with
        self._poll_seconds = poll_seconds
        self._resource = part.cluster.resource_for(kind.api_version, kind.kind).gvr
        self._objects = Children(part, cache)

    def reconcile(
        self,
        xr: KubeObject,
        requirements: Mapping[str, Data] | None = None,
        *,
        track: Callable[[Dependencies], None] = lambda _dependencies: None,
        flooded_by: str = "",
        may_postpone: bool = False,
        is_kind_ending: bool = False,
    ) -> Outcome:
        """Reconcile one composite resource.

        `track` is called with the dependencies before they are read or written, so that no
        change of them is missed. `flooded_by` names the object whose changes are rate limited.
        With `is_kind_ending`, finalizing deletes the composed resources, because objects whose
        owner has a deleted kind are not garbage collected. With `may_postpone`, an unavailable
        function is not reported yet if the resource was synced before.
        """
        run = Reconciliation(xr, self._clock, flooded_by, track)
        annotations = annotations_of(xr)
        if annotations.get(PAUSED) == "true":
            self._post_event(
                run.subject, NORMAL, "ReconciliationPaused", "Reconciliation is paused"
            )
            run.conditions.set("Synced", "False", "ReconcilePaused")
            self._write_status(run)
            return Outcome()
        if xr["metadata"].get("deletionTimestamp"):
            return self._finalize(run, is_kind_ending=is_kind_ending)
        self._handle_request(run, annotations)
        try:
            selection = self._selector.select(run)
            observed = self._observe(run)
            composed = self._pipelines.compose(
                selection.composition, observed, self._kind, requirements
            )
            if composed.error is None:
                self._refuse_empty(selection.composition, composed, observed)
            elif may_postpone and self._is_transient(composed.error) and was_synced(xr):
                return Outcome(
                    is_failed=True, is_postponed=True, unavailable=_unavailable(composed.error)
                )
            return self._apply(run, selection, observed, composed)
        except Conflict:
            # Another client has written the object: retry, without an event.
            raise
        except KanisterError as error:
            return self._report_failure(run, error, ())

    def _is_transient(self, error: KanisterError) -> bool:
        """Return whether a function will probably answer soon."""
        if isinstance(error, PipelineStepUnavailable):
            return True
        if not isinstance(error, PipelineStepFailed):
            return False
        # Waiting helps only if a revision that suits this step may still become healthy.
        return isinstance(error.cause, FunctionRevisionNotFound) and error.cause.may_come

    # Requests and deletion

    def _handle_request(self, run: Reconciliation, annotations: Mapping[str, str]) -> None:
        token = annotations.get(RECONCILE_REQUESTED)
        if token and run.status.get("lastHandledReconcileAt") != token:
            self._post_event(
                run.subject, NORMAL, "ReconcileRequestHandled", f"Handled the request {token}"
            )
            run.status["lastHandledReconcileAt"] = token

    def _finalize(self, run: Reconciliation, *, is_kind_ending: bool) -> Outcome:
        """Remove the finalizer; the garbage collector deletes the composed resources.

        Garbage collection does not work for a kind that is being deleted, so then they are
        deleted here, unless the user deleted the resource with `--cascade=orphan`.
        """
        finalizers = run.metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return Outcome(is_gone=True)
        composed = self._referenced(run)
        self._objects.release_adopted(composed)
        if is_kind_ending and _ORPHAN not in finalizers:
            self._objects.delete_owned(run, composed)
        remaining = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
        patch = {
            "metadata": {
                "finalizers": remaining,
                "resourceVersion": run.metadata["resourceVersion"],
            }
        }
        with suppress(NotFound):
            self._cache.remember(self._patch(run.xr, patch))
        return Outcome(is_gone=True)

    # Observed resources

    def _referenced(self, run: Reconciliation) -> list[KubeObject]:
        """Return the existing composed resources; objects without an owner are not adopted yet."""
        machinery = machinery_of(run.xr, legacy=self._kind.is_legacy)
        objects = []
        for ref in machinery.get("resourceRefs") or ():
            if not ref.get("name"):
                continue
            reference = dict(ref)
            if run.metadata.get("namespace"):
                reference["namespace"] = run.metadata["namespace"]
            live = self._cache.find(reference)
            if live is not None and is_composed(live, run.metadata["uid"]):
                objects.append(live)
        return objects

    def _observe(self, run: Reconciliation) -> Observed:
        objects = self._referenced(run)
        resources = observed_resources(run.xr, objects)
        details = {name: data for name, obj in resources.items() if (data := self._details_of(obj))}
        own = self._details_of(run.xr) if self._kind.is_legacy else {}
        return Observed(self._composite_for_functions(run), resources, own, details)

    def _composite_for_functions(self, run: Reconciliation) -> KubeObject:
        """Return the composite resource with the changes that precede composed resources.

        As in Crossplane, functions see the condition Responsive in the first reconciliation, too.
        """
        xr = copy_json(run.xr)
        xr["metadata"].setdefault("labels", {}).setdefault(COMPOSITE, xr["metadata"]["name"])
        spec = xr.setdefault("spec", {})
        target = spec if self._kind.is_legacy else spec.setdefault(MACHINERY_KEY, {})
        target.update(run.machinery)
        xr["status"] = {**status_of(xr), "conditions": copy_json(run.conditions.as_list())}
        composite: KubeObject = xr
        return composite

    def _details_of(self, obj: Mapping[str, Any]) -> Mapping[str, str]:
        secret = connection_secret_of(obj)
        return self._connection_details(*secret) if secret else {}

    def _connection_details(self, namespace: str, name: str) -> Mapping[str, str]:
        secret = find(self._cluster, SECRETS, name, namespace)
        return {} if secret is None else secret.get("data") or {}

    def _refuse_empty(
        self, composition: Composition, composed: Composed, observed: Observed
    ) -> None:
        if composed.resources or not composed.deleted:
            return
        if composition.annotations.get(ALLOW_EMPTY) != "true":
            count = len(observed.resources)
            raise UsageError(
                f"The pipeline desires no resources at all, which would delete {count} resource"
                f"{'s' if count != 1 else ''}; if that is intended, annotate the Composition with "
                f"{ALLOW_EMPTY}=true",
                reason="DesiredStateEmpty",
            )

    # Writing

    def _apply(
        self, run: Reconciliation, selection: Selection, observed: Observed, composed: Composed
    ) -> Outcome:
        self._report_results(run, composed)
        needs = _needs_of(selection.composition, run.subject.namespace)
        if composed.error is not None:
            kept = machinery_of(run.xr, legacy=self._kind.is_legacy).get("resourceRefs") or ()
            refs = tuple(ref for ref in kept if ref.get("name"))
            if refs or composed.requirements or needs:
                # Without any, the tracked dependencies of the previous reconciliation are kept.
                run.track(Dependencies(refs, composed.requirements, needs))
            self._write_selection(run)
            run.steps = [outcome.as_dict() for outcome in composed.outcomes]
            run.conditions.set_custom(composed.conditions)
            failure = UsageError(
                f"cannot compose resources: {composed.error.message}", reason="CompositionFailed"
            )
            unavailable = _unavailable(composed.error)
            failed = self._report_failure(run, failure, composed.conditions, unavailable)
            return failed._replace(requirements=composed.requirements)
        unsynced = self._write(run, selection, observed, composed)
        recomposed = (
            self._recompose(run, selection, composed) if run.changed and not unsynced else None
        )
        if recomposed is not None:
            run.restart()
            composed = recomposed.composed
            self._report_results(run, composed)
            unsynced = self._write(run, selection, recomposed.observed, composed)
        self._publish(run, composed)
        run.steps = [outcome.as_dict() for outcome in composed.outcomes]
        run.conditions.set_custom(composed.conditions)
        if self._kind.is_legacy:
            claim_types = sorted(
                condition.type for condition in composed.conditions if condition.is_for_claim
            )
            if claim_types:
                run.status["claimConditionTypes"] = claim_types
        unready = [name for name in composed.unready if name not in unsynced]
        for event in events_of_outcome(unsynced, unready):
            self._post_event(run.subject, event.type, event.reason, event.message)
        run.conditions.set_outcome(unsynced, composed.unready, composed.composite_ready)
        self._write_status(run, composed.status)
        self._composed_with.write(selection.revision, composed.outcomes)
        return Outcome(self._poll_after(run), bool(unsynced), composed.requirements, run.changed)

    def _report_results(self, run: Reconciliation, composed: Composed) -> None:
        """Post the results of functions as events, each one once in a reconciliation."""
        results = [(event.type, event.reason, event.message) for event in composed.events]
        results += [
            (WARNING, notice.reason, notice.message)
            for notice in composed.notices
            if notice.reason != DEPRECATED
        ]
        for result in results:
            if result not in run.results:
                run.results.append(result)
                self._post_event(run.subject, *result)
        for notice in run.conditions.set_deprecations(composed.notices):
            self._post_event(run.subject, WARNING, notice.reason, notice.message)
            self._report_deprecation(run.xr, notice)

    def _write(
        self, run: Reconciliation, selection: Selection, observed: Observed, composed: Composed
    ) -> list[str]:
        """Write everything but the status; return the names of resources that failed."""
        needs = _needs_of(selection.composition, run.subject.namespace)
        run.track(Dependencies(composed.refs, composed.requirements, needs))
        self._objects.delete_undesired(composed, observed.resources)
        adopt = selection.composition.annotations.get(ADOPT, "")
        conflicts = self._objects.find_conflicts(run, composed, observed.resources, adopt)
        self._write_refs(run, composed)
        return self._objects.apply_all(run, composed, observed.resources, conflicts)

    def _recompose(
        self, run: Reconciliation, selection: Selection, composed: Composed
    ) -> _Recomposed | None:
        """Run the pipeline over the resources that were just applied.

        The status then describes their new state. Returns None to leave that to the next
        reconciliation: after a failure, which is reported there, and for a slow pipeline.
        """
        if sum(outcome.seconds for outcome in composed.outcomes) > _SOON_SECONDS:
            return None
        try:
            observed = self._observe(run)
            recomposed = self._pipelines.compose(
                selection.composition, observed, self._kind, composed.requirements
            )
            self._refuse_empty(selection.composition, recomposed, observed)
        except Conflict:
            raise
        except KanisterError:
            return None
        return None if recomposed.error is not None else _Recomposed(observed, recomposed)

    def _report_deprecation(self, xr: KubeObject, notice: Notice) -> None:
        """Log and count a deprecated function of a pipeline."""
        metadata = xr["metadata"]
        namespace = metadata.get("namespace")
        path = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        _LOG.warning("%s %s: %s", self._kind.kind, path, notice.message)
        self._part.metrics.count_deprecated(
            notice.function, notice.version, str(notice.facts.get("removedIn", ""))
        )

    def _write_selection(self, run: Reconciliation) -> None:
        """Write the selected composition and revision although composing failed.

        They show the user what failed, a new Composition does not replace the selected one, and
        a resource with a Manual policy keeps its first revision.
        """
        if run.machinery:
            self._write_machinery(run, dict(run.machinery), {})

    def _write_refs(self, run: Reconciliation, composed: Composed) -> None:
        """Write references, finalizer and label with a single request."""
        metadata: dict[str, Any] = {}
        finalizers = run.metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        if COMPOSITE not in labels_of(run.xr):
            metadata["labels"] = {COMPOSITE: run.metadata["name"]}
        machinery = machinery_of(run.xr, legacy=self._kind.is_legacy)
        changed = dict(run.machinery)
        if list(composed.refs) != list(machinery.get("resourceRefs") or ()):
            changed["resourceRefs"] = list(composed.refs)
        if changed or metadata:
            self._write_machinery(run, changed, metadata)
            run.machinery.clear()

    def _write_machinery(
        self, run: Reconciliation, changed: dict[str, Any], metadata: dict[str, Any]
    ) -> None:
        patch: dict[str, Any] = {
            "metadata": {**metadata, "resourceVersion": run.metadata["resourceVersion"]}
        }
        if changed:
            patch["spec"] = changed if self._kind.is_legacy else {MACHINERY_KEY: changed}
        run.update(self._patch(run.xr, patch))
        self._cache.remember(run.xr)

    def _publish(self, run: Reconciliation, composed: Composed) -> None:
        """Write changed connection details of a legacy resource to its Secret."""
        reference = spec_of(run.xr).get("writeConnectionSecretToRef")
        if not self._kind.is_legacy or not isinstance(reference, Mapping):
            return
        keys = self._kind.connection_secret_keys
        details = {
            key: value
            for key, value in composed.connection_details.items()
            if not keys or key in keys
        }
        namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
        existing = self._connection_details(namespace, name)
        if not details or all(existing.get(key) == value for key, value in details.items()):
            return
        owner = controller_reference(run.xr)
        self._cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"namespace": namespace, "name": name, "ownerReferences": [owner]},
                "type": "connection.crossplane.io/v1alpha1",
                "data": {**existing, **details},
            },
            field_manager=COMPOSITE_MANAGER,
            force=True,
        )
        self._post_event(
            run.subject, NORMAL, "PublishConnectionSecret", "Published connection details"
        )
        run.status["connectionDetails"] = {"lastPublishedTime": text_of_time(self._clock.now())}

    # Status

    def _report_failure(
        self,
        run: Reconciliation,
        error: KanisterError,
        custom: Iterable[CustomCondition],
        unavailable: str = "",
    ) -> Outcome:
        message = error.message
        self._post_event(run.subject, WARNING, COMPOSE, message)
        run.conditions.set_after_failure(message, custom, is_judged=not unavailable)
        self._write_status(run)
        return Outcome(is_failed=True, unavailable=unavailable)

    def _write_status(self, run: Reconciliation, desired: Mapping[str, Any] | None = None) -> None:
        status = run.desired_status(desired)
        if status is None:
            return
        metadata = {"name": run.metadata["name"], "uid": run.metadata["uid"]}
        if run.metadata.get("namespace"):
            metadata["namespace"] = run.metadata["namespace"]
        written = self._cluster.apply(
            {
                "apiVersion": run.xr["apiVersion"],
                "kind": run.xr["kind"],
                "metadata": metadata,
                "status": status,
            },
            field_manager=COMPOSITE_MANAGER,
            force=True,
            subresource="status",
        )
        log_transition(run.subject, synced_of(run.xr), synced_of(written))
        run.update(written)
        self._cache.remember(written)

    def _poll_after(self, run: Reconciliation) -> float | None:
        interval = annotations_of(run.xr).get(POLL_INTERVAL)
        seconds = self._poll_seconds
        if interval:
            try:
                seconds = max(parse_seconds(interval), _LEAST_POLL_SECONDS)
            except KanisterError as error:
                path = f"metadata.annotations[{POLL_INTERVAL}]"
                message = f"{path} is ignored: {error.message}"
                self._post_event(run.subject, WARNING, "PollInterval", message)
        return seconds or None

    def _patch(self, xr: KubeObject, patch: Mapping[str, Any]) -> KubeObject:
        metadata = xr["metadata"]
        return self._cluster.patch(
            self._resource,
            metadata["name"],
            patch,
            namespace=metadata.get("namespace", ""),
            patch_type=PatchType.MERGE,
            field_manager=COMPOSITE_MANAGER,
        )


def _needs_of(composition: Composition, namespace: str) -> tuple[Data, ...]:
    """Return the selectors of resources that the composition itself requires."""
    steps = composition.steps
    refs = (step.input_ref for step in steps)
    inputs = tuple(ref.selector(namespace) for ref in refs if isinstance(ref, InputRef))
    return (*inputs, *(selector for step in steps for selector in step.required_resources.values()))


def _unavailable(error: KanisterError) -> str:
    return error.revision if isinstance(error, PipelineStepUnavailable) else ""
