"""Look, then act: what an action will do, and everything that it is sure to fail for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.lint.durations import wrong_durations
from kanister_py.core.blueprints.lint.findings import Rule, Severity
from kanister_py.core.blueprints.lint.signatures import outputs_of
from kanister_py.core.blueprints.lint.templates import (
    PHASE_LATER,
    PHASE_UNKNOWN,
    ActionReads,
    actions_of_phases,
)
from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.blueprints.plan import (
    Known,
    Obstacle,
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
from kanister_py.core.objects.documents import Path, nearest
from kanister_py.core.objects.locations import InvalidProfile, Location, read_location
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.facts import ObjectNeed, needs_of_phase
from kanister_py.core.templates.render import ORIGINAL, Origin, RenderFailed
from kanister_py.core.versions.deprecation import Support
from kanister_py.executor.check_access import missing_accesses
from kanister_py.executor.fetch_facts import fetch_named
from kanister_py.ports.cluster import Cluster, KubeObject

MISSING = "ObjectMissing"


class ActionRefused(UsageError):
    """An action is sure to fail; holds everything that it would fail for."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        told = "; ".join(each.message for each in self.obstacles)
        count = f"{len(self.obstacles)} problems: " if len(self.obstacles) > 1 else ""
        super().__init__(f"{count}{told}", reason=self.obstacles[0].reason)

    @property
    def phase(self) -> int | None:
        """The first phase that is at fault; None if none is."""
        return self.obstacles[0].phase


class Foreseen(NamedTuple):
    """An action's phases as they would run, what they are sure to fail for, and what is open.

    `unchecked` says of objects that are not there why that is not held against the action.
    """

    phases: tuple[PlannedPhase, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    unchecked: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()


def foresee(
    blueprint: Blueprint,
    name: str,
    choices: Sequence[Choice[FunctionEntry] | KanisterError],
    known: Known,
    cluster: Cluster,
    *,
    done: int = 0,
    is_later: bool = False,
    place_of: Callable[[Location], Location] = lambda location: location,
) -> Foreseen:
    """Plan the phases of an action that are not done yet. Reads the cluster, and no more.

    `is_later`: other actions run before it, and may make what it refers to. `place_of`
    says what stands in for a store of a Profile.

    `known.params` grows by the objects of the phases: it must have no other user.
    """
    looking = _Looking(blueprint, name, known, cluster, place_of, may_make=is_later)
    every = blueprint.actions[name].every_phase()
    for (path, phase), choice in zip(every, choices, strict=True):
        if not isinstance(path[-1], int) or path[-1] >= done:
            looking.look_at(phase, path, choice)
    looking.look_at_artifacts()
    looking.look_at_reads(done)
    obstacles = sorted(looking.obstacles, key=_rank)
    phases = [
        each._replace(obstacles=tuple(one for one in obstacles if one.phase == each.at))
        for each in looking.phases
    ]
    return Foreseen(tuple(phases), tuple(obstacles), tuple(looking.unchecked), tuple(looking.reads))


def _rank(obstacle: Obstacle) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """Sort by the phases in the order they run, then by place."""
    phase = obstacle.phase
    place = [(each, "") if isinstance(each, int) else (-1, each) for each in obstacle.path]
    return (phase is None, phase == DEFER, phase if phase is not None else 0, place)


class _Looking:
    """One look at an action, phase by phase in their order."""

    def __init__(
        self,
        blueprint: Blueprint,
        name: str,
        known: Known,
        cluster: Cluster,
        place_of: Callable[[Location], Location],
        *,
        may_make: bool,
    ) -> None:
        self.phases: list[PlannedPhase] = []
        self.obstacles: list[Obstacle] = []
        self.unchecked: list[str] = []
        self.reads: list[Read] = []
        self._blueprint = blueprint
        self._name = name
        self._known = known
        self._cluster = cluster
        self._place_of = place_of
        self._may_make = may_make
        self._is_sure: dict[int | None, bool] = {None: True}

    @property
    def _action(self) -> Action:
        return self._blueprint.actions[self._name]

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
        for inside, need, error in missing:
            obstacle = texts.obstacle(inside, error)
            why = self._why_it_may_come(phase) if isinstance(error, NotFound) else ""
            if not why and planned.is_wanted:
                found.append(obstacle._replace(reason=MISSING))
            elif planned.is_wanted is not False:
                why = why or "its phase may be skipped"
                self.unchecked.append(f"{obstacle.message}; not held against the run, since {why}")
            planned = planned._replace(unknown=(*planned.unknown, _not_there(inside, need)))
        if planned.is_wanted and not isinstance(choice, KanisterError):
            written = self._known.params.facts.artifacts or {}
            unread = unread_artifacts(choice, written, (*texts.reads, *planned.reads))
            found += [texts.obstacle(("args",), error) for error in unread]
        self._is_sure[texts.phase] = planned.is_wanted is True
        self._may_make = self._may_make or planned.may_make
        self.reads += [*texts.reads, *planned.reads]
        self.obstacles += found
        self.phases.append(planned)

    def _check_store(self, planned: PlannedPhase) -> None:
        """Raise if a phase is sure to run, and the Profile names nothing that it can use."""
        args, profile = getattr(planned.code, "Args", None), self._known.params.facts.profile
        if planned.is_wanted and profile and getattr(args, "needs_repository", False):
            self._place_of(read_location(profile.location)).check_repository()

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
        objects = {name: each.as_dict() for name, each in phase.objects.items()}
        rendered = texts.value(objects, ("objects",))
        whole = {
            name: each
            for name, each in rendered.items()
            if not any(map(texts.is_open, each.values()))
        }
        found: dict[str, dict[str, KubeObject]] = {"secrets": {}, "configmaps": {}}
        missing: list[tuple[Path, ObjectNeed, KanisterError]] = []
        root = ("Phases", phase.name) if path[0] == "phases" else ("DeferPhase",)
        for name, need in needs_of_phase(whole).items():
            try:
                found[need.resource.resource][name] = fetch_named(self._cluster, need)
            except TransientError:
                raise
            except KanisterError as error:
                missing.append((("objects", name), need, error))
        unread = {name for name in phase.objects if name not in found["secrets"]} - set(
            found["configmaps"]
        )
        kinds = ("Secrets", "ConfigMaps")
        unknown = {
            (*root, kind, name): "its object is not there" for kind in kinds for name in unread
        }
        self._known = self._known._replace(open={**self._known.open, **unknown})
        if self._may_make:
            soft = (*self._known.soft, *((*root, kind) for kind in kinds))
            self._known = self._known._replace(soft=soft)
        params = self._known.params
        if path[0] == "phases":
            params.enter_phase(phase.name, found["secrets"], found["configmaps"])
        else:
            params.enter_defer_phase(found["secrets"], found["configmaps"])
        return missing

    def look_at_artifacts(self) -> None:
        """Render what the action leaves behind, as far as that goes."""
        texts = TextPlanner(("outputArtifacts",), self._known)
        for text in texts_of(self._action):
            if text.phase is None:
                texts.value(text.text, text.path[1:])
        self.obstacles += texts.obstacles
        self.reads += texts.reads

    def look_at_reads(self, done: int) -> None:
        """Look for phases, outputs and objects that templates read, and that cannot be there."""
        outputs = {
            (self._name, each.name): made
            for each in self.phases
            if each.code is not None and (made := outputs_of(each.code)) is not None
        }
        known_phases = actions_of_phases(self._blueprint)
        reads = ActionReads(self._name, self._action, known_phases, outputs)
        at_fault = {each.path for each in self.obstacles}
        for text in texts_of(self._action):
            is_over = text.phase is not None and 0 <= text.phase < done
            if is_over or text.role == "condition":
                continue
            if text.role == "if" or self._is_sure.get(text.phase, True):
                is_told = text.path in at_fault
                found = self._wrong_reads(text, reads, is_told=is_told)
                self.obstacles += dict.fromkeys(found)

    def _wrong_reads(self, text: Text, reads: ActionReads, *, is_told: bool) -> Iterator[Obstacle]:
        """Say what a text reads in vain; `is_told`: but for what rendering it has told."""
        if "{" not in text.text:
            return
        renderer = self._known.renderer
        try:
            found = reads_of(text.text, renderer.engine, inside_lists=True)
        except TemplateError:
            return
        for read in found:
            # Nobody renders what may give no output yet.
            if is_told and (read.names[0], *read.names[2:3]) != ("Phases", "Output"):
                continue
            for rule, message in reads.wrongs(text, read):
                if rule.severity is Severity.ERROR and read.is_certain:
                    where = renderer.origin.where(text.path, read.line)
                    told = f"{where}: {message}{_original(rule, read)}"
                    yield Obstacle(text.phase, text.path, told, RenderFailed.reason)


def _original(rule: Rule, read: Read) -> str:
    """Say what Kanister would say, for searching."""
    if rule not in (PHASE_UNKNOWN, PHASE_LATER) or read.names[:1] != ("Phases",):
        return ""
    return f'{ORIGINAL}Failed to render template: "{read.names[1]}" not found'


def _not_there(inside: Path, need: ObjectNeed) -> Unknown:
    place = f"{need.namespace}/{need.name}" if need.namespace else need.name
    return Unknown(".".join(map(str, inside)), (), f"{place} is not there")


def forbidden(seen: Foreseen, origin: Origin, cluster: Cluster) -> Iterator[Obstacle]:
    """Ask a cluster for the rights that phases need, and say which it does not give.

    What is touched under a name that is not known yet is not asked for.
    """
    for phase in seen.phases:
        path: Path = ("deferPhase",) if phase.is_deferred else ("phases", phase.at)
        if phase.is_wanted:
            known = [each for each in phase.accesses if "{" not in each.namespace + each.name]
            for access in missing_accesses(cluster, known, cluster.default_namespace):
                told = f"{origin.where(path)}: the cluster does not allow us to {access}; "
                told += "kanister-py rbac prints the Role that does"
                yield Obstacle(phase.at, path, told, "Forbidden")


def unread_artifacts(
    choice: Choice[FunctionEntry],
    artifacts: Mapping[str, Mapping[str, Any]],
    reads: Iterable[Read],
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
            told = f"Artifact {name} was written by version {written}, "
            told += f"which {chosen.function} {chosen.version} does not read; {ways}"
            yield UsageError(told, reason="ArtifactUnreadable")


def _reads_version(entry: FunctionEntry, written: str) -> bool:
    return any(str(each.version) == written for each in entry.listing.reads)


def _way_to(reader: FunctionEntry) -> str:
    if reader.support_at() is Support.REMOVED and reader.listing.removed_in is not None:
        until = reader.listing.removed_in.bare
        return f"{reader.version}, which does, was removed in release {until}: use an earlier one"
    return f"{reader.version} does: set funcVersion to it"


def unused_options(spec: ActionSpec, reads: Collection[Read]) -> tuple[str, ...]:
    """Name the options that are given and read nowhere: misspelt, as a rule."""
    if any(read.names == ("Options",) for read in reads):
        return ()
    known = {read.names[1] for read in reads if read.names[0] == "Options" and read.names[1:]}
    return tuple(each for each in spec.options or {} if each not in known)


def words_before(
    blueprint: Blueprint, spec: ActionSpec, reads: Sequence[Read]
) -> Iterator[tuple[str, str]]:
    """Tell what is worth a word before an action runs, each with its reason.

    An option that nothing reads is misspelt as a rule, and a Secret that an action
    declares is there to be given.
    """
    options = {read.names[1] for read in reads if read.names[0] == "Options" and read.names[1:]}
    for name in unused_options(spec, reads):
        meant = did_you_mean(nearest(name, sorted(options)))
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
                told = f"{spec.name} declares the {what} {name} in {field}, and none is given"
                yield "InputMissing", told
