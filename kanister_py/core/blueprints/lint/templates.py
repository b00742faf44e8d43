"""Templates of a Blueprint: whether they can be read, and whether there is what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kanister_py.core.blueprints.analysis import (
    ActionAnalysis,
    Defect,
    actions_of_phases,
    outputs_of,
)
from kanister_py.core.blueprints.lint.arguments import conditions_of
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Action, LocatedBlueprint, Phase
from kanister_py.core.blueprints.reads import check_condition, engine_of
from kanister_py.core.blueprints.texts import DEFER, Text, templates_of
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.templates.engines import (
    Engine,
    EngineChoice,
    UnknownTemplateEngine,
    is_template,
)
from kanister_py.core.templates.errors import TemplateError, TemplateParseError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.core.templates.wording import explain_unreadable
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
_OF_READS = (PARAMETER, FIELD, PHASE_UNKNOWN, PHASE_LATER, OUTPUT, OBJECT, OBJECTS_EARLY)
_RULES_BY_ID = {rule.id: rule for rule in (*_OF_READS, UNDECLARED, SECRET_KEPT)}
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

    def _outputs(self) -> dict[str, frozenset[str]]:
        """Return what the functions of phases declare, by the names of the phases."""
        outputs = {}
        for path, phase in self.action.every_phase():
            entry = self.entries.get(("actions", self.name, *path))
            declared = None if entry is None else outputs_of(self.context.code(entry))
            if declared is not None:
                outputs[phase.name] = declared
        return outputs

    def findings(self) -> Iterator[Finding]:
        """Read every template of the action, and find what each reads in vain."""
        if not self.located.is_whole("actions", self.name):
            return  # where a name could not be read, templates would seem to lead nowhere
        analysis = ActionAnalysis(
            self.located.blueprint,
            self.name,
            self.language.choice.engine,
            owners=self.language.all_phases,
            suggest=self.context.hints.did_you_mean,
        )
        outputs = self._outputs()
        for text in analysis.texts:
            if not is_template(text.text):
                continue
            spot = self._spot(text)
            try:
                if text.role == "condition":
                    check_condition(text.text, self._callable_in(spot))
                    continue
                wrongs = list(analysis.wrong_reads(text, outputs))
            except TemplateError as error:
                yield self._placed(self._unreadable(spot, text, error), spot, error.line)
                continue
            seen: set[tuple[Defect, str]] = set()
            for wrong in wrongs:
                if (wrong.defect, wrong.message) in seen:
                    continue
                seen.add((wrong.defect, wrong.message))
                finding = spot.finding(_RULES_BY_ID[wrong.defect], wrong.message)
                if not wrong.defect.is_advice and not wrong.read.is_certain:
                    finding = finding._replace(severity=Severity.WARNING)
                yield self._placed(finding, spot, wrong.read.line)

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
