"""Plan of a phase: its version, its args and the objects it touches, and what it fails for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.analysis import ActionAnalysis, wrong_arguments
from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.blueprints.reads import (
    Read,
    check_condition,
    engine_of,
    hands_on_profile,
)
from kanister_py.core.blueprints.texts import DEFER, is_condition
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
    KanisterError,
)
from kanister_py.core.kube.access import Access, merged
from kanister_py.core.kube.locations import Location
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import Choice, asked_version, choose_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.templates.engines import Engine, is_template
from kanister_py.core.templates.errors import TemplateError, TemplateExecError, TemplateParseError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import ORIGINAL, Origin, Renderer, RenderFailed, is_no
from kanister_py.core.templates.wording import explain_syntax
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import Path, nearest, text_of_path
from kanister_py.gotemplate.effects import Effects

NO_PROFILE = ".Profile is not there, and has no location: what gets it as JSON gets null"

_NO_RELEASES: Mapping[str, Version] = {}


class Unknown(NamedTuple):
    """A text that cannot be known yet: it stays as the template it is.

    `after` names the phases whose output it reads, `why` what was lacking otherwise.
    """

    path: str
    after: tuple[str, ...]
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "after": list(self.after), "why": self.why}

    def __str__(self) -> str:
        reason = f"known after {' and '.join(self.after)}" if self.after else self.why
        return f"{self.path}: {reason}"


class Obstacle(NamedTuple):
    """Something that an action fails for, whatever else happens; `message` begins with its place.

    `phase` is the index of the phase at fault, DEFER for the deferPhase, None for none.
    """

    phase: int | None
    path: Path
    message: str
    reason: str


class PlannedPhase(NamedTuple):
    """A phase as it would run. `errors` say why it could not.

    `is_wanted` is what its `if` says, None where that is not known yet. `may_make` says
    whether Secrets and ConfigMaps may be made or changed by its end.
    `at` is its index, DEFER for the deferPhase.
    """

    name: str
    function: str
    version: str = ""
    why: str = ""
    condition: str = ""
    args: Mapping[str, Any] = {}
    unknown: tuple[Unknown, ...] = ()
    accesses: tuple[Access, ...] = ()
    notices: tuple[Notice, ...] = ()
    errors: tuple[str, ...] = ()
    is_deferred: bool = False
    is_wanted: bool | None = True
    may_make: bool = True
    obstacles: tuple[Obstacle, ...] = ()
    reads: tuple[Read, ...] = ()
    code: type[Any] | None = None
    at: int = 0

    @property
    def skipped(self) -> str:
        """Say why the phase will be skipped; empty if it may run."""
        return f"if is {self.condition.strip() or 'empty'}" if self.is_wanted is False else ""

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "function": self.function}
        if self.is_deferred:
            data["deferred"] = True
        data |= {"version": self.version, "why": self.why}
        if self.condition or self.skipped:
            data["if"] = self.condition
        if self.skipped:
            data["skipped"] = self.skipped
        data |= {
            "args": dict(self.args),
            "unknown": [each.as_dict() for each in self.unknown],
            "objects": [
                {
                    "verbs": list(each.verbs),
                    "group": each.group,
                    "resource": each.resource,
                    "namespace": each.namespace,
                    "name": each.name,
                }
                for each in self.accesses
            ],
            "notices": [each.as_dict() for each in self.notices],
        }
        if self.errors:
            data["error"] = "; ".join(self.errors)
        return data


class PlanBasis(NamedTuple):
    """Everything that the plan of an action goes by.

    `open` says why what stands under some names is not known. What stands under `soft`
    names is there, and may be something else when its turn comes. `is_whole`: templates
    will see no more of what is given from outside than `params` has now. `unused` are the
    options that are given and that the action reads nowhere: misspelt, as a rule.
    `preferred` is the version that phases without one of their own were chosen by, and
    `place_of` says what stands in for a store of a Profile.
    """

    analysis: ActionAnalysis
    renderer: Renderer
    params: Params
    load: Callable[[FunctionEntry], type[Any]]
    open: Mapping[tuple[str, ...], str] = {}
    soft: tuple[tuple[str, ...], ...] = ()
    is_whole: bool = False
    unused: tuple[str, ...] = ()
    preferred: str = ""
    place_of: Callable[[Location], Location] = lambda location: location


def choose_phase_version(
    registry: Registry[FunctionEntry],
    phase: Phase,
    preferred: str = "",
    *,
    at: Mapping[str, Version] = _NO_RELEASES,
    strict: bool = False,
) -> Choice[FunctionEntry]:
    """Choose the version of one phase's function."""
    asked = asked_version(phase.func_version, preferred)
    return choose_version(
        registry, phase.func, asked, at=at, strict=strict, kind=FunctionKind.BLUEPRINT
    )


def plan_phase(
    phase: Phase, path: Path, choice: Choice[FunctionEntry] | KanisterError, known: PlanBasis
) -> PlannedPhase:
    """Say what a phase would do, as far as that can be known before earlier ones have run.

    `path` leads to it from its action; `choice` is the version it gets, or why it gets none.
    """
    is_deferred = path[-1] == "deferPhase"
    texts = TextPlanner(path, known)
    condition = texts.value(phase.if_ or "", ("if",))
    is_wanted: bool | None = True
    if phase.if_ is not None:
        is_wanted = None if texts.unknown or texts.obstacles else not is_no(condition)
    obstacles = [*texts.obstacles]
    texts.obstacles.clear()
    args = texts.value(dict(phase.args), ("args",))
    found = list(texts.obstacles)
    planned = PlannedPhase(
        phase.name,
        phase.func,
        condition=condition,
        args=args,
        is_deferred=is_deferred,
        is_wanted=is_wanted,
        at=DEFER if is_deferred else int(path[-1]),
    )
    accesses: tuple[Access, ...] | None = None
    try:
        if isinstance(choice, KanisterError):
            raise choice
        code = known.load(choice.chosen)
        listed = getattr(code, "access", lambda _: None)(args)
        accesses = None if listed is None else tuple(listed)
        version, notices = str(choice.chosen.version), choice.notices
        planned = planned._replace(code=code, version=version, why=choice.why, notices=notices)
        found += _problems_of_args(phase, args, code, texts)
    except KanisterError as error:
        is_unknown = isinstance(error, FunctionNotRegistered)
        key = "funcVersion" if phase.func_version and not is_unknown else "func"
        is_preferred = (
            known.preferred and not phase.func_version and isinstance(error, _OF_VERSIONS)
        )
        message = f"preferredVersion {known.preferred}: {error.message}" if is_preferred else ""
        if is_unknown and not phase.func:
            message = "The phase names no function in `func`"
        obstacles.append(texts.obstacle((key,), error, message))
    unknown = [*texts.unknown]
    for each in found:
        if is_wanted or each.reason == TemplateParseError.reason:
            obstacles.append(each)
        elif is_wanted is None:
            unknown.append(Unknown(text_of_path(each.path[len(path) :]), (), each.message))
    may_run = is_wanted is not False
    return planned._replace(
        unknown=tuple(unknown),
        accesses=tuple(merged(accesses or ())) if may_run else (),
        may_make=may_run and _may_make(accesses),
        obstacles=tuple(obstacles),
        reads=tuple(texts.reads),
    )


_OF_VERSIONS = (InvalidVersion, FunctionVersionNotFound, FunctionVersionRemoved)


def _problems_of_args(
    phase: Phase, args: Mapping[str, Any], code: type[Any], texts: TextPlanner
) -> list[Obstacle]:
    """Compare the args with the model of the code; unknown values may become anything."""
    if getattr(code, "Args", None) is None or any(texts.is_open(name) for name in args):
        return []
    given, is_open = args, texts.is_open
    if getattr(code, "renders_own_args", False):
        given, is_open = phase.args, texts.is_template
    failed = {obstacle.path[len(texts.base) :] for obstacle in texts.obstacles}
    wrong = wrong_arguments(phase, given, code, is_open, failed)
    return [texts.obstacle(each.path, each.error, each.message) for each in wrong]


_REFERABLE = frozenset({"secrets", "configmaps", "*"})
_ONLY_LOOKS = frozenset({"get", "list", "watch"})
# Nobody makes Secrets of what these hold. Operators and cert-manager do, of what others hold.
_PLAIN_GROUPS = frozenset({"", "apps", "batch", "apps.openshift.io", "snapshot.storage.k8s.io"})


def _may_make(accesses: tuple[Access, ...] | None) -> bool:
    """Say whether a Secret or ConfigMap may be there after a phase that was not before it.

    What is created may bring others with it, as may a custom resource that is changed or
    goes; what only looks waits for something as a rule, and what touches nothing acts
    outside the cluster. What is left changes objects that are there, such as the size of
    a workload.
    """
    if not accesses:
        return True
    changing = [each for each in accesses if not _ONLY_LOOKS.issuperset(each.verbs)]
    return not changing or any(
        "create" in each.verbs or each.resource in _REFERABLE or each.group not in _PLAIN_GROUPS
        for each in changing
    )


# A Secret or a ConfigMap by its name, below which nothing can be given apart.
_IN_GIVEN_OBJECT = re.compile(
    r"\(*(index )?\.(Secrets|ConfigMaps)[. ]."
    r"|\(*(index )?\.(Phases[. ]|DeferPhase\b).*\.(Secrets|ConfigMaps)\)?[. ]."
)

# What fails on purpose may do so at this hour alone.
_MAY_PASS_LATER = re.compile(r"\b(fail|required|now)\b")
# Parts of a Go template that read of the tree without naming what: its top as a whole, and
# templates that are called.
_READS_ANYTHING = re.compile(r"(\$|[\s({|]\.)[\s)|}]|\b(define|template|block)\b")

# Maps at the top of the tree to which a later command line may add.
_MAY_GROW = frozenset(
    {"Options", "Secrets", "ConfigMaps", "ArtifactsIn", "Phases"}
    | {"PodOverride", "PodAnnotations", "PodLabels"}
)

# Jinja2's words for a name that is missing, and ours for one below what is none.
_UNDEFINED = re.compile(r"'(?P<missing>[^']+)' is undefined in (?P<owner>[\w.]+);")
_NONE = re.compile(r'\b(?P<owner>\w+) is not there, and has no "(?P<missing>[^"]+)"')

# What may be none at the top of the tree, by its name there.
_FACTS = {
    "StatefulSet": "stateful_set",
    "Deployment": "deployment",
    "DeploymentConfig": "deployment_config",
    "PVC": "pvc",
    "Namespace": "namespace",
    "Profile": "profile",
}
# What an action's object brings, each its own kind.
_OF_OBJECT = frozenset({".StatefulSet", ".Deployment", ".DeploymentConfig", ".PVC", ".Namespace"})

# Functions that take seconds, or make something else whenever they are called.
_COSTLY = re.compile(r"\b(gen[A-Z]\w+|derivePassword|bcrypt|htpasswd)\b")


def renderer_of(blueprint: Blueprint, name: str, effects: Effects) -> Renderer:
    """Make what renders the texts of one action of a Blueprint."""
    choice = engine_of(blueprint)
    origin = _origin_of(blueprint, name)
    return Renderer(choice.engine, effects, is_sure=choice.is_sure, origin=origin)


def _origin_of(blueprint: Blueprint, name: str) -> Origin:
    action, found = blueprint.actions.get(name, Action()), blueprint.found
    phases = tuple([phase.name for phase in action.phases])
    if found is None:
        return Origin(name, phases)

    def place_of(path: Path, line: int) -> str:
        at = found.line_of(("actions", name, *path), line)
        return f"{found.document.file}:{at}" if at else found.document.file

    return Origin(name, phases, place_of)


class TextPlanner:
    """Planner of texts: renders what can be rendered, notes what cannot, and what will fail."""

    def __init__(self, base: Path, known: PlanBasis) -> None:
        self.base = base
        self.unknown: list[Unknown] = []
        self.obstacles: list[Obstacle] = []
        self.reads: list[Read] = []
        self._known = known
        self._renderer = known.renderer.at(base)
        self._unrendered: set[str] = set()
        self._reported: set[tuple[Path, str]] = set()

    def is_open(self, value: object) -> bool:
        """Say whether a value is a template that could not be rendered."""
        return isinstance(value, str) and value in self._unrendered

    def is_template(self, value: object) -> bool:
        """Say whether a value is a template at all."""
        return isinstance(value, str) and is_template(value, self._renderer.engine)

    @property
    def phase(self) -> int | None:
        """The index of the phase that the texts belong to, DEFER for the deferPhase."""
        if self.base[:1] == ("phases",):
            return int(self.base[1])
        return DEFER if self.base[:1] == ("deferPhase",) else None

    def obstacle(
        self, inside: Path, error: KanisterError | TemplateError, message: str = ""
    ) -> Obstacle:
        """Say that there is an obstacle at a place below the base."""
        path = (*self.base, *inside)
        if isinstance(error, RenderFailed):
            return Obstacle(self.phase, path, error.message, error.reason)
        where = self._renderer.origin.where(path)
        return Obstacle(self.phase, path, f"{where}: {message or error.message}", error.reason)

    def value(self, value: Any, path: Path) -> Any:
        """Render a value as far as that goes."""
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return {
                self._text(key, (*path, key)): self._condition(each, (*path, key))
                if is_condition(value, key)
                else self.value(each, (*path, key))
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each, (*path, at)) for at, each in enumerate(value)]
        return value

    def _condition(self, value: Any, path: Path) -> Any:
        """Leave a template over an object of the cluster as it is; it must be one."""
        if isinstance(value, str) and is_template(value, Engine.GO):
            self._unrendered.add(value)
            try:
                check_condition(value, None)
            except TemplateError as error:
                message = f"{explain_syntax(error)}{ORIGINAL}{error.message}"
                self.obstacles.append(self.obstacle(path, error, message))
        return value

    def _text(self, text: str, path: Path) -> str:
        engine = self._renderer.engine
        if not is_template(text, engine):
            return text
        try:
            reads = self._known.analysis.reads_in(text)
        except TemplateError as error:
            # The renderer knows how to say it; where it reads the text, so be it.
            self._render(text, path, error.reason)
            self._unrendered.add(text)
            return text
        self.reads += reads
        is_without = self._known.params.facts.profile is None and path[:1] != ("if",)
        if is_without and hands_on_profile(text, reads):
            # No error: Kanister hands on `null`, too.
            self.unknown.append(Unknown(text_of_path(path), (), NO_PROFILE))
        after, why = _outputs_in(reads), _why_open(reads, self._known.open)
        if _COSTLY.search(text):
            why = why or "what it makes is made when its turn comes"
        if after or why:
            self._unrendered.add(text)
            self.unknown.append(Unknown(text_of_path(path), after, why))
            for read in reads:
                self._check(read, path)
            return text
        rendered = self._render(text, path, "", reads)
        if rendered is None:
            self._unrendered.add(text)
            for read in reads:
                self._check(read, path)
            return text
        return rendered

    def _render(
        self, text: str, path: Path, reason: str = "", reads: Iterable[Read] = ()
    ) -> str | None:
        try:
            return self._renderer.text(text, self._known.params, path)
        except RenderFailed as failure:
            error = self._with_root(failure, reads)
            is_soft = any(_is_below(read, self._known.soft) for read in reads)
            is_static = isinstance(error.cause, TemplateParseError)
            is_wrong = (
                self._known.is_whole
                or self._is_wrong_in_given(error, reads)
                or self._fails_over_given(text, reads)
            )
            if is_static or (is_wrong and not is_soft):
                if (path, error.why) not in self._reported:
                    self._reported.add((path, error.why))
                    found = self.obstacle(path, error)
                    self.obstacles.append(found._replace(reason=reason or found.reason))
            else:
                # It may be there when the action is run.
                unknown = Unknown(text_of_path(path), (), error.why)
                self.unknown += [unknown] if unknown not in self.unknown else []
        return None

    def _with_root(self, error: RenderFailed, reads: Iterable[Read]) -> RenderFailed:
        """Name what is not there where Jinja2 says no more than that it is none."""
        facts = self._known.params.facts
        for root, *below in (each.names for each in reads):
            words = f"{below[0]!r} is undefined in none" if below else ""
            is_none = root in _FACTS and getattr(facts, _FACTS[root]) is None
            if words and is_none and error.why.endswith(words):
                why = f'{error.why.removesuffix(words)}{root} is not there, and has no "{below[0]}"'
                return RenderFailed(error.where, why, why, error.path, error.cause)
        return error

    def _is_wrong_in_given(self, error: RenderFailed, reads: Iterable[Read]) -> bool:
        """Say whether a name is missing in something that is given, so that it stays missing."""
        missing, owner = self._missing_in(error)
        if owner == ".Options":
            return bool(nearest(missing, self._known.unused))
        if owner in _OF_OBJECT:
            # The namespace stands in where no object was given.
            is_given = self._known.params.facts.namespace is None
            return is_given and any(
                each.is_certain and f".{each.names[0]}" == owner for each in reads
            )
        return _IN_GIVEN_OBJECT.match(owner) is not None

    def _fails_over_given(self, text: str, reads: Iterable[Read]) -> bool:
        """Say whether a text that fails reads nothing but what is given, so that it always does."""
        is_go = self._renderer.engine is Engine.GO
        is_open = _MAY_PASS_LATER.search(text) or (is_go and _READS_ANYTHING.search(text))
        return not is_open and all(map(self._is_given, reads))

    def _is_given(self, read: Read) -> bool:
        """Say whether what is read is there, and stays what it is."""
        root, *below = read.names
        if root not in ROOTS or (root in _MAY_GROW and not below):
            return False
        facts = self._known.params.facts
        if root == "Object" and (facts.namespace is not None or below[:1] == ["status"]):
            return False  # the namespace stands in where no object was given
        if f".{root}" in _OF_OBJECT and below[:1] not in (["Name"], ["Namespace"]):
            return False  # its pods come and go
        here: Any = self._known.params.root
        for name in read.names:
            try:
                here = here[name]
            except (KeyError, TypeError):
                return False
        return here is not None and not getattr(here, "is_nil", False)

    def _missing_in(self, error: RenderFailed) -> tuple[str, str]:
        """Give the name that is missing, and what it is missing in; empty where it is not that."""
        if self._renderer.engine is Engine.JINJA2:
            found = _UNDEFINED.search(error.why) or _NONE.search(error.why)
            return (found["missing"], f".{found['owner']}") if found is not None else ("", "")
        cause = error.cause
        return (cause.missing, cause.owner) if isinstance(cause, TemplateExecError) else ("", "")

    def _check(self, read: Read, path: Path) -> None:
        """Look whether what a text reads besides what is not known yet is there."""
        is_plain = read.is_certain and not read.indexed
        name = str(read) if self._renderer.engine is Engine.GO else _jinja_name(read)
        is_later = read.names[0] in _OF_PHASES or _why_open([read], self._known.open)
        if is_plain and not is_later:
            # On its own line: the message names that line.
            self._render("\n" * (read.line - 1) + f"{{{{ {name} }}}}", path, "", [read])


def _jinja_name(read: Read) -> str:
    root, *below = read.names
    return root + "".join(f".{each}" if each.isidentifier() else f"[{each!r}]" for each in below)


_OF_PHASES = frozenset({"Phases", "DeferPhase", "CurrentPhase"})


def _is_below(read: Read, names: Iterable[tuple[str, ...]]) -> bool:
    return any(
        read.names[: min(len(each), len(read.names))] == each[: min(len(each), len(read.names))]
        for each in names
    )


def _why_open(reads: Iterable[Read], not_known: Mapping[tuple[str, ...], str]) -> str:
    """Say why something that is read is not known; nothing if all of it is."""
    for read in reads:
        for names, why in not_known.items():
            if _is_below(read, [names]):
                return why
    return ""


def _outputs_in(reads: Iterable[Read]) -> tuple[str, ...]:
    """Name the phases whose output is read, each once."""
    found: dict[str, None] = {}
    for read in reads:
        names = read.names
        if names[0] == "Phases" and (len(names) < 3 or names[2] == "Output"):
            found.setdefault(names[1] if len(names) > 1 else "earlier phases")
        elif names[0] == "DeferPhase" and names[1:2] in ((), ("Output",)):
            found.setdefault("the deferPhase")
    return tuple(found)
