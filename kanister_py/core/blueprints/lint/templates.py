"""Can every template be read, and is there what it reads?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Action, Blueprint, LocatedBlueprint, Phase
from kanister_py.core.blueprints.reads import ROOTS, Read, check_condition, reads_of
from kanister_py.core.blueprints.texts import DEFER, Text, templates_of, texts_of
from kanister_py.core.errors import TemplateError
from kanister_py.core.objects.documents import Path, nearest
from kanister_py.core.templates.engines import Engine, UnknownTemplateEngine, choose_engine

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
    "The annotation names a language that nobody reads.",
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
    "Artifacts are written into the status of the ActionSet as they are, and whoever may "
    "read the ActionSet reads them. Keep the reference, not the value.",
)
RULES = (
    ENGINE,
    ENGINE_UNKNOWN,
    INVALID,
    PARAMETER,
    PHASE_UNKNOWN,
    PHASE_LATER,
    OUTPUT,
    OBJECT,
    OBJECTS_EARLY,
    UNDECLARED,
    SECRET_KEPT,
)


def actions_of_phases(blueprint: Blueprint) -> dict[str, str]:
    """Name the action of each phase of a Blueprint."""
    return {
        phase.name: name
        for name, action in blueprint.actions.items()
        for phase in action.phases
        if phase.name
    }


def check_templates(
    located: LocatedBlueprint,
    outputs: Mapping[tuple[str, str], frozenset[str]],
    callable_in: Mapping[Path, tuple[str, ...]],
) -> Iterator[Finding]:
    """Read every template of a Blueprint, and look for what it reads.

    `outputs` has what a phase's function declares, by action and phase; phases
    whose outputs only the blueprint knows are not in it. `callable_in` has what the
    conditions of a phase may call, by the path of the phase.
    """
    spot = Spot(located.found)
    annotations = located.blueprint.metadata.annotations
    texts = list(templates_of(located.blueprint))
    try:
        choice = choose_engine(annotations, texts)
    except UnknownTemplateEngine as error:
        yield spot.at("metadata", "annotations").finding(ENGINE_UNKNOWN, error.message)
        return
    if texts:
        taken = "Go templates" if choice.engine is Engine.GO else "Jinja2"
        yield spot.at("actions").finding(ENGINE, f"{choice.why}; read as {taken}")
    phases = actions_of_phases(located.blueprint)
    for name, action in located.blueprint.actions.items():
        # Where a name could not be read, templates would seem to lead nowhere.
        if located.is_whole("actions", name):
            reads = ActionReads(name, action, phases, outputs)
            yield from _Checker(located, reads, choice.engine, callable_in).findings()


class _Checker(NamedTuple):
    """Holds the texts of one action against what they will find."""

    located: LocatedBlueprint
    reads: ActionReads
    engine: Engine
    callable_in: Mapping[Path, tuple[str, ...]]

    def findings(self) -> Iterator[Finding]:
        for text in texts_of(self.reads.action):
            spot = self._spot(text)
            try:
                if text.role == "condition":
                    check_condition(text.text, self._callable_at(spot.path))
                    continue
                reads = reads_of(text.text, self.engine)
            except TemplateError as error:
                yield self._placed(spot.finding(INVALID, error.message), spot, error.line)
                continue
            said: set[tuple[str, str]] = set()
            for read in reads:
                for rule, message in self.reads.wrongs(text, read):
                    if (rule.id, message) in said:
                        continue
                    said.add((rule.id, message))
                    finding = spot.finding(rule, message)
                    if rule.severity is Severity.ERROR and not read.is_certain:
                        finding = finding._replace(severity=Severity.WARNING)
                    yield self._placed(finding, spot, read.line)

    def _callable_at(self, path: Path) -> tuple[str, ...] | None:
        return next(
            (names for phase, names in self.callable_in.items() if path[: len(phase)] == phase),
            None,
        )

    def _spot(self, text: Text) -> Spot:
        phase = self._phase(text.phase)
        path = ("actions", self.reads.name, *text.path)
        named = (phase.name, phase.func) if phase is not None else ("", "")
        return Spot(self.located.found, path, self.reads.name, *named)

    def _phase(self, index: int | None) -> Phase | None:
        if index is None:
            return None
        action = self.reads.action
        return action.defer_phase if index == DEFER else action.phases[index]

    def _placed(self, finding: Finding, spot: Spot, line: int) -> Finding:
        """Count lines inside a block from the line of its mark on."""
        node = self.located.found.document.node_at((*self.located.found.path, *spot.path))
        if node is None or node.style not in ("|", ">"):
            return finding
        return finding._replace(line=node.place.line + max(line, 1), column=1)


class ActionReads(NamedTuple):
    """Holds what the texts of one action read against what will be there.

    `all_phases` names the action of each phase of the Blueprint, `outputs` what the
    function of a phase declares, by action and phase.
    """

    name: str
    action: Action
    all_phases: Mapping[str, str]
    outputs: Mapping[tuple[str, str], frozenset[str]]

    def wrongs(self, text: Text, read: Read) -> Iterator[tuple[Rule, str]]:
        """Say what is wrong with one read of a text, wherever it stands there."""
        root, *below = read.names
        if root not in ROOTS:
            near = nearest(root, ROOTS)
            meant = f"; did you mean {' or '.join('.' + each for each in near)}?" if near else ""
            yield PARAMETER, f"There is no .{root}{meant}"
        elif text.role == "objects" and root in ("Phases", "DeferPhase"):
            yield OBJECTS_EARLY, f"{read} is read before any phase has run"
        elif root == "Phases" and below:
            yield from self._wrong_phase(text, read, below)
        elif root == "DeferPhase" and self.action.defer_phase is not None:
            yield from self._wrong_object(self.action.defer_phase, read, below)
        elif root in _DECLARED and below:
            yield from self._undeclared(root, below[0])
        if text.role == "artifacts" and _is_secret(read.names):
            yield SECRET_KEPT, f"{read} goes into the status of the ActionSet"

    def _wrong_phase(self, text: Text, read: Read, below: list[str]) -> Iterator[tuple[Rule, str]]:
        name, *inside = below
        index = next(
            (at for at, phase in enumerate(self.action.phases) if phase.name == name), None
        )
        if index is None:
            if read.indexed != len(below):
                yield PHASE_UNKNOWN, self._why_unknown(name)
            return
        phase = self.action.phases[index]
        now = len(self.action.phases) if text.phase in (None, DEFER) else text.phase
        assert now is not None  # None is replaced in the line above
        is_itself = index == now
        if index > now or (is_itself and inside[:1] == ["Output"] and len(inside) > read.indexed):
            if read.indexed < len(below):
                what = "is this very phase" if is_itself else "runs later"
                yield PHASE_LATER, f"{read} is not there yet: the phase {name} {what}"
            return
        yield from self._wrong_object(phase, read, inside)
        made = self.outputs.get((self.name, name))
        is_output = len(inside) > 1 and inside[0] == "Output" and not read.indexed
        if made is not None and is_output and inside[1] not in made:
            there = f"it makes {', '.join(sorted(made))}" if made else "it makes none"
            yield OUTPUT, f"{phase.func} makes no output {inside[1]}; {there}"

    def _why_unknown(self, name: str) -> str:
        said = f"The action {self.name} has no phase {name}"
        deferred = self.action.defer_phase
        if deferred is not None and deferred.name == name:
            return f"{said}; its deferPhase is read as .DeferPhase"
        if name in self.all_phases:
            return f"{said}; it belongs to the action {self.all_phases[name]}"
        near = nearest(name, [phase.name for phase in self.action.phases if phase.name])
        return f"{said}; did you mean {' or '.join(near)}?" if near else said

    def _wrong_object(
        self, phase: Phase, read: Read, inside: list[str]
    ) -> Iterator[tuple[Rule, str]]:
        if len(inside) < 2 or inside[0] not in ("Secrets", "ConfigMaps"):
            return
        if inside[1] not in phase.objects and read.indexed < len(inside) - 1:
            near = nearest(inside[1], [*phase.objects])
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            called = phase.name or phase.func
            yield OBJECT, f"The phase {called} names no object {inside[1]}{meant}"

    def _undeclared(self, root: str, name: str) -> Iterator[tuple[Rule, str]]:
        field, declared = {
            "ArtifactsIn": ("inputArtifactNames", self.action.input_artifact_names),
            "ConfigMaps": ("configMapNames", self.action.config_map_names),
            "Secrets": ("secretNames", self.action.secret_names),
        }[root]
        if name not in declared:
            yield UNDECLARED, f".{root}.{name} is read, and {field} does not name it"


_DECLARED = ("ArtifactsIn", "ConfigMaps", "Secrets")


def _is_secret(names: tuple[str, ...]) -> bool:
    if names[0] == "Secrets" or names[:2] == ("Profile", "Credential"):
        return True
    return "Secrets" in names[1:3] and names[0] in ("Phases", "DeferPhase")
