"""Preflight check of an action: its phases as planned, and all failures that are certain."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.analysis import Defect, missing_inputs, outputs_of, wrong_durations
from kanister_py.core.blueprints.model import Blueprint, Phase
from kanister_py.core.blueprints.options import (
    OptionsInvalid,
    option_problems,
    unused_option_messages,
)
from kanister_py.core.blueprints.plan import (
    NO_PROFILE,
    Obstacle,
    PlanBasis,
    PlannedPhase,
    TextPlanner,
    Unknown,
    plan_phase,
)
from kanister_py.core.blueprints.reads import Read
from kanister_py.core.blueprints.texts import DEFER, Text
from kanister_py.core.errors import (
    KanisterError,
    NotFound,
    TransientError,
    UsageError,
)
from kanister_py.core.kube.locations import InvalidProfile, read_location
from kanister_py.core.kube.patches import InvalidPatch
from kanister_py.core.kube.pod_shapes import shape_problems
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.facts import ObjectNeed, needs_of_phase
from kanister_py.core.templates.render import ORIGINAL, Origin, RenderFailed
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.yaml.documents import Path
from kanister_py.executor.check_access import missing_accesses
from kanister_py.executor.fetch_facts import fetch_named
from kanister_py.ports.cluster import Cluster, KubeObject

MISSING = "ObjectMissing"
NAME_TWICE = "PhaseNameTwice"
_KINDS = ("Secrets", "ConfigMaps")


class ActionRefused(UsageError):
    """An action is certain to fail. `obstacles` are all reasons, and must not be empty."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        messages = "; ".join(obstacle.message for obstacle in self.obstacles)
        count = f"{len(self.obstacles)} problems: " if len(self.obstacles) > 1 else ""
        super().__init__(f"{count}{messages}", reason=self.obstacles[0].reason)

    @property
    def phase(self) -> int | None:
        """The phase of the first obstacle; None if it belongs to no phase."""
        return self.obstacles[0].phase


class Preflight(NamedTuple):
    """An action's phases as they would run, and the obstacles that are certain to fail it.

    `unchecked` explains why missing objects are no obstacles; `unknown` lists values of the
    action's artifacts that are not known yet.
    """

    phases: tuple[PlannedPhase, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    unchecked: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    unknown: tuple[Unknown, ...] = ()


def run_preflight(
    basis: PlanBasis,
    choices: Sequence[Choice[FunctionEntry] | KanisterError],
    cluster: Cluster,
    *,
    done: int = 0,
    is_later: bool = False,
) -> Preflight:
    """Plan the phases of an action that are not done yet. Only reads the cluster.

    `is_later` means that other actions run before this one and may create missing objects.
    The objects of the phases are added to `basis.params`, which must have no other user.
    """
    checks = _Checks(basis, cluster, may_make=is_later)
    all_phases = basis.analysis.action.every_phase()
    for (path, phase), choice in zip(all_phases, choices, strict=True):
        if not isinstance(path[-1], int) or path[-1] >= done:
            checks.check_phase(phase, path, choice)
    checks.check_artifacts()
    checks.check_reads(done)
    obstacles = sorted(checks.obstacles, key=_rank)
    phases = checks.phases
    if obstacles:
        phases = [
            phase._replace(
                obstacles=tuple(obstacle for obstacle in obstacles if obstacle.phase == phase.at)
            )
            for phase in phases
        ]
    return Preflight(
        tuple(phases),
        tuple(obstacles),
        tuple(checks.unchecked),
        tuple(checks.reads),
        tuple(checks.unknown),
    )


def _rank(obstacle: Obstacle) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """Sort key: phases in execution order, then the place in the phase."""
    phase = obstacle.phase
    place = [(part, "") if isinstance(part, int) else (-1, part) for part in obstacle.path]
    return (phase is None, phase == DEFER, phase if phase is not None else 0, place)


class _Checks:
    """Checks of one action, phase by phase."""

    def __init__(self, basis: PlanBasis, cluster: Cluster, *, may_make: bool) -> None:
        self.phases: list[PlannedPhase] = []
        self.obstacles: list[Obstacle] = []
        self.unchecked: list[str] = []
        self.reads: list[Read] = []
        self.unknown: list[Unknown] = []
        self._analysis = basis.analysis
        self._basis = basis
        self._cluster = cluster
        self._may_make = may_make
        """Whether earlier phases may have created Secrets and ConfigMaps."""
        self._is_sure: dict[int | None, bool] = {None: True}

    def check_phase(
        self, phase: Phase, path: Path, choice: Choice[FunctionEntry] | KanisterError
    ) -> None:
        """Plan a phase, and record its obstacles."""
        texts = TextPlanner(path, self._basis)
        missing = self._add_objects(phase, path, texts)
        planned = plan_phase(phase, path, choice, self._basis)
        obstacles = [*texts.obstacles, *planned.obstacles]
        obstacles += [texts.obstacle(inside, error) for inside, error in wrong_durations(phase)]
        try:
            self._check_store(planned)
        except InvalidProfile as refusal:
            obstacles.append(texts.obstacle(("func",), refusal))
        if texts.unknown:
            planned = planned._replace(unknown=(*texts.unknown, *planned.unknown))
        for inside, need, error in missing:
            obstacle = texts.obstacle(inside, error)
            why = self._reason_to_expect(phase) if isinstance(error, NotFound) else ""
            if not why and planned.is_wanted:
                obstacles.append(obstacle._replace(reason=MISSING))
            elif planned.is_wanted is not False:
                why = why or "its phase may be skipped"
                self.unchecked.append(f"{obstacle.message}; not an error, because {why}")
            place = f"{need.namespace}/{need.name}" if need.namespace else need.name
            gone = Unknown(".".join(map(str, inside)), (), f"{place} does not exist")
            planned = planned._replace(unknown=(*planned.unknown, gone))
        written = self._basis.params.facts.artifacts
        if written and planned.is_wanted and not isinstance(choice, KanisterError):
            unread = unread_artifacts(choice, written, (*texts.reads, *planned.reads))
            obstacles += [texts.obstacle(("args",), error) for error in unread]
        planned = planned._replace(notices=(*planned.notices, *self._notices_of_name(phase)))
        self._is_sure[texts.phase] = planned.is_wanted is True
        self._may_make = self._may_make or planned.may_create_objects
        self.reads += [*texts.reads, *planned.reads]
        self.obstacles += obstacles
        self.phases.append(planned)

    def _notices_of_name(self, phase: Phase) -> Iterator[Notice]:
        """Warn of phases with the same name: both run, but the output of the first one is lost."""
        if phase.name and any(planned.name == phase.name for planned in self.phases):
            message = (
                f"{self._analysis.name} has two phases called {phase.name}: "
                "outputs of the first one are lost when the second one starts"
            )
            yield Notice(NAME_TWICE, message)

    def _check_store(self, planned: PlannedPhase) -> None:
        """Raise an error if a phase is certain to run and the Profile has no usable store."""
        args, profile = getattr(planned.code, "Args", None), self._basis.params.facts.profile
        if planned.is_wanted and profile and getattr(args, "needs_repository", False):
            self._basis.place_of(read_location(profile.location)).check_repository()

    def _reason_to_expect(self, phase: Phase) -> str:
        """Return the reason why a missing object may exist in time; empty if it cannot."""
        if self._may_make:
            return "an earlier phase may create it"
        if phase.retry is not None and phase.retry.limit and NotFound.reason in phase.retry.on:
            return f"its phase is retried on {NotFound.reason}"
        return ""

    def _add_objects(
        self, phase: Phase, path: Path, texts: TextPlanner
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Add the objects of a phase to the template's parameters; return missing objects."""
        objects: dict[str, dict[str, KubeObject]] = {"secrets": {}, "configmaps": {}}
        root = ("Phases", phase.name) if path[0] == "phases" else ("DeferPhase",)
        missing = self._read_objects(phase, texts, root, objects) if phase.objects else []
        if self._may_make:
            soft = (*self._basis.soft, *((*root, kind) for kind in _KINDS))
            self._basis = self._basis._replace(soft=soft)
        name = phase.name if path[0] == "phases" else None
        self._basis.params.enter_phase(name, objects["secrets"], objects["configmaps"])
        return missing

    def _read_objects(
        self,
        phase: Phase,
        texts: TextPlanner,
        root: tuple[str, ...],
        fetched: Mapping[str, dict[str, KubeObject]],
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Read the objects of a phase into `fetched`; return missing objects."""
        objects = {name: obj.as_dict() for name, obj in phase.objects.items()}
        rendered = texts.value(objects, ("objects",))
        known_references = {
            name: reference
            for name, reference in rendered.items()
            if not any(map(texts.is_open, reference.values()))
        }
        missing: list[tuple[Path, ObjectNeed, KanisterError]] = []
        for name, need in needs_of_phase(known_references).items():
            try:
                fetched[need.resource.resource][name] = fetch_named(self._cluster, need)
            except TransientError:
                raise
            except KanisterError as error:
                missing.append((("objects", name), need, error))
        unread = phase.objects.keys() - fetched["secrets"].keys() - fetched["configmaps"].keys()
        unknown = {
            (*root, kind, name): "its object does not exist" for kind in _KINDS for name in unread
        }
        self._basis = self._basis._replace(open={**self._basis.open, **unknown})
        return missing

    def check_artifacts(self) -> None:
        """Render the action's artifacts as far as their values are known."""
        if not self._analysis.action.output_artifacts:
            return
        texts = TextPlanner((), self._basis)
        for text in self._analysis.texts:
            if text.phase is None:
                texts.value(text.text, text.path)
        self.unknown += texts.unknown
        self.obstacles += texts.obstacles
        self.reads += texts.reads

    def check_reads(self, done: int) -> None:
        """Find phases, outputs and objects that templates read and that cannot exist."""
        outputs = {
            phase.name: declared
            for phase in self.phases
            if phase.code is not None and (declared := outputs_of(phase.code)) is not None
        }
        at_fault = {obstacle.path for obstacle in self.obstacles}
        for text in self._analysis.texts:
            is_over = text.phase is not None and 0 <= text.phase < done
            if "{" not in text.text or is_over or text.role == "condition":
                continue
            if text.role == "if" or self._is_sure.get(text.phase, True):
                obstacles = self._wrong_reads(text, outputs, is_at_fault=text.path in at_fault)
                self.obstacles += dict.fromkeys(obstacles)

    def _wrong_reads(
        self, text: Text, outputs: Mapping[str, frozenset[str]], *, is_at_fault: bool
    ) -> Iterator[Obstacle]:
        """Find invalid reads of a text; `is_at_fault` means that rendering it has failed."""
        renderer = self._basis.renderer
        try:
            wrongs = list(self._analysis.wrong_reads(text, outputs))
        except TemplateError:
            return
        for read, defect, message in wrongs:
            # Texts that depend on outputs of earlier phases were not rendered.
            if is_at_fault and (read.names[0], *read.names[2:3]) != ("Phases", "Output"):
                continue
            if not defect.is_advice and read.is_certain:
                where = renderer.origin.where(text.path, read.line)
                is_go = renderer.engine is Engine.GO
                full_message = (
                    f"{where}: {message}{_kanister_message(defect, read) if is_go else ''}"
                )
                yield Obstacle(text.phase, text.path, full_message, RenderFailed.reason)


def _kanister_message(defect: Defect, read: Read) -> str:
    """Return Kanister's original message, which users may search for."""
    if defect not in (Defect.PHASE_UNKNOWN, Defect.PHASE_LATER) or read.names[:1] != ("Phases",):
        return ""
    return f'{ORIGINAL}Failed to render template: "{read.names[1]}" not found'


def missing_rights(seen: Preflight, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
    """Check the rights that phases need, and yield an obstacle for each missing one.

    Accesses to objects whose names are not known yet are not checked.
    """
    for phase in seen.phases:
        path: Path = ("deferPhase",) if phase.is_deferred else ("phases", phase.at)
        if phase.is_wanted:
            named_accesses = [
                access for access in phase.accesses if "{" not in access.namespace + access.name
            ]
            for access in missing_accesses(cluster, named_accesses, cluster.default_namespace):
                message = (
                    f"{origin.where(path)}: the account may not {access}; "
                    "kanister-py rbac prints a Role that allows it"
                )
                yield Obstacle(phase.at, path, message, "Forbidden")


def phases_that_need_pods(seen: Preflight, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
    """Yield an obstacle for each phase that needs a pod, if the cluster does not run pods."""
    if cluster.runs_pods:
        return
    for phase in seen.phases:
        if phase.is_wanted and getattr(phase.code, "needs_pods", False):
            path: Path = ("deferPhase",) if phase.is_deferred else ("phases", phase.at)
            message = (
                f"{origin.where(path)}: {phase.function} needs a pod, but pods are not run here; "
                "use --pods processes or a real cluster"
            )
            yield Obstacle(phase.at, path, message, "PodsNotRun")


def invalid_override(seen: Preflight, spec: ActionSpec) -> Iterator[Obstacle]:
    """Yield obstacles for an invalid `podOverride` of the ActionSet, if a phase creates pods."""
    models = [getattr(phase.code, "Args", None) for phase in seen.phases if phase.is_wanted]
    if not any("pod_override" in getattr(model, "model_fields", ()) for model in models):
        return
    for wrong in shape_problems(spec.pod_override, "podOverride"):
        if wrong.expected_type:
            message = f"{wrong}, in the ActionSet's action {spec.name}"
            yield Obstacle(None, (), message, InvalidPatch.reason)


def unread_artifacts(
    choice: Choice[FunctionEntry], artifacts: Mapping[str, Mapping[str, Any]], reads: Iterable[Read]
) -> Iterator[UsageError]:
    """Find the artifacts that a phase reads but its version does not support.

    The field `version` of an artifact is the function version that wrote it.
    """
    chosen = choice.chosen
    names = {read.names[1] for read in reads if read.names[0] == "ArtifactsIn" and read.names[1:]}
    for name in sorted(names & artifacts.keys()):
        written = str((artifacts[name].get("keyValue") or {}).get("version", ""))
        if _reads_version(chosen, written):
            continue
        readers = [
            candidate for candidate in choice.candidates if _reads_version(candidate, written)
        ]
        if readers:
            ways = "; ".join(map(_remedy, readers))
            yield UsageError(
                f"Artifact {name} was written by version {written}, "
                f"which {chosen.function} {chosen.version} does not read; {ways}",
                reason="ArtifactUnreadable",
            )


def _reads_version(entry: FunctionEntry, written: str) -> bool:
    return any(str(version_range.version) == written for version_range in entry.listing.reads)


def _remedy(reader: FunctionEntry) -> str:
    if reader.support_at() is Support.REMOVED and reader.listing.removed_in is not None:
        until = reader.listing.removed_in.bare
        return (
            f"{reader.version}, which reads it, was removed in release {until}: use an earlier one"
        )
    return f"{reader.version} reads it: set funcVersion to it"


def invalid_options(blueprint: Blueprint, spec: ActionSpec) -> Iterator[Obstacle]:
    """Yield an obstacle for each option that contradicts the declarations of the action."""
    for problem in option_problems(blueprint.actions, spec.name, spec.options):
        yield Obstacle(None, (), problem.message, OptionsInvalid.reason)


def missing_input_messages(blueprint: Blueprint, spec: ActionSpec) -> Iterator[str]:
    """Yield messages about declared inputs that the ActionSet does not set."""
    inputs: Mapping[str, Container[str]] = {
        "secrets": spec.secrets,
        "configMaps": spec.config_maps,
        "artifacts": spec.artifacts,
    }
    for missing in missing_inputs(spec.name, blueprint.actions[spec.name], inputs):
        yield missing.message


def preflight_warnings(
    blueprint: Blueprint, spec: ActionSpec, seen: Preflight
) -> Iterator[tuple[str, str]]:
    """Yield warnings before an action runs, as pairs of a reason and a message.

    Warnings are about unused options, which are usually misspelt, missing declared inputs,
    phases with the same name, and missing Profiles.
    """
    reads = [read.names for read in seen.reads]
    unused = unused_option_messages(blueprint.actions, spec.name, spec.options, reads)
    yield from (("OptionUnused", message) for _option, message in unused)
    for message in missing_input_messages(blueprint, spec):
        yield "InputMissing", message
    twice = (
        notice for phase in seen.phases for notice in phase.notices if notice.reason == NAME_TWICE
    )
    yield from ((notice.reason, notice.message) for notice in twice)
    for phase in seen.phases:
        if phase.is_wanted is not False and any(
            unknown.why == NO_PROFILE for unknown in phase.unknown
        ):
            message = (
                f"{phase.name or spec.name} uses the Profile, but the action has none: it is null"
            )
            yield "InputMissing", message
