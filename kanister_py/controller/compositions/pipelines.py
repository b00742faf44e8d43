"""Pipelines of compositions: running them, and recording which function revisions they called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from kanister_py.controller.compositions.requirements import ClusterSource, OwnNamespaceSource
from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.functions.pull_secrets import logins_of
from kanister_py.controller.functions.revision_registry import FunctionRevisionRegistry
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.compositions.desired import Composed, ComposedRules
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition
from kanister_py.core.compositions.pipeline import Observed, StepOutcome
from kanister_py.core.errors import NoMatch
from kanister_py.core.kube.parts import namespace_of, status_of
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.response_cache import ResponseCache
from kanister_py.executor.run_pipeline import Engine, compose
from kanister_py.executor.step_artifacts import StepArtifacts
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import Cluster
from kanister_py.ports.requirement_source import RequirementSource


class PipelineRunner:
    """Runner of the pipeline of a composition over observed resources."""

    def __init__(
        self,
        part: PartTools,
        cache: ObjectCache,
        functions: FunctionRevisionRegistry,
        tools: FunctionTools,
        settings: CompositionSettings,
    ) -> None:
        self._cluster, self._clock = part.cluster, part.clock
        self._functions = functions
        self._tools = tools
        self._is_restricted = settings.restricts_resources
        self._source = ClusterSource(part.cluster, cache, gives_resources=settings.gives_resources)
        self._responses = ResponseCache(part.clock, metrics=tools.metrics)
        self._artifacts = StepArtifacts(
            tools.packages,
            part.clock,
            lambda ref: logins_of(part.cluster, settings.namespace, ref.pull_secrets),
        )

    def compose(
        self,
        composition: Composition,
        observed: Observed,
        kind: Kind,
        requirements: Mapping[str, Data] | None,
    ) -> Composed:
        """Run the pipeline. `requirements` are those of the last run, by step."""
        namespace = namespace_of(observed.composite)
        source: RequirementSource = self._source
        if namespace and self._is_restricted:
            source = OwnNamespaceSource(source, self._cluster, namespace)
        engine = Engine(
            self._tools.runner,
            self._functions.current(),
            source,
            self._clock,
            self._responses,
            self._tools.metrics,
            rules=ComposedRules(kind.is_legacy, self._is_namespaced),
            artifacts=self._artifacts,
        )
        return compose(composition, observed, engine, remembered=requirements)

    def _is_namespaced(self, api_version: str, kind: str) -> bool:
        try:
            return self._cluster.resource_for(api_version, kind).is_namespaced
        except NoMatch:
            # Applying the object reports the unknown kind.
            return True


class ComposedWithStatus:
    """Writer of `status.composedWith` of CompositionRevisions."""

    def __init__(
        self, cluster: Cluster, cache: ObjectCache, functions: FunctionRevisionRegistry
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._functions = functions
        self._lock = Lock()
        self._last_used: dict[str, tuple[tuple[str, str], ...]] = {}
        """Steps and their function revisions, by the CompositionRevision of the last call."""

    def write(self, revision: str, outcomes: Sequence[StepOutcome]) -> None:
        """Record the function revisions that a CompositionRevision was composed with."""
        if not revision:
            return
        used = tuple((outcome.step, outcome.revision) for outcome in outcomes if outcome.revision)
        with self._lock:
            if self._last_used.get(revision) == used:
                return
            self._last_used[revision] = used
        digests = {
            function_revision.name: function_revision.digest
            for family in self._functions.current()
            for function_revision in family
        }
        composed_with = [
            {"step": step, "functionRevision": name, **({"digest": digest} if digest else {})}
            for step, name in used
            for digest in (digests.get(name),)
        ]
        obj = self._cache.get(COMPOSITION_REVISIONS, ObjectKey("", revision))
        if obj is None or status_of(obj).get("composedWith") == composed_with:
            return
        self._cluster.patch(
            COMPOSITION_REVISIONS,
            revision,
            {"status": {"composedWith": composed_with}},
            subresource="status",
        )

    def forget(self, revision: str) -> None:
        """Record that a CompositionRevision was deleted."""
        with self._lock:
            self._last_used.pop(revision, None)
