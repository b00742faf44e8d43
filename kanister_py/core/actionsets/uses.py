"""Uses of function versions in the Blueprints, ActionSets and Compositions of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.actionsets.status import sort_key_of_time
from kanister_py.core.blueprints.lint.pipelines import packages_of, version_requests_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import mapping_of, maps_in, metadata_of, namespace_of
from kanister_py.core.registry.choose import RequestedVersion, choose_version, requested_version
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.yaml.documents import Document


class Use(NamedTuple):
    """Use of a function by a phase. `since` is the creation time of the Blueprint.

    `version` is the chosen version, or the requested one if there is no such version.
    """

    function: str
    version: str
    namespace: str
    blueprint: str
    action: str
    phase: str
    since: str = ""


class Run(NamedTuple):
    """Run of a phase with the version that was chosen for it."""

    namespace: str
    blueprint: str
    action: str
    phase: str
    version: str
    start_time: str
    is_live: bool


class Count(NamedTuple):
    """Number of uses of a version, and the time of its last run."""

    blueprints: int = 0
    action_sets: int = 0
    """ActionSets that have not ended."""
    last_run: str = ""
    compositions: int = 0

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"blueprints": self.blueprints, "actionSets": self.action_sets}
        if self.last_run:
            data["lastRun"] = self.last_run
        if self.compositions:
            data["compositions"] = self.compositions
        return data


NOT_USED = Count()

Uses = Mapping[tuple[str, str], Count]
"""Counts by function and version."""


def uses_of(blueprint: Mapping[str, Any], registry: Registry[FunctionEntry]) -> Iterator[Use]:
    """Yield the uses of functions in a Blueprint, even in an invalid one."""
    metadata = metadata_of(blueprint)
    actions = blueprint.get("actions")
    for action, content in actions.items() if isinstance(actions, dict) else ():
        for phase in _phases_of(content):
            function = str(phase.get("func") or "")
            if function:
                yield Use(
                    function,
                    _version_of(registry, function, str(phase.get("funcVersion") or "")),
                    str(metadata.get("namespace") or ""),
                    str(metadata.get("name") or ""),
                    str(action),
                    str(phase.get("name") or ""),
                    str(metadata.get("creationTimestamp") or ""),
                )


def _phases_of(action: Any) -> Iterator[Mapping[str, Any]]:
    yield from maps_in(action, "phases")
    deferred = mapping_of(action).get("deferPhase")
    if isinstance(deferred, dict):
        yield deferred


def _version_of(registry: Registry[FunctionEntry], function: str, version: str) -> str:
    try:
        return str(
            choose_version(registry, function, requested_version(version, None)).chosen.version
        )
    except KanisterError:
        return version


def versions_in_composition(
    composition: Mapping[str, Any],
    functions: Sequence[Mapping[str, Any]],
    registry: Registry[FunctionEntry],
) -> Iterator[tuple[str, str]]:
    """Yield function and version for each step of a Composition that calls one of our functions.

    `functions` are the installed Functions. Packages of other vendors are not counted.
    """
    packages = packages_of(map(_located, functions), registry)
    for request in version_requests_of(_located(composition), packages, registry):
        function = request.spot.function
        requested = RequestedVersion("" if request.version == "latest" else request.version)
        try:
            version = str(choose_version(registry, function, requested, strict=True).chosen.version)
        except KanisterError:
            version = request.version
        yield function, version


def _located(obj: Mapping[str, Any]) -> LocatedObject:
    return LocatedObject(Document.of(obj), (), str(obj.get("kind") or ""), obj)


def runs_of(actionset: Mapping[str, Any]) -> Iterator[Run]:
    """Yield the phases of an ActionSet whose version was chosen.

    Its `status` must be merged with its annotation first, see `read_status_data`.
    """
    status = actionset.get("status")
    if not isinstance(status, dict):
        return
    namespace = namespace_of(actionset)
    is_live = status.get("state") not in ("complete", "failed")
    for action in status.get("actions") or ():
        for phase in _phases_of(action):
            version = str(phase.get("funcVersion") or "")
            if version:
                yield Run(
                    namespace,
                    str(action.get("blueprint") or ""),
                    str(action.get("name") or ""),
                    str(phase.get("name") or ""),
                    version,
                    str(phase.get("startTime") or ""),
                    is_live,
                )


class Tally:
    """Counter of uses and runs. Objects are added page by page, and not kept in memory."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str, str, str], str] = {}
        self._blueprints: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._live: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], str] = {}
        self._last_of_phase: dict[tuple[str, str, str, str, str], str] = {}
        self._compositions: Counter[tuple[str, str]] = Counter()

    def add_blueprint(self, uses: Iterable[Use]) -> None:
        for use in uses:
            place = (use.namespace, use.blueprint, use.action, use.phase)
            self._functions[place] = use.function
            users = self._blueprints.setdefault((use.function, use.version), set())
            users.add((use.namespace, use.blueprint))

    def add_composition(self, versions: Iterable[tuple[str, str]]) -> None:
        self._compositions.update(set(versions))

    def add_actionset(self, runs: Iterable[Run]) -> None:
        """Add an ActionSet. Its Blueprints must be added first, as they name the functions."""
        live: set[tuple[str, str]] = set()
        for run in runs:
            place = (run.namespace, run.blueprint, run.action, run.phase)
            function = self._functions.get(place)
            if function is None:
                continue
            key = (function, run.version)
            self._last[key] = _later_time(self._last.get(key, ""), run.start_time)
            own = (*place, run.version)
            self._last_of_phase[own] = _later_time(self._last_of_phase.get(own, ""), run.start_time)
            if run.is_live:
                live.add(key)
        self._live.update(live)

    def last_run(self, use: Use) -> str:
        """Return when a phase last ran with the version that it uses now; empty if never."""
        place = (use.namespace, use.blueprint, use.action, use.phase, use.version)
        return self._last_of_phase.get(place, "")

    def counts(self) -> dict[tuple[str, str], Count]:
        return {
            key: Count(
                len(self._blueprints.get(key, ())),
                self._live[key],
                self._last.get(key, ""),
                self._compositions[key],
            )
            for key in {*self._blueprints, *self._live, *self._last, *self._compositions}
        }


def _later_time(time: str, other: str) -> str:
    return max(time, other, key=sort_key_of_time)
