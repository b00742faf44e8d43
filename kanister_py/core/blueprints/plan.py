"""Plan of a phase: version, rendered arguments, objects it accesses, and reasons to fail."""

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
    passes_profile_as_json,
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
from kanister_py.core.registry.choose import Choice, choose_version, requested_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.templates.engines import Engine, is_template
from kanister_py.core.templates.errors import TemplateError, TemplateExecError, TemplateParseError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import ORIGINAL, Origin, Renderer, RenderFailed, is_false
from kanister_py.core.templates.wording import explain_syntax
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import Path, nearest, text_of_path
from kanister_py.gotemplate.effects import Effects

NO_PROFILE = ".Profile is missing: templates that pass it on as JSON pass null"

_NO_RELEASES: Mapping[str, Version] = {}


class Unknown(NamedTuple):
    """Text that cannot be rendered yet and stays a template.

    `after` lists the phases whose outputs it reads; `why` is set if the reason is another one.
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
    """Problem that makes an action fail in every case. `message` begins with its place.

    `phase` is the index of the phase, DEFER for the deferPhase, or None for the action itself.
    """

    phase: int | None
    path: Path
    message: str
    reason: str


class PlannedPhase(NamedTuple):
    """Phase as it would run. A phase with `errors` cannot run.

    `is_wanted` is the result of `if`, or None if it cannot be evaluated yet. `may_create_objects`
    is set if Secrets or ConfigMaps may be created or changed by the end of the phase. `at` is the
    index of the phase, DEFER for the deferPhase.
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
    may_create_objects: bool = True
    obstacles: tuple[Obstacle, ...] = ()
    reads: tuple[Read, ...] = ()
    code: type[Any] | None = None
    at: int = 0

    @property
    def skipped(self) -> str:
        """Reason for skipping the phase; empty if it may run."""
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
            "unknown": [unknown.as_dict() for unknown in self.unknown],
            "objects": [
                {
                    "verbs": list(access.verbs),
                    "group": access.group,
                    "resource": access.resource,
                    "namespace": access.namespace,
                    "name": access.name,
                }
                for access in self.accesses
            ],
            "notices": [notice.as_dict() for notice in self.notices],
        }
        if self.errors:
            data["error"] = "; ".join(self.errors)
        return data


class PlanBasis(NamedTuple):
    """Inputs of the plan of an action.

    `open` maps name paths to the reasons why their values are unknown. Values at `soft` paths exist
    now but may change before the phase runs. `has_all_inputs` is set if templates will see no other
    outside input than `params` has now. `unused` are options that no template of the action reads:
    usually misspelt. `preferred` is the version for phases without a `funcVersion`. `place_of`
    returns the substitute for the store of a Profile.
    """

    analysis: ActionAnalysis
    renderer: Renderer
    params: Params
    load: Callable[[FunctionEntry], type[Any]]
    open: Mapping[tuple[str, ...], str] = {}
    soft: tuple[tuple[str, ...], ...] = ()
    has_all_inputs: bool = False
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
    """Choose the version of the function of a phase."""
    requested = requested_version(phase.func_version, preferred)
    return choose_version(
        registry, phase.func, requested, at=at, strict=strict, kind=FunctionKind.BLUEPRINT
    )


def plan_phase(
    phase: Phase, path: Path, choice: Choice[FunctionEntry] | KanisterError, basis: PlanBasis
) -> PlannedPhase:
    """Plan a phase as far as possible before earlier phases have run.

    `path` is the path of the phase in its action. `choice` is its version, or the error of choosing
    one.
    """
    is_deferred = path[-1] == "deferPhase"
    texts = TextPlanner(path, basis)
    condition = texts.value(phase.if_ or "", ("if",))
    is_wanted: bool | None = True
    if phase.if_ is not None:
        is_wanted = None if texts.unknown or texts.obstacles else not is_false(condition)
    obstacles = [*texts.obstacles]
    texts.obstacles.clear()
    args = texts.value(dict(phase.args), ("args",))
    arg_obstacles = list(texts.obstacles)
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
        code = basis.load(choice.chosen)
        listed = getattr(code, "access", lambda _: None)(args)
        accesses = None if listed is None else tuple(listed)
        version, notices = str(choice.chosen.version), choice.notices
        planned = planned._replace(code=code, version=version, why=choice.why, notices=notices)
        arg_obstacles += _problems_of_args(phase, args, code, texts)
    except KanisterError as error:
        is_unknown = isinstance(error, FunctionNotRegistered)
        key = "funcVersion" if phase.func_version and not is_unknown else "func"
        is_preferred = (
            basis.preferred and not phase.func_version and isinstance(error, _VERSION_ERRORS)
        )
        message = f"preferredVersion {basis.preferred}: {error.message}" if is_preferred else ""
        if is_unknown and not phase.func:
            message = "The phase names no function in `func`"
        obstacles.append(texts.obstacle((key,), error, message))
    unknown = [*texts.unknown]
    for obstacle in arg_obstacles:
        if is_wanted or obstacle.reason == TemplateParseError.reason:
            obstacles.append(obstacle)
        elif is_wanted is None:
            unknown.append(Unknown(text_of_path(obstacle.path[len(path) :]), (), obstacle.message))
    may_run = is_wanted is not False
    return planned._replace(
        unknown=tuple(unknown),
        accesses=tuple(merged(accesses or ())) if may_run else (),
        may_create_objects=may_run and _may_create_objects(accesses),
        obstacles=tuple(obstacles),
        reads=tuple(texts.reads),
    )


_VERSION_ERRORS = (InvalidVersion, FunctionVersionNotFound, FunctionVersionRemoved)


def _problems_of_args(
    phase: Phase, args: Mapping[str, Any], code: type[Any], texts: TextPlanner
) -> list[Obstacle]:
    """Check the arguments against the model of the function. Unknown values are accepted."""
    if getattr(code, "Args", None) is None or any(texts.is_open(name) for name in args):
        return []
    args_to_check, is_open = args, texts.is_open
    if getattr(code, "renders_own_args", False):
        args_to_check, is_open = phase.args, texts.is_template
    failed = {obstacle.path[len(texts.base) :] for obstacle in texts.obstacles}
    wrong = wrong_arguments(phase, args_to_check, code, is_open, failed)
    return [texts.obstacle(argument.path, argument.error, argument.message) for argument in wrong]


_REFERABLE = frozenset({"secrets", "configmaps", "*"})
_READ_VERBS = frozenset({"get", "list", "watch"})
# No controller creates Secrets for objects of these groups. Operators and cert-manager do so for
# objects of other groups.
_PLAIN_GROUPS = frozenset({"", "apps", "batch", "apps.openshift.io", "snapshot.storage.k8s.io"})


def _may_create_objects(accesses: tuple[Access, ...] | None) -> bool:
    """Return whether a Secret or ConfigMap may exist after a phase that did not exist before.

    Created objects may create others, as may custom resources that are changed or deleted. A phase
    that only reads usually waits for something, and a phase without accesses acts outside the
    cluster. All other phases change existing objects, such as the size of a workload.
    """
    if not accesses:
        return True
    changing = [access for access in accesses if not _READ_VERBS.issuperset(access.verbs)]
    return not changing or any(
        "create" in access.verbs
        or access.resource in _REFERABLE
        or access.group not in _PLAIN_GROUPS
        for access in changing
    )


# A Secret or a ConfigMap by its name. An ActionSet provides these as a whole only.
_IN_GIVEN_OBJECT = re.compile(
    r"\(*(index )?\.(Secrets|ConfigMaps)[. ]."
    r"|\(*(index )?\.(Phases[. ]|DeferPhase\b).*\.(Secrets|ConfigMaps)\)?[. ]."
)

# Functions that fail on purpose, which may depend on the time of day.
_MAY_PASS_LATER = re.compile(r"\b(fail|required|now)\b")
# Go template syntax that reads the tree without naming a field: its root as a whole, and calls of
# other templates.
_READS_ANYTHING = re.compile(r"(\$|[\s({|]\.)[\s)|}]|\b(define|template|block)\b")

# Top-level maps to which a later command line may add keys.
_MAY_GROW = frozenset(
    {"Options", "Secrets", "ConfigMaps", "ArtifactsIn", "Phases"}
    | {"PodOverride", "PodAnnotations", "PodLabels"}
)

# Jinja2's message for an undefined name, and our message for a field of a missing value.
_UNDEFINED = re.compile(r"'(?P<missing>[^']+)' is undefined in (?P<owner>[\w.]+);")
_NONE = re.compile(r'\b(?P<owner>\w+) is missing and has no "(?P<missing>[^"]+)"')

# Top-level values that may be missing, with their fields in ActionFacts.
_FACTS = {
    "StatefulSet": "stateful_set",
    "Deployment": "deployment",
    "DeploymentConfig": "deployment_config",
    "PVC": "pvc",
    "Namespace": "namespace",
    "Profile": "profile",
}
# Top-level values that exist only if the object of the action has that kind.
_OBJECT_ROOTS = frozenset(
    {".StatefulSet", ".Deployment", ".DeploymentConfig", ".PVC", ".Namespace"}
)

# Functions that take seconds or return random values.
_COSTLY = re.compile(r"\b(gen[A-Z]\w+|derivePassword|bcrypt|htpasswd)\b")


def renderer_of(blueprint: Blueprint, name: str, effects: Effects) -> Renderer:
    """Build the renderer for the texts of one action."""
    choice = engine_of(blueprint)
    origin = _origin_of(blueprint, name)
    return Renderer(choice.engine, effects, is_sure=choice.is_sure, origin=origin)


def _origin_of(blueprint: Blueprint, name: str) -> Origin:
    action, manifest = blueprint.actions.get(name, Action()), blueprint.manifest
    phases = tuple([phase.name for phase in action.phases])
    if manifest is None:
        return Origin(name, phases)

    def place_of(path: Path, line: int) -> str:
        at = manifest.line_of(("actions", name, *path), line)
        return f"{manifest.document.file}:{at}" if at else manifest.document.file

    return Origin(name, phases, place_of)


class TextPlanner:
    """Renderer of all texts of a phase; collects obstacles and texts that are unknown yet."""

    def __init__(self, base: Path, basis: PlanBasis) -> None:
        self.base = base
        self.unknown: list[Unknown] = []
        self.obstacles: list[Obstacle] = []
        self.reads: list[Read] = []
        self._basis = basis
        self._renderer = basis.renderer.at(base)
        self._unrendered: set[str] = set()
        self._reported: set[tuple[Path, str]] = set()

    def is_open(self, value: object) -> bool:
        """Return whether a value is a template that could not be rendered."""
        return isinstance(value, str) and value in self._unrendered

    def is_template(self, value: object) -> bool:
        """Return whether a value is a template."""
        return isinstance(value, str) and is_template(value, self._renderer.engine)

    @property
    def phase(self) -> int | None:
        """Index of the phase that the texts belong to, DEFER for the deferPhase."""
        if self.base[:1] == ("phases",):
            return int(self.base[1])
        return DEFER if self.base[:1] == ("deferPhase",) else None

    def obstacle(
        self, inside: Path, error: KanisterError | TemplateError, message: str = ""
    ) -> Obstacle:
        """Build an obstacle at a path below `base`."""
        path = (*self.base, *inside)
        if isinstance(error, RenderFailed):
            return Obstacle(self.phase, path, error.message, error.reason)
        where = self._renderer.origin.where(path)
        return Obstacle(self.phase, path, f"{where}: {message or error.message}", error.reason)

    def value(self, value: Any, path: Path) -> Any:
        """Render all texts in a value as far as possible."""
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return {
                self._text(key, (*path, key)): self._condition(child, (*path, key))
                if is_condition(value, key)
                else self.value(child, (*path, key))
                for key, child in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(member, (*path, index)) for index, member in enumerate(value)]
        return value

    def _condition(self, value: Any, path: Path) -> Any:
        """Check the syntax of a condition and return it unrendered; the function renders it."""
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
            reads = self._basis.analysis.reads_in(text)
        except TemplateError as error:
            # The renderer explains syntax errors. It may also accept the text.
            self._render(text, path, error.reason)
            self._unrendered.add(text)
            return text
        self.reads += reads
        is_without = self._basis.params.facts.profile is None and path[:1] != ("if",)
        if is_without and passes_profile_as_json(text, reads):
            # Not an error: Kanister passes `null` in this case as well.
            self.unknown.append(Unknown(text_of_path(path), (), NO_PROFILE))
        after, why = _outputs_in(reads), _why_open(reads, self._basis.open)
        if _COSTLY.search(text):
            why = why or "its result is generated when the phase runs"
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
            return self._renderer.text(text, self._basis.params, path)
        except RenderFailed as failure:
            error = self._with_root(failure, reads)
            is_soft = any(_is_below(read, self._basis.soft) for read in reads)
            is_static = isinstance(error.cause, TemplateParseError)
            is_wrong = (
                self._basis.has_all_inputs
                or self._is_wrong_in_given(error, reads)
                or self._fails_over_given(text, reads)
            )
            if is_static or (is_wrong and not is_soft):
                if (path, error.why) not in self._reported:
                    self._reported.add((path, error.why))
                    obstacle = self.obstacle(path, error)
                    self.obstacles.append(obstacle._replace(reason=reason or obstacle.reason))
            else:
                # The value may exist when the action runs.
                unknown = Unknown(text_of_path(path), (), error.why)
                self.unknown += [unknown] if unknown not in self.unknown else []
        return None

    def _with_root(self, error: RenderFailed, reads: Iterable[Read]) -> RenderFailed:
        """Name the missing root value if Jinja2's message only says that the value is none."""
        facts = self._basis.params.facts
        for root, *below in (read.names for read in reads):
            words = f"{below[0]!r} is undefined in none" if below else ""
            is_none = root in _FACTS and getattr(facts, _FACTS[root]) is None
            if words and is_none and error.why.endswith(words):
                why = f'{error.why.removesuffix(words)}{root} is missing and has no "{below[0]}"'
                return RenderFailed(error.where, why, why, error.path, error.cause)
        return error

    def _is_wrong_in_given(self, error: RenderFailed, reads: Iterable[Read]) -> bool:
        """Return whether a name is missing in an object that is given, and so stays missing."""
        missing, owner = self._missing_in(error)
        if owner == ".Options":
            return bool(nearest(missing, self._basis.unused))
        if owner in _OBJECT_ROOTS:
            # Without an object, the namespace is used as the object.
            is_given = self._basis.params.facts.namespace is None
            return is_given and any(
                read.is_certain and f".{read.names[0]}" == owner for read in reads
            )
        return _IN_GIVEN_OBJECT.match(owner) is not None

    def _fails_over_given(self, text: str, reads: Iterable[Read]) -> bool:
        """Return whether a failing text reads only given values, so that it always fails."""
        is_go = self._renderer.engine is Engine.GO
        is_open = _MAY_PASS_LATER.search(text) or (is_go and _READS_ANYTHING.search(text))
        return not is_open and all(map(self._is_given, reads))

    def _is_given(self, read: Read) -> bool:
        """Return whether the value of a read exists and cannot change before the phase runs."""
        root, *below = read.names
        if root not in ROOTS or (root in _MAY_GROW and not below):
            return False
        facts = self._basis.params.facts
        if root == "Object" and (facts.namespace is not None or below[:1] == ["status"]):
            return False  # the namespace is the substitute for a missing object
        if f".{root}" in _OBJECT_ROOTS and below[:1] not in (["Name"], ["Namespace"]):
            return False  # pods are created and deleted at any time
        node: Any = self._basis.params.root
        for name in read.names:
            try:
                node = node[name]
            except (KeyError, TypeError):
                return False
        return node is not None and not getattr(node, "is_nil", False)

    def _missing_in(self, error: RenderFailed) -> tuple[str, str]:
        """Return the missing name and its owner, or empty strings for other errors."""
        if self._renderer.engine is Engine.JINJA2:
            match = _UNDEFINED.search(error.why) or _NONE.search(error.why)
            return (match["missing"], f".{match['owner']}") if match is not None else ("", "")
        cause = error.cause
        return (cause.missing, cause.owner) if isinstance(cause, TemplateExecError) else ("", "")

    def _check(self, read: Read, path: Path) -> None:
        """Check that the values of a read exist, in a text that cannot be rendered yet."""
        is_plain = read.is_certain and not read.indexed
        name = str(read) if self._renderer.engine is Engine.GO else _jinja_name(read)
        is_later = read.names[0] in _PHASE_ROOTS or _why_open([read], self._basis.open)
        if is_plain and not is_later:
            # Keep the line number: the message includes it.
            self._render("\n" * (read.line - 1) + f"{{{{ {name} }}}}", path, "", [read])


def _jinja_name(read: Read) -> str:
    root, *below = read.names
    return root + "".join(f".{name}" if name.isidentifier() else f"[{name!r}]" for name in below)


_PHASE_ROOTS = frozenset({"Phases", "DeferPhase", "CurrentPhase"})


def _is_below(read: Read, names: Iterable[tuple[str, ...]]) -> bool:
    return any(
        read.names[: min(len(path), len(read.names))] == path[: min(len(path), len(read.names))]
        for path in names
    )


def _why_open(reads: Iterable[Read], unknown: Mapping[tuple[str, ...], str]) -> str:
    """Return why one of the reads is unknown, or an empty string if all are known."""
    for read in reads:
        for names, why in unknown.items():
            if _is_below(read, [names]):
                return why
    return ""


def _outputs_in(reads: Iterable[Read]) -> tuple[str, ...]:
    """List the phases whose outputs are read, without duplicates."""
    phases: dict[str, None] = {}
    for read in reads:
        names = read.names
        if names[0] == "Phases" and (len(names) < 3 or names[2] == "Output"):
            phases.setdefault(names[1] if len(names) > 1 else "earlier phases")
        elif names[0] == "DeferPhase" and names[1:2] in ((), ("Output",)):
            phases.setdefault("the deferPhase")
    return tuple(phases)
