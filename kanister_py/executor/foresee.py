"""Check of an action before it acts: what it will do, and everything it is sure to fail for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.lint.arguments import outputs_of, wrong_durations
from kanister_py.core.blueprints.lint.findings import Rule, Severity
from kanister_py.core.blueprints.lint.templates import (
    PHASE_LATER,
    PHASE_UNKNOWN,
    ActionReads,
    actions_of_phases,
)
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
from kanister_py.core.blueprints.reads import Read, reads_of
from kanister_py.core.blueprints.texts import DEFER, Text, texts_of
from kanister_py.core.errors import (
    KanisterError,
    NotFound,
    TransientError,
    UsageError,
    did_you_mean,
)
from kanister_py.core.kube.locations import InvalidProfile, read_location
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


class Foreseen(NamedTuple):
    """An action's phases as they would run, what they are sure to fail for, and what is open.

    `unchecked` says of objects that are not there why that is not held against the action,
    `unknown` what is not known yet of what the action leaves behind.
    """

    phases: tuple[PlannedPhase, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    unchecked: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    unknown: tuple[Unknown, ...] = ()


def foresee(
    blueprint: Blueprint,
    name: str,
    choices: Sequence[Choice[FunctionEntry] | KanisterError],
    known: PlanBasis,
    cluster: Cluster,
    *,
    done: int = 0,
    is_later: bool = False,
) -> Foreseen:
    """Plan the phases of an action that are not done yet. Reads the cluster, and no more.

    `is_later`: other actions run before it, and may make what it refers to.

    `known.params` grows by the objects of the phases: it must have no other user.
    """
    looking = _Looking(blueprint, name, known, cluster, may_make=is_later)
    every = blueprint.actions[name].every_phase()
    for (path, phase), choice in zip(every, choices, strict=True):
        if not isinstance(path[-1], int) or path[-1] >= done:
            looking.look_at(phase, path, choice)
    looking.look_at_artifacts()
    looking.look_at_reads(done)
    obstacles = sorted(looking.obstacles, key=_rank)
    phases = looking.phases
    if obstacles:
        phases = [
            each._replace(obstacles=tuple(one for one in obstacles if one.phase == each.at))
            for each in phases
        ]
    return Foreseen(
        tuple(phases),
        tuple(obstacles),
        tuple(looking.unchecked),
        tuple(looking.reads),
        tuple(looking.unknown),
    )


def _rank(obstacle: Obstacle) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """Sort by the phases in the order they run, then by place."""
    phase = obstacle.phase
    place = [(each, "") if isinstance(each, int) else (-1, each) for each in obstacle.path]
    return (phase is None, phase == DEFER, phase if phase is not None else 0, place)


class _Looking:
    """One look at an action, phase by phase in their order."""

    def __init__(
        self, blueprint: Blueprint, name: str, known: PlanBasis, cluster: Cluster, *, may_make: bool
    ) -> None:
        self.phases: list[PlannedPhase] = []
        self.obstacles: list[Obstacle] = []
        self.unchecked: list[str] = []
        self.reads: list[Read] = []
        self.unknown: list[Unknown] = []
        self._blueprint = blueprint
        self._action = blueprint.actions[name]
        self._name = name
        self._known = known
        self._cluster = cluster
        self._may_make = may_make
        self._is_sure: dict[int | None, bool] = {None: True}

    def look_at(
        self, phase: Phase, path: Path, choice: Choice[FunctionEntry] | KanisterError
    ) -> None:
        texts = TextPlanner(path, self._known)
        missing = self._enter(phase, path, texts)
        planned = plan_phase(phase, path, choice, self._known)
        found = [*texts.obstacles, *planned.obstacles]
        found += [texts.obstacle(inside, error) for inside, error in wrong_durations(phase)]
        try:
            self._check_store(planned)
        except InvalidProfile as refusal:
            found.append(texts.obstacle(("func",), refusal))
        if texts.unknown:
            planned = planned._replace(unknown=(*texts.unknown, *planned.unknown))
        for inside, need, error in missing:
            obstacle = texts.obstacle(inside, error)
            why = self._why_it_may_come(phase) if isinstance(error, NotFound) else ""
            if not why and planned.is_wanted:
                found.append(obstacle._replace(reason=MISSING))
            elif planned.is_wanted is not False:
                why = why or "its phase may be skipped"
                self.unchecked.append(f"{obstacle.message}; not held against the run, since {why}")
            place = f"{need.namespace}/{need.name}" if need.namespace else need.name
            gone = Unknown(".".join(map(str, inside)), (), f"{place} is not there")
            planned = planned._replace(unknown=(*planned.unknown, gone))
        written = self._known.params.facts.artifacts
        if written and planned.is_wanted and not isinstance(choice, KanisterError):
            unread = unread_artifacts(choice, written, (*texts.reads, *planned.reads))
            found += [texts.obstacle(("args",), error) for error in unread]
        planned = planned._replace(notices=(*planned.notices, *self._of_one_name(phase)))
        self._is_sure[texts.phase] = planned.is_wanted is True
        self._may_make = self._may_make or planned.may_make
        self.reads += [*texts.reads, *planned.reads]
        self.obstacles += found
        self.phases.append(planned)

    def _of_one_name(self, phase: Phase) -> Iterator[Notice]:
        """Warn of an earlier phase of the same name: Kanister runs both, and one's output goes."""
        if phase.name and any(each.name == phase.name for each in self.phases):
            message = (
                f"{self._name} has two phases called {phase.name}: "
                "what is read of the first is lost once the second begins"
            )
            yield Notice(NAME_TWICE, message)

    def _check_store(self, planned: PlannedPhase) -> None:
        """Raise if a phase is sure to run, and the Profile names nothing that it can use."""
        args, profile = getattr(planned.code, "Args", None), self._known.params.facts.profile
        if planned.is_wanted and profile and getattr(args, "needs_repository", False):
            self._known.place_of(read_location(profile.location)).check_repository()

    def _why_it_may_come(self, phase: Phase) -> str:
        """Say why an object that a phase refers to may be there in time; empty if it may not."""
        if self._may_make:
            return "an earlier phase may make it"
        if phase.retry is not None and phase.retry.limit and NotFound.reason in phase.retry.on:
            return f"its phase is tried again on {NotFound.reason}"
        return ""

    def _enter(
        self, phase: Phase, path: Path, texts: TextPlanner
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Let templates see the objects of a phase, and give those that are not there."""
        found: dict[str, dict[str, KubeObject]] = {"secrets": {}, "configmaps": {}}
        root = ("Phases", phase.name) if path[0] == "phases" else ("DeferPhase",)
        missing = self._read_objects(phase, texts, root, found) if phase.objects else []
        if self._may_make:
            soft = (*self._known.soft, *((*root, kind) for kind in _KINDS))
            self._known = self._known._replace(soft=soft)
        name = phase.name if path[0] == "phases" else None
        self._known.params.enter_phase(name, found["secrets"], found["configmaps"])
        return missing

    def _read_objects(
        self,
        phase: Phase,
        texts: TextPlanner,
        root: tuple[str, ...],
        found: Mapping[str, dict[str, KubeObject]],
    ) -> list[tuple[Path, ObjectNeed, KanisterError]]:
        """Read the objects of a phase into `found`; those that are not there are no more known."""
        objects = {name: each.as_dict() for name, each in phase.objects.items()}
        rendered = texts.value(objects, ("objects",))
        whole = {
            name: each
            for name, each in rendered.items()
            if not any(map(texts.is_open, each.values()))
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
        self._known = self._known._replace(open={**self._known.open, **unknown})
        return missing

    def look_at_artifacts(self) -> None:
        """Render what the action leaves behind, as far as that goes."""
        if not self._action.output_artifacts:
            return
        texts = TextPlanner((), self._known)
        for text in texts_of(self._action):
            if text.phase is None:
                texts.value(text.text, text.path)
        self.unknown += texts.unknown
        self.obstacles += texts.obstacles
        self.reads += texts.reads

    def look_at_reads(self, done: int) -> None:
        """Look for phases, outputs and objects that templates read, and that cannot be there."""
        templates = [each for each in texts_of(self._action) if "{" in each.text]
        if not templates:
            return
        outputs = {
            (self._name, each.name): made
            for each in self.phases
            if each.code is not None and (made := outputs_of(each.code)) is not None
        }
        known_phases = actions_of_phases(self._blueprint)
        engine = self._known.renderer.engine
        reads = ActionReads(self._name, self._action, known_phases, outputs, engine)
        at_fault = {each.path for each in self.obstacles}
        for text in templates:
            is_over = text.phase is not None and 0 <= text.phase < done
            if is_over or text.role == "condition":
                continue
            if text.role == "if" or self._is_sure.get(text.phase, True):
                found = self._wrong_reads(text, reads, is_at_fault=text.path in at_fault)
                self.obstacles += dict.fromkeys(found)

    def _wrong_reads(
        self, text: Text, reads: ActionReads, *, is_at_fault: bool
    ) -> Iterator[Obstacle]:
        """Find what a text reads in vain; `is_at_fault`: rendering it has failed already."""
        renderer = self._known.renderer
        try:
            found = reads_of(text.text, renderer.engine, inside_lists=True)
        except TemplateError:
            return
        for read in found:
            # What may give no output yet was not rendered.
            if is_at_fault and (read.names[0], *read.names[2:3]) != ("Phases", "Output"):
                continue
            for rule, message in reads.wrongs(text, read):
                if rule.severity is Severity.ERROR and read.is_certain:
                    where = renderer.origin.where(text.path, read.line)
                    is_go = renderer.engine is Engine.GO
                    whole = f"{where}: {message}{_original(rule, read) if is_go else ''}"
                    yield Obstacle(text.phase, text.path, whole, RenderFailed.reason)


def _original(rule: Rule, read: Read) -> str:
    """Give Kanister's own sentence, for searching."""
    if rule not in (PHASE_UNKNOWN, PHASE_LATER) or read.names[:1] != ("Phases",):
        return ""
    return f'{ORIGINAL}Failed to render template: "{read.names[1]}" not found'


def forbidden(seen: Foreseen, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
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


def warnings_before(
    blueprint: Blueprint, spec: ActionSpec, seen: Foreseen
) -> Iterator[tuple[str, str]]:
    """Warn of what looks wrong before an action runs, each with its reason.

    An option that nothing reads is misspelt as a rule, and a Secret that an action
    declares is there to be given.
    """
    for name in unused_options(spec, seen.reads):
        meant = did_you_mean(nearest(name, sorted(_options_in(seen.reads))))
        yield "OptionUnused", f"The option {name} is given, and {spec.name} reads it nowhere{meant}"
    action = blueprint.actions[spec.name]
    declared = (
        ("Secret", "secretNames", action.secret_names, spec.secrets),
        ("ConfigMap", "configMapNames", action.config_map_names, spec.config_maps),
        ("artifact", "inputArtifactNames", action.input_artifact_names, spec.artifacts),
    )
    for what, field, names, given in declared:
        for name in names:
            if name not in given:
                message = f"{spec.name} declares the {what} {name} in {field}, and none is given"
                yield "InputMissing", message
    twice = (each for phase in seen.phases for each in phase.notices if each.reason == NAME_TWICE)
    yield from ((each.reason, each.message) for each in twice)
    for phase in seen.phases:
        if phase.is_wanted is not False and any(each.why == NO_PROFILE for each in phase.unknown):
            message = (
                f"{phase.name or spec.name} hands on the Profile, and none is given: it is null"
            )
            yield "InputMissing", message
