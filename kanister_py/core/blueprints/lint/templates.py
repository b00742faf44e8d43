"""Templates of a Blueprint: whether they can be read, and whether there is what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kanister_py.core.blueprints.lint.arguments import conditions_of, outputs_of
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Action, Blueprint, LocatedBlueprint, Phase
from kanister_py.core.blueprints.reads import EACH, Read, check_condition, engine_of, reads_of
from kanister_py.core.blueprints.texts import DEFER, Text, templates_of, texts_of
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.templates.engines import (
    Engine,
    EngineChoice,
    UnknownTemplateEngine,
    is_template,
)
from kanister_py.core.templates.errors import TemplateError, TemplateParseError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.core.templates.wording import explain_unreadable, why_impossible
from kanister_py.core.yaml.documents import Path

ENGINE = Rule(
    "template-engine",
    Severity.INFO,
    "In which language the templates of a Blueprint are read.",
    "One Blueprint has one language. The annotation kanister-py.io/template-engine names "
    "it (go or jinja2). Without it, one expression that reads .Field or $variable means "
    "Go; else Go is taken if it can read all of them, and Jinja2 if not.",
)
ENGINE_UNKNOWN = Rule(
    "template-engine-unknown",
    Severity.ERROR,
    "The annotation names a language that is not known.",
    "kanister-py.io/template-engine is go or jinja2.",
)
INVALID = Rule(
    "template-invalid",
    Severity.ERROR,
    "A template cannot be read.",
    "Kanister finds this out when the phase's turn comes, with earlier phases done. A key "
    'with a hyphen needs index: {{ index .Options "a-b" }}.',
)
PARAMETER = Rule(
    "parameter-unknown",
    Severity.ERROR,
    "A template reads something at the top that is never there.",
    "Templates see " + ", ".join(ROOTS) + ". Names are exact, capitals included.",
)
FIELD = Rule(
    "field-unknown",
    Severity.ERROR,
    "A template reads a field that cannot exist.",
    "What stands at the top of the tree has fixed fields, whatever the action is about. "
    "What an object itself says is below .Object: {{ .Object.metadata.labels.app }}.",
)
PHASE_UNKNOWN = Rule(
    "phase-unknown",
    Severity.ERROR,
    "A template reads of a phase that its action does not have.",
    "Actions know nothing of each other's phases. What one action leaves for another goes "
    "into outputArtifacts, and is read there as .ArtifactsIn.",
)
PHASE_LATER = Rule(
    "phase-later",
    Severity.ERROR,
    "A template reads of a phase before that phase has run.",
    "Phases run in order, and a phase has no output while it runs. Its own Secrets and "
    "ConfigMaps, from `objects`, are there from its start.",
)
OUTPUT = Rule(
    "output-unknown",
    Severity.ERROR,
    "A template reads an output that the function does not make.",
    "The function declares its outputs, and this is none of them. "
    "`kanister-py functions describe` lists them.",
)
OBJECT = Rule(
    "phase-object-unknown",
    Severity.ERROR,
    "A template reads a Secret or ConfigMap that the phase does not name in `objects`.",
    "Only what `objects` names is fetched for a phase, and only with the kind Secret or ConfigMap.",
)
OBJECTS_EARLY = Rule(
    "objects-read-phases",
    Severity.ERROR,
    "`objects` of a phase reads of phases.",
    "References in `objects` are rendered when the action starts, before any phase has "
    "run: there is nothing to read then, and the ActionSet fails at its start.",
)
UNDECLARED = Rule(
    "dependency-not-declared",
    Severity.INFO,
    "A template reads an artifact, ConfigMap or Secret that its action does not declare.",
    "Nothing enforces inputArtifactNames, configMapNames and secretNames. They tell the "
    "authors of ActionSets what an action needs; what is missing there is missed by them.",
)
SECRET_KEPT = Rule(
    "secret-in-artifact",
    Severity.WARNING,
    "An output artifact holds what was read from a Secret or from credentials.",
    "Artifacts are written into the status of the ActionSet as they are, and whatever may "
    "read the ActionSet reads them. Keep the reference, not the value.",
)
RULES = (
    ENGINE,
    ENGINE_UNKNOWN,
    INVALID,
    PARAMETER,
    FIELD,
    PHASE_UNKNOWN,
    PHASE_LATER,
    OUTPUT,
    OBJECT,
    OBJECTS_EARLY,
    UNDECLARED,
    SECRET_KEPT,
)


class Language(NamedTuple):
    """The language of a Blueprint's templates, and which action each name of a phase is of."""

    choice: EngineChoice
    all_phases: Mapping[str, str]


def actions_of_phases(blueprint: Blueprint) -> dict[str, str]:
    """Name the action of each phase of a Blueprint."""
    return {
        phase.name: name
        for name, action in blueprint.actions.items()
        for phase in action.phases
        if phase.name
    }


def check_engine(located: LocatedBlueprint) -> tuple[Language | None, list[Finding]]:
    """Choose the language of a Blueprint's templates, and say which it is."""
    spot = Spot(located.found)
    try:
        choice = engine_of(located.blueprint)
    except UnknownTemplateEngine as error:
        return None, [spot.at("metadata", "annotations").finding(ENGINE_UNKNOWN, error.message)]
    language = Language(choice, actions_of_phases(located.blueprint))
    if next(templates_of(located.blueprint), None) is None:
        return language, []
    taken = "Go templates" if choice.engine is Engine.GO else "Jinja2"
    return language, [spot.at("actions").finding(ENGINE, f"{choice.why}; read as {taken}")]


class ActionTexts(NamedTuple):
    """Texts of one action, held against what they will find.

    `entries` has the versions that the phases get, by their paths.
    """

    located: LocatedBlueprint
    name: str
    language: Language
    entries: Mapping[Path, FunctionEntry]
    context: Context

    @property
    def action(self) -> Action:
        return self.located.blueprint.actions[self.name]

    def _expectations(self) -> ActionReads:
        outputs = {}
        for path, phase in self.action.every_phase():
            entry = self.entries.get(("actions", self.name, *path))
            declared = None if entry is None else outputs_of(self.context.code(entry))
            if declared is not None:
                outputs[self.name, phase.name] = declared
        engine, hints = self.language.choice.engine, self.context.hints
        return ActionReads(self.name, self.action, self.language.all_phases, outputs, engine, hints)

    def findings(self) -> Iterator[Finding]:
        """Read every template of an action, and look for what it reads."""
        if not self.located.is_whole("actions", self.name):
            return  # where a name could not be read, templates would seem to lead nowhere
        expectations = self._expectations()
        for text in texts_of(self.action):
            if not is_template(text.text):
                continue
            spot = self._spot(text)
            try:
                if text.role == "condition":
                    check_condition(text.text, self._callable_in(spot))
                    continue
                reads = reads_of(text.text, self.language.choice.engine, inside_lists=True)
            except TemplateError as error:
                yield self._placed(self._unreadable(spot, text, error), spot, error.line)
                continue
            seen: set[tuple[str, str]] = set()
            for read in reads:
                for rule, message in expectations.wrongs(text, read):
                    if (rule.id, message) in seen:
                        continue
                    seen.add((rule.id, message))
                    finding = spot.finding(rule, message)
                    if rule.severity is Severity.ERROR and not read.is_certain:
                        finding = finding._replace(severity=Severity.WARNING)
                    yield self._placed(finding, spot, read.line)

    def _unreadable(self, spot: Spot, text: Text, error: TemplateError) -> Finding:
        if not isinstance(error, TemplateParseError):
            return spot.finding(INVALID, error.message)
        is_sure = self.language.choice.is_sure or text.role == "condition"
        engine = Engine.GO if text.role == "condition" else self.language.choice.engine
        why = explain_unreadable(error, text.text, engine, is_sure=is_sure)
        return spot.finding(INVALID, why)

    def _callable_in(self, spot: Spot) -> tuple[str, ...] | None:
        """Say what the conditions of a phase may call, if that is known."""
        size = 3 if spot.path[2] == "deferPhase" else 4
        entry = self.entries.get(spot.path[:size])
        code = None if entry is None else self.context.code(entry)
        return None if code is None else conditions_of(code)

    def _spot(self, text: Text) -> Spot:
        phase = self._phase(text.phase)
        path = ("actions", self.name, *text.path)
        named = (phase.name, phase.func) if phase is not None else ("", "")
        return Spot(self.located.found, path, self.name, *named)

    def _phase(self, index: int | None) -> Phase | None:
        if index is None:
            return None
        return self.action.defer_phase if index == DEFER else self.action.phases[index]

    def _placed(self, finding: Finding, spot: Spot, line: int) -> Finding:
        """Count lines inside a block from the line of its mark on."""
        there = self.located.found.line_of(spot.path, line)
        return finding if there == finding.line else finding._replace(line=there, column=1)


class ActionReads:
    """Check of what the texts of one action read against what will be there.

    `all_phases` names the action of each phase of the Blueprint, `outputs` what the
    function of a phase declares, by action and phase.
    """

    def __init__(
        self,
        name: str,
        action: Action,
        all_phases: Mapping[str, str],
        outputs: Mapping[tuple[str, str], frozenset[str]],
        engine: Engine = Engine.GO,
        hints: Hints | None = None,
    ) -> None:
        self._name = name
        self._action = action
        self._all_phases = all_phases
        self._outputs = outputs
        self._engine = engine
        self._hints = hints or Hints()
        self._indices: dict[str, int] = {}
        for index, phase in enumerate(action.phases):
            self._indices.setdefault(phase.name, index)
        self._names = [each for each in self._indices if each]

    def wrongs(self, text: Text, read: Read) -> Iterator[tuple[Rule, str]]:
        """Say what is wrong with one read of a text, wherever it stands there."""
        root, *below = read.names
        if EACH in below:
            why = why_impossible(read.names, self._engine)
            if why:
                yield FIELD, f"There is {why}"
            return
        if root not in ROOTS:
            dot = "." if self._engine is Engine.GO else ""
            meant = self._hints.did_you_mean(root, ROOTS, dot)
            there = meant or f"; there are {', '.join(dot + each for each in ROOTS)}"
            yield PARAMETER, f"There is no {dot}{root}{there}"
            return
        if text.role == "objects" and root in ("Phases", "DeferPhase"):
            yield OBJECTS_EARLY, f"{read} is read before any phase has run"
        elif root == "Phases" and below:
            yield from self._wrong_phase(text, read, below)
        elif root == "DeferPhase":
            yield from self._wrong_deferred(text, read, below)
        elif root in _DECLARED and below:
            yield from self._undeclared(root, below[0])
        why = why_impossible(read.names, self._engine)
        if why:
            yield FIELD, f"There is {why}"
        if text.role == "artifacts" and _is_secret(read.names):
            yield SECRET_KEPT, f"{read} goes into the status of the ActionSet"

    def _wrong_phase(self, text: Text, read: Read, below: list[str]) -> Iterator[tuple[Rule, str]]:
        name, *inside = below
        index = self._indices.get(name)
        if index is None:
            if read.indexed != len(below):
                yield PHASE_UNKNOWN, self._why_unknown(name)
            return
        phase = self._action.phases[index]
        now = len(self._action.phases) if text.phase in (None, DEFER) else text.phase
        assert now is not None  # None is replaced in the line above
        is_itself = index == now
        if index > now or (is_itself and inside[:1] == ["Output"] and len(inside) > read.indexed):
            if read.indexed < len(below):
                what = "is this very phase" if is_itself else "runs later"
                yield PHASE_LATER, f"{read} is not there yet: the phase {name} {what}"
            return
        yield from self._wrong_object(phase, read, inside)
        made = self._outputs.get((self._name, name))
        is_output = len(inside) > 1 and inside[0] == "Output" and not read.indexed
        if made is not None and is_output and inside[1] not in made:
            there = f"it makes {', '.join(sorted(made))}" if made else "it makes none"
            yield OUTPUT, f"{phase.func} makes no output {inside[1]}; {there}"

    def _wrong_deferred(
        self, text: Text, read: Read, below: list[str]
    ) -> Iterator[tuple[Rule, str]]:
        deferred = self._action.defer_phase
        if below[:1] == ["Output"] and len(below) - 1 > read.indexed:
            if deferred is None:
                yield PHASE_UNKNOWN, f"The action {self._name} has no deferPhase, and no {read}"
            elif text.phase is not None and read.is_certain:
                what = "is this very phase" if text.phase == DEFER else "runs later"
                yield PHASE_LATER, f"{read} is not there yet: the deferPhase {what}"
        elif deferred is not None:
            yield from self._wrong_object(deferred, read, below)

    def _why_unknown(self, name: str) -> str:
        missing = f"The action {self._name} has no phase {name}"
        deferred = self._action.defer_phase
        if deferred is not None and deferred.name == name:
            return f"{missing}; its deferPhase is read as .DeferPhase"
        if name in self._all_phases:
            return f"{missing}; it belongs to the action {self._all_phases[name]}"
        there = f"; it has {_few(self._names)}" if self._names else "; it has none with a name"
        return missing + (self._hints.did_you_mean(name, self._names) or there)

    def _wrong_object(
        self, phase: Phase, read: Read, inside: list[str]
    ) -> Iterator[tuple[Rule, str]]:
        if len(inside) < 2 or inside[0] not in ("Secrets", "ConfigMaps"):
            return
        if inside[1] not in phase.objects and read.indexed < len(inside) - 1:
            there = ", ".join(phase.objects)
            meant = self._hints.did_you_mean(inside[1], [*phase.objects]) or (
                f"; there are {there}" if there else "; name it there, with its kind"
            )
            called = phase.name or phase.func
            yield OBJECT, f"The phase {called} names no object {inside[1]}{meant}"

    def _undeclared(self, root: str, name: str) -> Iterator[tuple[Rule, str]]:
        field, declared = {
            "ArtifactsIn": ("inputArtifactNames", self._action.input_artifact_names),
            "ConfigMaps": ("configMapNames", self._action.config_map_names),
            "Secrets": ("secretNames", self._action.secret_names),
        }[root]
        if name not in declared:
            meant = self._hints.did_you_mean(name, declared)
            yield UNDECLARED, f".{root}.{name} is read, and {field} does not name it{meant}"


_DECLARED = ("ArtifactsIn", "ConfigMaps", "Secrets")


def _few(names: Sequence[str]) -> str:
    more = len(names) - 12
    return ", ".join(names[:12]) + (f" and {more} more" if more > 0 else "")


def _is_secret(names: tuple[str, ...]) -> bool:
    if names[0] == "Secrets" or names[:2] == ("Profile", "Credential"):
        return True
    return "Secrets" in names[1:3] and names[0] in ("Phases", "DeferPhase")
