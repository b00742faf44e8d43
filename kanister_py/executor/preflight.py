"""Preflight check of an action: what it will do, and everything it is sure to fail for."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.analysis import Defect, missing_inputs, outputs_of, wrong_durations
from kanister_py.core.blueprints.model import Blueprint, Phase
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
    did_you_mean,
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
from kanister_py.core.yaml.documents import Path, nearest
from kanister_py.executor.check_access import missing_accesses
from kanister_py.executor.fetch_facts import fetch_named
from kanister_py.ports.cluster import Cluster, KubeObject

MISSING = "ObjectMissing"
NAME_TWICE = "PhaseNameTwice"
_KINDS = ("Secrets", "ConfigMaps")


class ActionRefused(UsageError):
    """An action is sure to fail; holds everything that it would fail for."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        messages = "; ".join(each.message for each in self.obstacles)
        count = f"{len(self.obstacles)} problems: " if len(self.obstacles) > 1 else ""
        super().__init__(f"{count}{messages}", reason=self.obstacles[0].reason)

    @property
    def phase(self) -> int | None:
        """The first phase that is at fault; None if none is."""
        return self.obstacles[0].phase


class Preflight(NamedTuple):
    """An action's phases as they would run, and what they are sure to fail for.

    `unchecked` says of objects that are not there why that is not held against the action,
    `unknown` what is not known yet of the artifacts that the action leaves.
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

    With `is_later` other actions run before it, and may create what it refers to.
    `basis.params` grows by the objects of the phases: it must have no other user.
    """
    checks = _Checks(basis, cluster, may_make=is_later)
    every = basis.analysis.action.every_phase()
    for (path, phase), choice in zip(every, choices, strict=True):
        if not isinstance(path[-1], int) or path[-1] >= done:
            checks.check_phase(phase, path, choice)
    checks.check_artifacts()
    checks.check_reads(done)
    obstacles = sorted(checks.obstacles, key=_rank)
    phases = checks.phases
    if obstacles:
        phases = [
            phase._replace(obstacles=tuple(each for each in obstacles if each.phase == phase.at))
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
    """Sort by the phases in the order they run, then by place."""
    phase = obstacle.phase
    place = [(part, "") if isinstance(part, int) else (-1, part) for part in obstacle.path]
    return (phase is None, phase == DEFER, phase if phase is not None else 0, place)


class _Checks:
    """Checks of one action, phase by phase in their order."""

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
        """Whether Secrets and ConfigMaps may have been created by the phase's turn."""
        self._is_sure: dict[int | None, bool] = {None: True}

    def check_phase(
        self, phase: Phase, path: Path, choice: Choice[FunctionEntry] | KanisterError
    ) -> None:
        """Plan a phase, and note what it is sure to fail for."""
        texts = TextPlanner(path, self._basis)
        missing = self._enter(phase, path, texts)
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
            why = self._why_it_may_come(phase) if isinstance(error, NotFound) else ""
            if not why and planned.is_wanted:
                obstacles.append(obstacle._replace(reason=MISSING))
            elif planned.is_wanted is not False:
                why = why or "its phase may be skipped"
                self.unchecked.append(f"{obstacle.message}; not held against the run, since {why}")
            place = f"{need.namespace}/{need.name}" if need.namespace else need.name
            gone = Unknown(".".join(map(str, inside)), (), f"{place} is not there")
            planned = planned._replace(unknown=(*planned.unknown, gone))
        written = self._basis.params.facts.artifacts
        if written and planned.is_wanted and not isinstance(choice, KanisterError):
            unread = unread_artifacts(choice, written, (*texts.reads, *planned.reads))
            obstacles += [texts.obstacle(("args",), error) for error in unread]
        planned = planned._replace(notices=(*planned.notices, *self._notices_of_name(phase)))
        self._is_sure[texts.phase] = planned.is_wanted is True
        self._may_make = self._may_make or planned.may_make
        self.reads += [*texts.reads, *planned.reads]
        self.obstacles += obstacles
        self.phases.append(planned)

    def _notices_of_name(self, phase: Phase) -> Iterator[Notice]:
        """Warn of an earlier phase of the same name: Kanister runs both, and one's output goes."""
        if phase.name and any(planned.name == phase.name for planned in self.phases):
            message = (
                f"{self._analysis.name} has two phases called {phase.name}: "
                "what is read of the first is lost once the second begins"
            )
            yield Notice(NAME_TWICE, message)

    def _check_store(self, planned: PlannedPhase) -> None:
        """Raise if a phase is sure to run, and the Profile names nothing that it can use."""
        args, profile = getattr(planned.code, "Args", None), self._basis.params.facts.profile
        if planned.is_wanted and profile and getattr(args, "needs_repository", False):
            self._basis.place_of(read_location(profile.location)).check_repository()

    def _why_it_may_come(self, phase: Phase) -> str:
        """Return why an object that a phase refers to may be there in time; empty if it may not."""
        if self._may_make:
            return "an earlier phase may make it"
        if phase.retry is not None and phase.retry.limit and NotFound.reason in phase.retry.on:
            return f"its phase is tried again on {NotFound.reason}"
        return ""

    def _enter(
        self, phase: Phase, path: Path, texts: TextPlanner
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Let templates see the objects of a phase; returns those that are not there."""
        found: dict[str, dict[str, KubeObject]] = {"secrets": {}, "configmaps": {}}
        root = ("Phases", phase.name) if path[0] == "phases" else ("DeferPhase",)
        missing = self._read_objects(phase, texts, root, found) if phase.objects else []
        if self._may_make:
            soft = (*self._basis.soft, *((*root, kind) for kind in _KINDS))
            self._basis = self._basis._replace(soft=soft)
        name = phase.name if path[0] == "phases" else None
        self._basis.params.enter_phase(name, found["secrets"], found["configmaps"])
        return missing

    def _read_objects(
        self,
        phase: Phase,
        texts: TextPlanner,
        root: tuple[str, ...],
        found: Mapping[str, dict[str, KubeObject]],
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Read the objects of a phase into `found`; returns those that are not there."""
        objects = {name: obj.as_dict() for name, obj in phase.objects.items()}
        rendered = texts.value(objects, ("objects",))
        whole = {
            name: reference
            for name, reference in rendered.items()
            if not any(map(texts.is_open, reference.values()))
        }
        missing: list[tuple[Path, ObjectNeed, KanisterError]] = []
        for name, need in needs_of_phase(whole).items():
            try:
                found[need.resource.resource][name] = fetch_named(self._cluster, need)
            except TransientError:
                raise
            except KanisterError as error:
                missing.append((("objects", name), need, error))
        unread = phase.objects.keys() - found["secrets"].keys() - found["configmaps"].keys()
        unknown = {
            (*root, kind, name): "its object is not there" for kind in _KINDS for name in unread
        }
        self._basis = self._basis._replace(open={**self._basis.open, **unknown})
        return missing

    def check_artifacts(self) -> None:
        """Render the artifacts that the action leaves, as far as that goes."""
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
        """Find phases, outputs and objects that templates read, and that cannot be there."""
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
                found = self._wrong_reads(text, outputs, is_at_fault=text.path in at_fault)
                self.obstacles += dict.fromkeys(found)

    def _wrong_reads(
        self, text: Text, outputs: Mapping[str, frozenset[str]], *, is_at_fault: bool
    ) -> Iterator[Obstacle]:
        """Find what a text reads in vain; `is_at_fault`: rendering it has failed already."""
        renderer = self._basis.renderer
        try:
            wrongs = list(self._analysis.wrong_reads(text, outputs))
        except TemplateError:
            return
        for read, defect, message in wrongs:
            # What may give no output yet was not rendered.
            if is_at_fault and (read.names[0], *read.names[2:3]) != ("Phases", "Output"):
                continue
            if not defect.is_advice and read.is_certain:
                where = renderer.origin.where(text.path, read.line)
                is_go = renderer.engine is Engine.GO
                whole = f"{where}: {message}{_original(defect, read) if is_go else ''}"
                yield Obstacle(text.phase, text.path, whole, RenderFailed.reason)


def _original(defect: Defect, read: Read) -> str:
    """Return Kanister's own sentence, for searching."""
    if defect not in (Defect.PHASE_UNKNOWN, Defect.PHASE_LATER) or read.names[:1] != ("Phases",):
        return ""
    return f'{ORIGINAL}Failed to render template: "{read.names[1]}" not found'


def forbidden(seen: Preflight, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
    """Ask a cluster for the rights that phases need, and give those that are missing.

    What is touched under a name that is not known yet is not asked for.
    """
    for phase in seen.phases:
        path: Path = ("deferPhase",) if phase.is_deferred else ("phases", phase.at)
        if phase.is_wanted:
            known = [each for each in phase.accesses if "{" not in each.namespace + each.name]
            for access in missing_accesses(cluster, known, cluster.default_namespace):
                message = (
                    f"{origin.where(path)}: the cluster does not allow us to {access}; "
                    "kanister-py rbac prints the Role that does"
                )
                yield Obstacle(phase.at, path, message, "Forbidden")


def without_pods(seen: Preflight, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
    """Find the phases that are sure to need a pod, if the cluster only records pods."""
    if cluster.runs_pods:
        return
    for phase in seen.phases:
        if phase.is_wanted and getattr(phase.code, "needs_pods", False):
            path: Path = ("deferPhase",) if phase.is_deferred else ("phases", phase.at)
            message = (
                f"{origin.where(path)}: {phase.function} needs a pod, and nothing runs pods here; "
                "use --pods=processes or a real cluster"
            )
            yield Obstacle(phase.at, path, message, "PodsNotRun")


def wrong_override(seen: Preflight, spec: ActionSpec) -> Iterator[Obstacle]:
    """Find what no pod can take in the ActionSet's own `podOverride`, if a phase makes pods."""
    models = [getattr(phase.code, "Args", None) for phase in seen.phases if phase.is_wanted]
    if not any("pod_override" in getattr(model, "model_fields", ()) for model in models):
        return
    for wrong in shape_problems(spec.pod_override, "podOverride"):
        if wrong.wanted:
            message = f"{wrong}, in the ActionSet's action {spec.name}"
            yield Obstacle(None, (), message, InvalidPatch.reason)


def unread_artifacts(
    choice: Choice[FunctionEntry], artifacts: Mapping[str, Mapping[str, Any]], reads: Iterable[Read]
) -> Iterator[UsageError]:
    """Find the artifacts that a phase reads, and that its version does not: another one did.

    An artifact says under `version` which version of a function wrote it.
    """
    chosen = choice.chosen
    names = {each.names[1] for each in reads if each.names[0] == "ArtifactsIn" and each.names[1:]}
    for name in sorted(names & artifacts.keys()):
        written = str((artifacts[name].get("keyValue") or {}).get("version", ""))
        if _reads_version(chosen, written):
            continue
        readers = [each for each in choice.candidates if _reads_version(each, written)]
        if readers:
            ways = "; ".join(map(_way_to, readers))
            yield UsageError(
                f"Artifact {name} was written by version {written}, "
                f"which {chosen.function} {chosen.version} does not read; {ways}",
                reason="ArtifactUnreadable",
            )


def _reads_version(entry: FunctionEntry, written: str) -> bool:
    return any(str(each.version) == written for each in entry.listing.reads)


def _way_to(reader: FunctionEntry) -> str:
    if reader.support_at() is Support.REMOVED and reader.listing.removed_in is not None:
        until = reader.listing.removed_in.bare
        return f"{reader.version}, which does, was removed in release {until}: use an earlier one"
    return f"{reader.version} does: set funcVersion to it"


def unused_options(spec: ActionSpec, reads: Collection[Read]) -> tuple[str, ...]:
    """Name the options that are given and read nowhere: misspelt, as a rule."""
    if not spec.options or any(read.names == ("Options",) for read in reads):
        return ()
    known = _options_in(reads)
    return tuple(each for each in spec.options if each not in known)


def _options_in(reads: Iterable[Read]) -> set[str]:
    return {read.names[1] for read in reads if read.names[0] == "Options" and read.names[1:]}


def messages_of_missing_inputs(blueprint: Blueprint, spec: ActionSpec) -> Iterator[str]:
    """Say which inputs an action declares that the ActionSet does not give."""
    given: Mapping[str, Container[str]] = {
        "secrets": spec.secrets,
        "configMaps": spec.config_maps,
        "artifacts": spec.artifacts,
    }
    for missing in missing_inputs(spec.name, blueprint.actions[spec.name], given):
        yield missing.message


def warnings_before(
    blueprint: Blueprint, spec: ActionSpec, seen: Preflight
) -> Iterator[tuple[str, str]]:
    """Warn of what looks wrong before an action runs, each with its reason.

    An option that nothing reads is misspelt as a rule, and a Secret that an action
    declares is there to be given.
    """
    for name in unused_options(spec, seen.reads):
        meant = did_you_mean(nearest(name, sorted(_options_in(seen.reads))))
        yield "OptionUnused", f"The option {name} is given, and {spec.name} reads it nowhere{meant}"
    for message in messages_of_missing_inputs(blueprint, spec):
        yield "InputMissing", message
    twice = (each for phase in seen.phases for each in phase.notices if each.reason == NAME_TWICE)
    yield from ((each.reason, each.message) for each in twice)
    for phase in seen.phases:
        if phase.is_wanted is not False and any(each.why == NO_PROFILE for each in phase.unknown):
            message = (
                f"{phase.name or spec.name} hands on the Profile, and none is given: it is null"
            )
            yield "InputMissing", message
