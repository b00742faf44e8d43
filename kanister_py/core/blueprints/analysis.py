"""Static analysis of an action: which values its templates read, and defects of its phases.

Lint, the plan and the check before a run report the same defects with different consequences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.blueprints.reads import ANY_MEMBER, Read, reads_of
from kanister_py.core.blueprints.texts import DEFER, Text, texts_of
from kanister_py.core.errors import KanisterError, UsageError, did_you_mean
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.core.templates.wording import why_impossible
from kanister_py.core.yaml.documents import Path, nearest
from kanister_py.core.yaml.weak import InvalidArgs, args_without_templates, problems_of_args


class Defect(StrEnum):
    """Kind of a defect. The values are the ids of lint rules."""

    PARAMETER_UNKNOWN = "parameter-unknown"
    FIELD_UNKNOWN = "field-unknown"
    PHASE_UNKNOWN = "phase-unknown"
    PHASE_LATER = "phase-later"
    OUTPUT_UNKNOWN = "output-unknown"
    OBJECT_UNKNOWN = "phase-object-unknown"
    OBJECTS_EARLY = "objects-read-phases"
    UNDECLARED = "dependency-not-declared"
    OPTION_UNDECLARED = "option-undeclared"
    SECRET_KEPT = "secret-in-artifact"  # noqa: S105 # the id of a rule
    ARGUMENT_MISSING = "argument-missing"
    ARGUMENT_UNKNOWN = "argument-unknown"
    ARGUMENT_TYPE = "argument-type"

    @property
    def is_advice(self) -> bool:
        """Return whether the action can run in spite of the defect."""
        return self in (Defect.UNDECLARED, Defect.OPTION_UNDECLARED, Defect.SECRET_KEPT)


class Suggest(Protocol):
    """Function that returns a "did you mean" question, or an empty string if no name is similar."""

    def __call__(self, word: str, known: Sequence[str], mark: str = "", /) -> str: ...


def suggest(word: str, known: Sequence[str], mark: str = "") -> str:
    """Return a "did you mean" question with the similar names, prefixed with `mark`."""
    return did_you_mean([f"{mark}{name}" for name in nearest(word, known)])


# Arguments and durations


class WrongArgument(NamedTuple):
    """Argument that a function refuses. `path` is relative to the phase."""

    path: Path
    defect: Defect
    error: KanisterError
    message: str


_DEFECTS_OF_ARGUMENTS: Final = {
    "missing": Defect.ARGUMENT_MISSING,
    "unknown": Defect.ARGUMENT_UNKNOWN,
    "type": Defect.ARGUMENT_TYPE,
}
_FIRST_NAME: Final = re.compile(r"[^.\[]+")


def wrong_arguments(
    phase: Phase,
    args: Mapping[str, Any],
    code: Any,
    is_open: Callable[[object], bool],
    failed: Container[Path] = (),
) -> list[WrongArgument]:
    """Check arguments against the model of a function and its own `refusals`.

    `is_open` returns True for values that are not rendered yet. Arguments at the paths in `failed`
    have been reported already and are skipped.
    """
    wrong = []
    for problem in problems_of_args(code.Args, args, is_open):
        first = _FIRST_NAME.match(problem.path)
        is_given = first is not None and first[0] in args
        path: Path = ("args", first[0]) if is_given and first is not None else ("args",)
        if path not in failed:
            defect = _DEFECTS_OF_ARGUMENTS[problem.kind]
            error = InvalidArgs(phase.func, [problem])
            wrong.append(WrongArgument(path, defect, error, problem.message))
    if wrong:
        return wrong
    refusals = getattr(code, "refusals", lambda _: ())(args_without_templates(args, is_open))
    return [
        WrongArgument(("args", name), Defect.ARGUMENT_TYPE, error, error.message)
        for name, error in refusals
    ]


def wrong_durations(phase: Phase) -> Iterator[tuple[Path, UsageError]]:
    """Yield the durations of a phase that are invalid, with their paths in the phase."""
    durations: dict[Path, str] = {("timeout",): phase.timeout}
    if phase.retry is not None:
        durations["retry", "backoff"] = phase.retry.backoff
        durations["retry", "maxBackoff"] = phase.retry.max_backoff
    for path, text in durations.items():
        if not text:
            continue
        try:
            seconds = parse_seconds(text)
        except InvalidDuration as error:
            message = f"{text!r} is not a duration: {error.message}"
            yield path, UsageError(message, reason=error.reason)
            continue
        if seconds < 0 or (seconds == 0 and path == ("timeout",)):
            minimum = "zero or more" if path != ("timeout",) else "more than zero, or left out"
            message = f"The duration must be {minimum}, found {text!r}"
            yield path, UsageError(message, reason=InvalidDuration.reason)


def outputs_of(code: Any) -> frozenset[str] | None:
    """Return the outputs that a function declares, or None if the Blueprint defines them."""
    model = getattr(code, "Outputs", None)
    if model is None or model.model_config.get("extra") == "allow":
        return None
    fields: Mapping[str, Any] = model.model_fields
    return frozenset(field.alias or name for name, field in fields.items())


# Inputs


class MissingInput(NamedTuple):
    """Input that an action declares and the ActionSet lacks. `field` is the ActionSet's."""

    field: str
    message: str


def missing_inputs(
    name: str, action: Action, given: Mapping[str, Container[str]]
) -> Iterator[MissingInput]:
    """Yield declared inputs that are missing. `given` maps fields of the ActionSet to names."""
    for kind, declaration, field, names in (
        ("Secret", "secretNames", "secrets", action.secret_names),
        ("ConfigMap", "configMapNames", "configMaps", action.config_map_names),
        ("artifact", "inputArtifactNames", "artifacts", action.input_artifact_names),
    ):
        for missing in names:
            if missing not in given.get(field, ()):
                declares = f"{name} declares the {kind} {missing} in {declaration}"
                yield MissingInput(field, f"{declares}, and none is given")


# Templates


class WrongRead(NamedTuple):
    """Read of a template that cannot succeed, with the reason."""

    read: Read
    defect: Defect
    message: str


def actions_of_phases(blueprint: Blueprint) -> dict[str, str]:
    """Map the names of phases to their actions."""
    return {
        phase.name: name
        for name, action in blueprint.actions.items()
        for phase in action.phases
        if phase.name
    }


class ActionAnalysis:
    """Analysis of the templates of one action. Every text is parsed at most once."""

    def __init__(
        self,
        blueprint: Blueprint,
        name: str,
        engine: Engine,
        *,
        owners: Mapping[str, str] | None = None,
        suggest: Suggest = suggest,
    ) -> None:
        """`owners` maps phases of the Blueprint to their actions; computed if omitted."""
        self.blueprint: Final = blueprint
        self.name: Final = name
        self.engine: Final = engine
        self.action: Final[Action] = blueprint.actions[name]
        self.texts: Final = tuple(texts_of(self.action))
        self._owners = owners
        self._suggest = suggest
        self._parsed: dict[str, tuple[Read, ...] | TemplateError] = {}
        self._indices: dict[str, int] = {}
        for index, phase in enumerate(self.action.phases):
            self._indices.setdefault(phase.name, index)

    def reads_in(self, text: str, *, inside_lists: bool = False) -> list[Read]:
        """List the reads of a text, as `reads_of` does. Raises TemplateError."""
        parsed = self._parsed.get(text)
        if parsed is None:
            try:
                parsed = tuple(reads_of(text, self.engine, inside_lists=True))
            except TemplateError as error:
                parsed = error
            self._parsed[text] = parsed
        if isinstance(parsed, TemplateError):
            raise parsed
        return [read for read in parsed if inside_lists or ANY_MEMBER not in read.names]

    def reads(self) -> Iterator[Read]:
        """Yield the reads of all texts of the action except texts that cannot be parsed."""
        for text in self.texts:
            try:
                yield from self.reads_in(text.text)
            except TemplateError:
                continue

    def wrong_reads(self, text: Text, outputs: Mapping[str, frozenset[str]]) -> Iterator[WrongRead]:
        """Yield reads that cannot succeed. Raises TemplateError if the text cannot be parsed.

        `outputs` maps phases to the outputs that their functions declare.
        """
        for read in self.reads_in(text.text, inside_lists=True):
            for defect, message in self._defects(text, read, outputs):
                yield WrongRead(read, defect, message)

    def _defects(
        self, text: Text, read: Read, outputs: Mapping[str, frozenset[str]]
    ) -> Iterator[tuple[Defect, str]]:
        root, *below = read.names
        if ANY_MEMBER in below:
            why = why_impossible(read.names, self.engine)
            if why:
                yield Defect.FIELD_UNKNOWN, f"There is {why}"
            return
        if root not in ROOTS:
            dot = "." if self.engine is Engine.GO else ""
            hint = self._suggest(root, ROOTS, dot)
            hint = hint or f"; expected one of {', '.join(dot + name for name in ROOTS)}"
            yield Defect.PARAMETER_UNKNOWN, f"There is no {dot}{root}{hint}"
            return
        if text.role == "objects" and root in ("Phases", "DeferPhase"):
            yield Defect.OBJECTS_EARLY, f"{read} is read before any phase has run"
        elif root == "Phases" and below:
            yield from self._of_phase(text, read, below, outputs)
        elif root == "DeferPhase":
            yield from self._of_deferred(text, read, below)
        elif root in _DECLARED and below:
            yield from self._undeclared(root, below[0])
        why = why_impossible(read.names, self.engine)
        if why:
            yield Defect.FIELD_UNKNOWN, f"There is {why}"
        if text.role == "artifacts" and _is_secret(read.names):
            yield Defect.SECRET_KEPT, f"{read} goes into the status of the ActionSet"

    def _of_phase(
        self, text: Text, read: Read, below: list[str], outputs: Mapping[str, frozenset[str]]
    ) -> Iterator[tuple[Defect, str]]:
        name, *inside = below
        index = self._indices.get(name)
        if index is None:
            if read.indexed != len(below):
                yield Defect.PHASE_UNKNOWN, self._why_unknown(name)
            return
        phase = self.action.phases[index]
        now = len(self.action.phases) if text.phase in (None, DEFER) else text.phase
        assert now is not None  # the line above replaces None
        is_itself = index == now
        if index > now or (is_itself and inside[:1] == ["Output"] and len(inside) > read.indexed):
            if read.indexed < len(below):
                state = "is this phase" if is_itself else "runs later"
                yield Defect.PHASE_LATER, f"{read} is not available yet: the phase {name} {state}"
            return
        yield from self._of_object(phase, read, inside)
        declared = outputs.get(name)
        is_output = len(inside) > 1 and inside[0] == "Output" and not read.indexed
        if declared is not None and is_output and inside[1] not in declared:
            names = f"its outputs are {', '.join(sorted(declared))}" if declared else "it has none"
            yield Defect.OUTPUT_UNKNOWN, f"{phase.func} has no output {inside[1]}; {names}"

    def _of_deferred(
        self, text: Text, read: Read, below: list[str]
    ) -> Iterator[tuple[Defect, str]]:
        deferred = self.action.defer_phase
        if below[:1] == ["Output"] and len(below) - 1 > read.indexed:
            if deferred is None:
                message = f"The action {self.name} has no deferPhase, so it has no {read}"
                yield Defect.PHASE_UNKNOWN, message
            elif text.phase is not None and read.is_certain:
                state = "is this phase" if text.phase == DEFER else "runs later"
                yield Defect.PHASE_LATER, f"{read} is not available yet: the deferPhase {state}"
        elif deferred is not None:
            yield from self._of_object(deferred, read, below)

    def _why_unknown(self, name: str) -> str:
        missing = f"The action {self.name} has no phase {name}"
        deferred = self.action.defer_phase
        if deferred is not None and deferred.name == name:
            return f"{missing}; its deferPhase is available as .DeferPhase"
        if self._owners is None:
            self._owners = actions_of_phases(self.blueprint)
        if name in self._owners:
            return f"{missing}; it belongs to the action {self._owners[name]}"
        names = [phase for phase in self._indices if phase]
        if names:
            hint = f"; its phases are {_few(names)}"
        else:
            hint = "; its phases have no names" if self.action.phases else "; it has no phases"
        return missing + (self._suggest(name, names) or hint)

    def _of_object(
        self, phase: Phase, read: Read, inside: list[str]
    ) -> Iterator[tuple[Defect, str]]:
        if len(inside) < 2 or inside[0] not in ("Secrets", "ConfigMaps"):
            return
        if inside[1] not in phase.objects and read.indexed < len(inside) - 1:
            names = ", ".join(phase.objects)
            hint = self._suggest(inside[1], [*phase.objects]) or (
                f"; it names {names}" if names else "; add it to `objects` with its kind"
            )
            phase_name = phase.name or phase.func
            message = f"The phase {phase_name} names no object {inside[1]}{hint}"
            yield Defect.OBJECT_UNKNOWN, message

    def _undeclared(self, root: str, name: str) -> Iterator[tuple[Defect, str]]:
        field, declared = {
            "ArtifactsIn": ("inputArtifactNames", self.action.input_artifact_names),
            "ConfigMaps": ("configMapNames", self.action.config_map_names),
            "Secrets": ("secretNames", self.action.secret_names),
            "Options": ("options", tuple(self.action.options)),
        }[root]
        if name not in declared and (declared or root != "Options"):
            hint = self._suggest(name, declared)
            message = f".{root}.{name} is read, but {field} does not list it{hint}"
            is_option = root == "Options"
            yield Defect.OPTION_UNDECLARED if is_option else Defect.UNDECLARED, message


_DECLARED: Final = ("ArtifactsIn", "ConfigMaps", "Options", "Secrets")


def _few(names: Sequence[str]) -> str:
    more = len(names) - 12
    return ", ".join(names[:12]) + (f" and {more} more" if more > 0 else "")


def _is_secret(names: tuple[str, ...]) -> bool:
    if names[0] == "Secrets" or names[:2] == ("Profile", "Credential"):
        return True
    return "Secrets" in names[1:3] and names[0] in ("Phases", "DeferPhase")
