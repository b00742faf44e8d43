"""Lint rules for the templates of a Blueprint: syntax, and reads that cannot succeed."""

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
    "The template engine of a Blueprint.",
    "A Blueprint has one template engine. The annotation kanister-py.io/template-engine selects "
    "it (go or jinja2). Without it, an expression that reads .Field or $variable means Go; "
    "otherwise Go is used if it can parse all templates, and Jinja2 if not.",
)
ENGINE_UNKNOWN = Rule(
    "template-engine-unknown",
    Severity.ERROR,
    "The annotation names an unknown template engine.",
    "kanister-py.io/template-engine is go or jinja2.",
)
INVALID = Rule(
    "template-invalid",
    Severity.ERROR,
    "A template cannot be parsed.",
    "Kanister fails only when the phase is due, after earlier phases have run. A key "
    'with a hyphen needs index: {{ index .Options "a-b" }}.',
)
PARAMETER = Rule(
    "parameter-unknown",
    Severity.ERROR,
    "A template reads an unknown top-level parameter.",
    "Templates see " + ", ".join(ROOTS) + ". Names are exact, including capitals.",
)
FIELD = Rule(
    "field-unknown",
    Severity.ERROR,
    "A template reads a field that cannot exist.",
    "Top-level parameters have fixed fields, regardless of the action. Fields of the object "
    "itself are below .Object: {{ .Object.metadata.labels.app }}.",
)
PHASE_UNKNOWN = Rule(
    "phase-unknown",
    Severity.ERROR,
    "A template reads a phase that its action does not have.",
    "An action cannot read phases of other actions. An action passes data to another one in "
    "outputArtifacts, which templates read as .ArtifactsIn.",
)
PHASE_LATER = Rule(
    "phase-later",
    Severity.ERROR,
    "A template reads a phase before that phase has run.",
    "Phases run in order, and a phase has no output while it runs. Its own Secrets and "
    "ConfigMaps, from `objects`, are available from its start.",
)
OUTPUT = Rule(
    "output-unknown",
    Severity.ERROR,
    "A template reads an output that the function does not have.",
    "The output is not among those that the function declares. "
    "`kanister-py functions describe` lists them.",
)
OBJECT = Rule(
    "phase-object-unknown",
    Severity.ERROR,
    "A template reads a Secret or ConfigMap that the phase does not name in `objects`.",
    "Only Secrets and ConfigMaps that `objects` names are fetched for a phase.",
)
OBJECTS_EARLY = Rule(
    "objects-read-phases",
    Severity.ERROR,
    "`objects` of a phase reads phases.",
    "References in `objects` are rendered when the action starts, before any phase has "
    "run: the values do not exist yet, and the ActionSet fails at its start.",
)
UNDECLARED = Rule(
    "dependency-not-declared",
    Severity.INFO,
    "A template reads an artifact, ConfigMap or Secret that its action does not declare.",
    "inputArtifactNames, configMapNames and secretNames are not enforced. They document the "
    "inputs of an action for the authors of ActionSets, so a missing name misleads them.",
)
OPTION_UNDECLARED = Rule(
    "option-undeclared",
    Severity.WARNING,
    "A template reads an option that is not among those that its action declares.",
    "An action that declares `options` cannot be given others, except for those that other "
    "actions of its Blueprint declare. Declare the option, or correct its name.",
)
SECRET_KEPT = Rule(
    "secret-in-artifact",
    Severity.WARNING,
    "An output artifact contains data of a Secret or of credentials.",
    "Artifacts are stored in the status of the ActionSet in plain text, readable by everyone "
    "who can read the ActionSet. Store a reference to the Secret instead.",
)
_OF_READS = (PARAMETER, FIELD, PHASE_UNKNOWN, PHASE_LATER, OUTPUT, OBJECT, OBJECTS_EARLY)
_RULES_BY_ID = {rule.id: rule for rule in (*_OF_READS, UNDECLARED, OPTION_UNDECLARED, SECRET_KEPT)}
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
    OPTION_UNDECLARED,
    SECRET_KEPT,
)


class Language(NamedTuple):
    """Template engine of a Blueprint, and the actions of its phases by phase name."""

    choice: EngineChoice
    all_phases: Mapping[str, str]


def check_engine(located: LocatedBlueprint) -> tuple[Language | None, list[Finding]]:
    """Choose the template engine of a Blueprint, and report the choice."""
    spot = Spot(located.manifest)
    try:
        choice = engine_of(located.blueprint)
    except UnknownTemplateEngine as error:
        return None, [spot.at("metadata", "annotations").finding(ENGINE_UNKNOWN, error.message)]
    language = Language(choice, actions_of_phases(located.blueprint))
    if next(templates_of(located.blueprint), None) is None:
        return language, []
    engine = "Go templates" if choice.engine is Engine.GO else "Jinja2"
    return language, [spot.at("actions").finding(ENGINE, f"{choice.why}; read as {engine}")]


class ActionTexts(NamedTuple):
    """Texts of one action and their context.

    `entries` maps the paths of phases to the function versions that they get.
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
        """Map phases to the outputs that their functions declare."""
        outputs = {}
        for path, phase in self.action.every_phase():
            entry = self.entries.get(("actions", self.name, *path))
            declared = None if entry is None else outputs_of(self.context.code(entry))
            if declared is not None:
                outputs[phase.name] = declared
        return outputs

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about all templates of the action."""
        if not self.located.is_whole("actions", self.name):
            return  # a name that could not be parsed would make correct templates look wrong
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
            reported: set[tuple[Defect, str]] = set()
            for wrong in wrongs:
                if (wrong.defect, wrong.message) in reported:
                    continue
                reported.add((wrong.defect, wrong.message))
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
        """Return the functions that the conditions of a phase may call, or None if unknown."""
        size = 3 if spot.path[2] == "deferPhase" else 4
        entry = self.entries.get(spot.path[:size])
        code = None if entry is None else self.context.code(entry)
        return None if code is None else conditions_of(code)

    def _spot(self, text: Text) -> Spot:
        phase = self._phase(text.phase)
        path = ("actions", self.name, *text.path)
        names = (phase.name, phase.func) if phase is not None else ("", "")
        return Spot(self.located.manifest, path, self.name, *names)

    def _phase(self, index: int | None) -> Phase | None:
        if index is None:
            return None
        return self.action.defer_phase if index == DEFER else self.action.phases[index]

    def _placed(self, finding: Finding, spot: Spot, line: int) -> Finding:
        """Adjust the line of a finding for a text in a block scalar."""
        file_line = self.located.manifest.line_of(spot.path, line)
        return finding if file_line == finding.line else finding._replace(line=file_line, column=1)
