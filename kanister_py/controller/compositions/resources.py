"""Reconciling a composite resource: all that it asks for is there, and nothing else.

One pass looks at the resource and at what it composed before, runs the pipeline of the
revision that it holds, and writes what differs: first which resources there are, then
those, then its status. A pass that is cut short anywhere ends the next time in the same
place, since every name follows from the resource and nothing is made that is not first
written down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kanister_py.controller.compositions.children import ADOPT, Children, is_composed
from kanister_py.controller.compositions.one_pass import (
    Dependencies,
    Pass,
    log_turn,
    synced_of,
    was_synced,
)
from kanister_py.controller.compositions.pipelines import ComposedWithStatus, PipelineRunner
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
from kanister_py.core.kube.parts import annotations_of, controller_reference, labels_of, spec_of
from kanister_py.core.kube.resources import SECRETS
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import FunctionRevisionNotFound
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.run_pipeline import PipelineStepFailed, PipelineStepUnavailable
from kanister_py.ports.cluster import KubeObject, PatchType, find

FINALIZER: Final = "composite.apiextensions.crossplane.io"
_ORPHAN: Final = "orphan"
"""The finalizer of what is deleted without what it owns."""
ALLOW_EMPTY: Final = "kanister-py.io/allow-empty-desired"
PAUSED: Final = "crossplane.io/paused"
POLL_INTERVAL: Final = "crossplane.io/poll-interval"
RECONCILE_REQUESTED: Final = "crossplane.io/reconcile-requested-at"
_LEAST_POLL_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 1.0
"""Functions that take longer are not called a second time before the status is written."""
_LOG: Final = logging.getLogger(__name__)


class _Recomposed(NamedTuple):
    """What was there, and what composing over it came to."""

    observed: Observed
    composed: Composed


class Outcome(NamedTuple):
    """What a pass leaves to be done.

    `is_failed` asks for another look soon, later and later the more often it fails.
    """

    again_seconds: float | None = None
    is_failed: bool = False
    requirements: Mapping[str, Data] = {}
    changed: str = ""
    """One composed object that was changed, and not looked at since: that is for the next pass."""
    unavailable: str = ""
    """The revision of a function that would have had to answer, and did not."""
    is_gone: bool = False
    is_postponed: bool = False
    """Whether the failure is nobody's news yet."""


class CompositeReconciler:
    """Reconciler of one kind of composite resource: it composes what they ask for."""

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
        self._cluster, self._clock, self._tell = part.cluster, part.clock, part.post_event
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
        remembered: Mapping[str, Data] | None = None,
        *,
        track: Callable[[Dependencies], None] = lambda _dependencies: None,
        flooded_by: str = "",
        is_patient: bool = False,
        is_kind_ending: bool = False,
    ) -> Outcome:
        """Bring one composite resource to rest.

        `track` hears what it depends on before anything of that is looked at or written, so
        that no change of it goes unheard.
        `flooded_by` says whose changes are so many that not each of them is followed at once.
        One whose kind ends takes along what it composed: nobody collects what is owned by
        a kind that is gone. With `is_patient`, a function that is away for a
        moment is not reported, if all was well.
        """
        run = Pass(xr, self._clock, flooded_by, track)
        annotations = annotations_of(xr)
        if annotations.get(PAUSED) == "true":
            self._tell(run.subject, NORMAL, "ReconciliationPaused", "Reconciliation is paused")
            run.conditions.set("Synced", "False", "ReconcilePaused")
            self._write_status(run)
            return Outcome()
        if xr["metadata"].get("deletionTimestamp"):
            return self._let_go(run, is_kind_ending=is_kind_ending)
        self._note_request(run, annotations)
        try:
            chosen = self._selector.select(run)
            observed = self._observe(run)
            composed = self._pipelines.compose(chosen.composition, observed, self._kind, remembered)
            if composed.error is None:
                self._refuse_emptiness(chosen.composition, composed, observed)
            elif is_patient and self._is_passing(composed.error) and was_synced(xr):
                return Outcome(
                    is_failed=True, is_postponed=True, unavailable=_unavailable(composed.error)
                )
            return self._carry_out(run, chosen, observed, composed)
        except Conflict:
            # Another client was faster: nobody's news, look again.
            raise
        except KanisterError as error:
            return self._say_failure(run, error, ())

    def _is_passing(self, error: KanisterError) -> bool:
        """Say whether a function will most likely answer in a moment."""
        if isinstance(error, PipelineStepUnavailable):
            return True
        if not isinstance(error, PipelineStepFailed):
            return False
        # Another revision of the function that comes up is no hope for this step.
        return isinstance(error.cause, FunctionRevisionNotFound) and error.cause.may_come

    # Beginning and end

    def _note_request(self, run: Pass, annotations: Mapping[str, str]) -> None:
        token = annotations.get(RECONCILE_REQUESTED)
        if token and run.status.get("lastHandledReconcileAt") != token:
            self._tell(
                run.subject, NORMAL, "ReconcileRequestHandled", f"Handled the request {token}"
            )
            run.status["lastHandledReconcileAt"] = token

    def _let_go(self, run: Pass, *, is_kind_ending: bool) -> Outcome:
        """Let a composite resource end: what it composed is its own, and ends after it.

        Unless the user who deleted it wants that left: where its kind ends, too, nobody else
        takes it along.
        """
        finalizers = run.metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return Outcome(is_gone=True)
        composed = self._referred(run)
        self._objects.release_adopted(composed)
        if is_kind_ending and _ORPHAN not in finalizers:
            self._objects.take_along(run, composed)
        left = [each for each in finalizers if each != FINALIZER]
        patch = {
            "metadata": {"finalizers": left, "resourceVersion": run.metadata["resourceVersion"]}
        }
        with suppress(NotFound):
            self._cache.remember(self._patch(run.xr, patch))
        return Outcome(is_gone=True)

    # What it is composed with, and what is there

    def _referred(self, run: Pass) -> list[KubeObject]:
        """Give what a resource refers to and is there; what is nobody's is not its own yet."""
        machinery = machinery_of(run.xr, legacy=self._kind.is_legacy)
        objects = []
        for each in machinery.get("resourceRefs") or ():
            if not each.get("name"):
                continue
            reference = dict(each)
            if run.metadata.get("namespace"):
                reference["namespace"] = run.metadata["namespace"]
            live = self._cache.find(reference)
            if live is not None and is_composed(live, run.metadata["uid"]):
                objects.append(live)
        return objects

    def _observe(self, run: Pass) -> Observed:
        objects = self._referred(run)
        resources = observed_resources(run.xr, objects)
        details = {
            name: found for name, obj in resources.items() if (found := self._details_of(obj))
        }
        own = self._details_of(run.xr) if self._kind.is_legacy else {}
        return Observed(self._as_functions_see_it(run), resources, own, details)

    def _as_functions_see_it(self, run: Pass) -> KubeObject:
        """Give the resource with what will be written to it before anything is composed."""
        xr = copy_json(run.xr)
        xr["metadata"].setdefault("labels", {}).setdefault(COMPOSITE, xr["metadata"]["name"])
        spec = xr.setdefault("spec", {})
        target = spec if self._kind.is_legacy else spec.setdefault(MACHINERY_KEY, {})
        target.update(run.machinery)
        seen: KubeObject = xr
        return seen

    def _details_of(self, obj: Mapping[str, Any]) -> Mapping[str, str]:
        place = connection_secret_of(obj)
        return self._connection_details(*place) if place else {}

    def _connection_details(self, namespace: str, name: str) -> Mapping[str, str]:
        secret = find(self._cluster, SECRETS, name, namespace)
        return {} if secret is None else secret.get("data") or {}

    def _refuse_emptiness(
        self, composition: Composition, composed: Composed, observed: Observed
    ) -> None:
        if composed.resources or not composed.deleted:
            return
        if composition.annotations.get(ALLOW_EMPTY) != "true":
            count = len(observed.resources)
            raise UsageError(
                f"The pipeline desires no resource at all, which would delete {count} resource"
                f"{'s' if count != 1 else ''}; if that is meant, annotate the Composition with "
                f"{ALLOW_EMPTY}=true",
                reason="DesiredStateEmpty",
            )

    # Carrying it out

    def _carry_out(
        self, run: Pass, chosen: Selection, observed: Observed, composed: Composed
    ) -> Outcome:
        self._tell_results(run, composed)
        needs = _needs_of(chosen.composition, run.subject.namespace)
        if composed.error is not None:
            kept = machinery_of(run.xr, legacy=self._kind.is_legacy).get("resourceRefs") or ()
            refs = tuple(each for each in kept if each.get("name"))
            if refs or composed.requirements or needs:
                # Without any of it, what was known before is as good.
                run.track(Dependencies(refs, composed.requirements, needs))
            self._write_choice(run)
            run.steps = [each.as_dict() for each in composed.outcomes]
            run.conditions.set_custom(composed.conditions)
            failure = UsageError(
                f"cannot compose resources: {composed.error.message}", reason="CompositionFailed"
            )
            unavailable = _unavailable(composed.error)
            failed = self._say_failure(run, failure, composed.conditions, unavailable)
            return failed._replace(requirements=composed.requirements)
        unsynced = self._write(run, chosen, observed, composed)
        seen = self._seen_anew(run, chosen, composed) if run.changed and not unsynced else None
        if seen is not None:
            run.begin_again()
            composed = seen.composed
            self._tell_results(run, composed)
            unsynced = self._write(run, chosen, seen.observed, composed)
        self._publish(run, composed)
        run.steps = [each.as_dict() for each in composed.outcomes]
        run.conditions.set_custom(composed.conditions)
        if self._kind.is_legacy:
            shown = sorted(each.type for each in composed.conditions if each.is_for_claim)
            if shown:
                run.status["claimConditionTypes"] = shown
        unready = [each for each in composed.unready if each not in unsynced]
        for event in events_of_outcome(unsynced, unready):
            self._tell(run.subject, event.type, event.reason, event.message)
        run.conditions.set_outcome(unsynced, composed.unready, composed.composite_ready)
        self._write_status(run, composed.status)
        self._composed_with.write(chosen.revision, composed.outcomes)
        return Outcome(self._again(run), bool(unsynced), composed.requirements, run.changed)

    def _tell_results(self, run: Pass, composed: Composed) -> None:
        """Report the results of functions, each one once in a pass."""
        results = [(each.type, each.reason, each.message) for each in composed.events]
        results += [
            (WARNING, each.reason, each.message)
            for each in composed.notices
            if each.reason != DEPRECATED
        ]
        for each in results:
            if each not in run.results:
                run.results.append(each)
                self._tell(run.subject, *each)
        for notice in run.conditions.set_deprecations(composed.notices):
            self._tell(run.subject, WARNING, notice.reason, notice.message)
            self._note_deprecation(run.xr, notice)

    def _write(
        self, run: Pass, chosen: Selection, observed: Observed, composed: Composed
    ) -> list[str]:
        """Make everything but the status what it shall be; name the resources that cannot be."""
        needs = _needs_of(chosen.composition, run.subject.namespace)
        run.track(Dependencies(composed.refs, composed.requirements, needs))
        self._objects.give_up(composed, observed.resources)
        adopt = chosen.composition.annotations.get(ADOPT, "")
        refused = self._objects.refused(run, composed, observed.resources, adopt)
        self._write_refs(run, composed)
        return self._objects.apply_all(run, composed, observed.resources, refused)

    def _seen_anew(self, run: Pass, chosen: Selection, composed: Composed) -> _Recomposed | None:
        """Compose over what the cluster made of what was just written.

        So the status that is written says how it is, not how it was. None leaves that to the
        next pass: where it fails, which is reported then, and where people would wait for it.
        """
        if sum(each.seconds for each in composed.outcomes) > _SOON_SECONDS:
            return None
        try:
            observed = self._observe(run)
            found = self._pipelines.compose(
                chosen.composition, observed, self._kind, composed.requirements
            )
            self._refuse_emptiness(chosen.composition, found, observed)
        except Conflict:
            raise
        except KanisterError:
            return None
        return None if found.error is not None else _Recomposed(observed, found)

    def _note_deprecation(self, xr: KubeObject, notice: Notice) -> None:
        """Write a deprecated function of a pipeline into the log, and count it."""
        metadata = xr["metadata"]
        namespace = metadata.get("namespace")
        where = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        _LOG.warning("%s %s: %s", self._kind.kind, where, notice.message)
        self._part.metrics.count_deprecated(
            notice.function, notice.version, str(notice.facts.get("removedIn", ""))
        )

    def _write_choice(self, run: Pass) -> None:
        """Have a resource keep what was chosen for it, though nothing came of it.

        Its owner must see what failed, another Composition that comes must not take its
        place, and a resource that follows nobody is held to its first revision.
        """
        if run.machinery:
            self._write_machinery(run, dict(run.machinery), {})

    def _write_refs(self, run: Pass, composed: Composed) -> None:
        """Write down, in one write, what will be there and what the resource holds."""
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
        self, run: Pass, changed: dict[str, Any], metadata: dict[str, Any]
    ) -> None:
        patch: dict[str, Any] = {
            "metadata": {**metadata, "resourceVersion": run.metadata["resourceVersion"]}
        }
        if changed:
            patch["spec"] = changed if self._kind.is_legacy else {MACHINERY_KEY: changed}
        run.take(self._patch(run.xr, patch))
        self._cache.remember(run.xr)

    def _publish(self, run: Pass, composed: Composed) -> None:
        """Write the connection details of a legacy resource to its Secret, if they changed."""
        reference = spec_of(run.xr).get("writeConnectionSecretToRef")
        if not self._kind.is_legacy or not isinstance(reference, Mapping):
            return
        keys = self._kind.connection_secret_keys
        wanted = {
            key: value
            for key, value in composed.connection_details.items()
            if not keys or key in keys
        }
        namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
        there = self._connection_details(namespace, name)
        if not wanted or all(there.get(key) == value for key, value in wanted.items()):
            return
        owner = controller_reference(run.xr)
        self._cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"namespace": namespace, "name": name, "ownerReferences": [owner]},
                "type": "connection.crossplane.io/v1alpha1",
                "data": {**there, **wanted},
            },
            field_manager=COMPOSITE_MANAGER,
            force=True,
        )
        self._tell(run.subject, NORMAL, "PublishConnectionSecret", "Published connection details")
        run.status["connectionDetails"] = {"lastPublishedTime": text_of_time(self._clock.now())}

    # Telling how it went

    def _say_failure(
        self,
        run: Pass,
        error: KanisterError,
        custom: Iterable[CustomCondition],
        unavailable: str = "",
    ) -> Outcome:
        message = error.message
        self._tell(run.subject, WARNING, COMPOSE, message)
        run.conditions.set_after_failure(message, custom, is_judged=not unavailable)
        self._write_status(run)
        return Outcome(is_failed=True, unavailable=unavailable)

    def _write_status(self, run: Pass, desired: Mapping[str, Any] | None = None) -> None:
        wanted = run.wanted_status(desired)
        if wanted is None:
            return
        metadata = {"name": run.metadata["name"], "uid": run.metadata["uid"]}
        if run.metadata.get("namespace"):
            metadata["namespace"] = run.metadata["namespace"]
        written = self._cluster.apply(
            {
                "apiVersion": run.xr["apiVersion"],
                "kind": run.xr["kind"],
                "metadata": metadata,
                "status": wanted,
            },
            field_manager=COMPOSITE_MANAGER,
            force=True,
            subresource="status",
        )
        log_turn(run.subject, synced_of(run.xr), synced_of(written))
        run.take(written)
        self._cache.remember(written)

    def _again(self, run: Pass) -> float | None:
        interval = annotations_of(run.xr).get(POLL_INTERVAL)
        seconds = self._poll_seconds
        if interval:
            try:
                seconds = max(parse_seconds(interval), _LEAST_POLL_SECONDS)
            except KanisterError as error:
                what = f"metadata.annotations[{POLL_INTERVAL}]"
                message = f"{what} counts for nothing: {error.message}"
                self._tell(run.subject, WARNING, "PollInterval", message)
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
    """Select what the composition itself wants functions to be given."""
    steps = composition.steps
    refs = (step.input_ref for step in steps)
    inputs = tuple(each.selector(namespace) for each in refs if isinstance(each, InputRef))
    return (*inputs, *(each for step in steps for each in step.required_resources.values()))


def _unavailable(error: KanisterError) -> str:
    return error.revision if isinstance(error, PipelineStepUnavailable) else ""
