"""Preparation of an action: its versions, code and templates, and the check before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.actionsets.course import ActionCourse, ChosenVersions, Course, choose_versions
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.actionsets.status import (
    DEFER,
    ActionStatus,
    PhaseError,
    Place,
    State,
    Status,
    Warned,
    size_of,
)
from kanister_py.core.actionsets.steps import current_phase
from kanister_py.core.blueprints.analysis import ActionAnalysis
from kanister_py.core.blueprints.options import open_options
from kanister_py.core.blueprints.plan import Obstacle, PlanBasis, renderer_of
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.retries import RetryRule, call_with_retries
from kanister_py.core.templates.engines import ENGINE_ANNOTATION, UnknownTemplateEngine
from kanister_py.core.templates.facts import ActionFacts, InvalidObjectReference, texts_of_secret
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer
from kanister_py.executor.fetch_facts import (
    WORKLOADS,
    Fetched,
    fetch_facts,
    parse_workload,
    workload_as_dict,
)
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.preflight import (
    ActionRefused,
    invalid_options,
    invalid_override,
    missing_rights,
    phases_that_need_pods,
    preflight_warnings,
    run_preflight,
)
from kanister_py.executor.run_phase import PhaseWork, enter, leave, phase_error_of
from kanister_py.ports.function import OnRestart

_RETRY: Final = RetryRule(limit=6, backoff_seconds=1.0, max_backoff_seconds=30.0)
"""Retries of the reads that an action needs before it starts."""

_MOST_REFUSED: Final = 50
"""Maximum number of refused actions that are collected, because of the size of a status."""

_LARGEST_OBJECT_BYTES: Final = 16 * 1024
_OF_CLUSTER: Final[Mapping[tuple[str, ...], str]] = {
    (root,): "actions before this one may change it"
    for root in ("Object", *WORKLOADS, "Secrets", "ConfigMaps", "Profile")
}

Choices: TypeAlias = Sequence[Choice[FunctionEntry] | KanisterError]
"""The version of each phase of an action, or an error; the deferred phase is the last one."""


class SecretBook:
    """Secrets that an action has read so far, with a masker for them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.texts: set[str] = set()
        self.masker = Masker()

    def learn(self, secrets: Iterable[Mapping[str, Any]]) -> Masker:
        """Add Secrets as the cluster returns them."""
        return self.add(text for secret in secrets for text in texts_of_secret(secret))

    def add(self, texts: Iterable[str]) -> Masker:
        """Add secret texts. Returns the new masker."""
        new = set(texts)
        with self._lock:
            if not new <= self.texts:
                self.texts |= new
                self.masker = Masker(self.texts)
            return self.masker


class ActionWork(NamedTuple):
    """Input of the phases of a launched action.

    Another process can rebuild it from the recorded status and the cluster.
    """

    params: Params
    renderer: Renderer
    phases: Mapping[int, PhaseWork]
    facts: Mapping[str, Any]
    """Facts that must be recorded, because phases may change the objects that they describe."""
    warnings: tuple[Warned, ...] = ()


class PreparedAction:
    """One action of a run with its versions, templates and secrets.

    All of this is derived from the course, the recorded status and the cluster. Versions are
    chosen under the run's lock; everything else belongs to the thread of the action.
    """

    def __init__(
        self,
        index: int,
        course: ActionCourse,
        functions: FunctionSource,
        surroundings: Surroundings,
    ) -> None:
        self.index: Final = index
        self.course: Final = course
        self.surroundings: Final = surroundings
        self.secrets: Final = SecretBook()
        self._functions = functions
        self._chosen: ChosenVersions | None = None
        self._work: ActionWork | None = None

    @property
    def name(self) -> str:
        return self.course.spec.name

    # Versions

    def choose_versions(self) -> ChosenVersions:
        """Choose the version of every function, once in a run."""
        self._chosen = choose_versions(self._functions.choose, self.course)
        return self._chosen

    @property
    def has_versions(self) -> bool:
        return self._chosen is not None

    def _choices(self, status: ActionStatus) -> Choices:
        if self._chosen is not None:
            return self._chosen.choices
        recorded = [phase.func_version for phase in status.every_phase()]
        phases = self.course.action.every_phase()
        return [
            self._functions.choose_again(phase.func, version)
            for (_, phase), version in zip(phases, recorded, strict=True)
        ]

    def is_untouchable(self, phase: int) -> bool:
        """Return whether no other process could continue this phase.

        True as well if its function is not known yet.
        """
        work = self._work
        return work is None or work.phases[phase].function.on_restart is OnRestart.FAIL

    # Work

    def find_work(
        self,
        status: ActionStatus,
        now: Callable[[], datetime],
        wait: Callable[[KanisterError, float], bool],
    ) -> ActionWork:
        """Return the input of the phases, read from the cluster the first time.

        Transient errors are retried a few times; `wait` is called before each retry and returns
        False to stop.
        """
        if self._work is None:
            time = status.start_time or now()
            self._work = call_with_retries(lambda: self._read_work(status, time), _RETRY, wait)
        return self._work

    def _read_work(self, status: ActionStatus, time: datetime) -> ActionWork:
        """Read the facts for templates, and render the references of the phases.

        For an action that was launched, uses the recorded facts and the outputs of its completed
        phases. An action that was not launched yet is checked first.
        """
        choices, surroundings = self._choices(status), self.surroundings
        cluster, action = surroundings.cluster, self.course.action
        renderer = self._renderer()
        recorded = status.facts
        fetched = fetch_facts(
            surroundings.facts or cluster,
            self.course.spec,
            time,
            parse_workload(recorded),
            recorded.get("object"),
            action=action,
        )
        params = Params(fetched.facts)
        warnings: tuple[Warned, ...] = ()
        if status.start_time is None:
            warnings = self._check(choices, status, renderer, fetched)
        else:
            self.secrets.add(params.secret_texts())
            if fetched.missing:
                raise fetched.missing[0].error
        phases = {}
        for (path, phase), choice in zip(action.every_phase(), choices, strict=True):
            if isinstance(choice, KanisterError):
                raise choice
            at = path[-1] if isinstance(path[-1], int) else DEFER
            references: Mapping[str, Mapping[str, Any]] = {}
            if phase.objects:
                objects = {name: obj.as_dict() for name, obj in phase.objects.items()}
                references = renderer.references(objects, params, (*path, "objects"))
            code = self._functions.load(choice.chosen)
            phases[at] = PhaseWork(Place(self.index, at), phase, code, renderer, references)
        work = ActionWork(params, renderer, phases, _facts_to_record(fetched.facts), warnings)
        try:
            self._replay(work, status)
        finally:
            self.secrets.add(params.secret_texts())
        return work

    def _renderer(self) -> Renderer:
        course = self.course
        try:
            return renderer_of(course.blueprint, course.spec.name, self.surroundings.effects)
        except UnknownTemplateEngine as error:
            message = f"annotation {ENGINE_ANNOTATION} of the Blueprint: {error.message}"
            raise ActionRefused([Obstacle(None, (), message, error.reason)]) from None

    def _replay(self, work: ActionWork, status: ActionStatus) -> None:
        """Add the outputs of ended phases to the parameters of the templates."""
        for index, phase in enumerate(status.phases):
            if phase.state is State.COMPLETE and phase.output is not None:
                if work.phases[index].references:
                    enter(work.params, work.phases[index], self.surroundings.cluster)
                leave(work.params, work.phases[index], phase.output.values)
            elif phase.state is State.FAILED:
                output = phase.output.values if phase.output is not None else None
                leave(work.params, work.phases[index], output)

    def leave_phase(self, phase: int, output: Mapping[str, Any] | None) -> None:
        """Add the output of a phase to the parameters of later templates."""
        if self._work is not None:
            leave(self._work.params, self._work.phases[phase], output)

    def render_artifacts(self, work: ActionWork) -> dict[str, dict[str, Any]]:
        """Render the artifacts of the action."""
        artifacts = {
            name: artifact.as_dict()
            for name, artifact in self.course.action.output_artifacts.items()
        }
        return work.renderer.artifacts(artifacts, work.params, ("outputArtifacts",))

    # The check before the first phase

    def check(self, status: ActionStatus, time: datetime, *, is_later: bool) -> None:
        """Raise `ActionRefused` with all certain failures of the action.

        `is_later` means that other actions run before it and may change the cluster.
        """
        choices, renderer = self._choices(status), self._renderer()
        cluster = self.surroundings.facts or self.surroundings.cluster
        fetched = fetch_facts(cluster, self.course.spec, time, action=self.course.action)
        self._check(choices, status, renderer, fetched, is_later=is_later)

    def _check(
        self,
        choices: Choices,
        status: ActionStatus,
        renderer: Renderer,
        fetched: Fetched,
        *,
        is_later: bool = False,
    ) -> tuple[Warned, ...]:
        """Raise `ActionRefused` for certain failures; return warnings for other findings."""
        blueprint, spec, surroundings = self.course.blueprint, self.course.spec, self.surroundings
        current = current_phase(status)
        done = len(status.phases) if current is None else current
        over: dict[tuple[str, ...], str] = {
            ("Phases", phase.name, kind): "it is of a phase that is over"
            for phase in status.phases[:done]
            for kind in ("Secrets", "ConfigMaps")
        }
        basis = PlanBasis(
            ActionAnalysis(blueprint, spec.name, renderer.engine),
            renderer,
            # The check adds objects of later phases, which earlier phases must not see.
            Params(fetched.facts),
            self._functions.load,
            open={
                **(_OF_CLUSTER if is_later else fetched.open),
                **over,
                **open_options(self.course.action, spec.options),
            },
            has_all_inputs=True,
            preferred=spec.preferred_version,
        )
        if surroundings.stores is not None:
            basis = basis._replace(place_of=surroundings.stores.place_of)
        cluster = surroundings.cluster
        try:
            seen = run_preflight(basis, choices, cluster, done=done, is_later=is_later)
        finally:
            masker = self.secrets.add(basis.params.secret_texts())
        obstacles = [
            Obstacle(None, (), missing.error.message, missing.error.reason)
            for missing in fetched.missing
            # Earlier actions may create an object, but cannot complete a reference.
            if not is_later or isinstance(missing.error, InvalidObjectReference)
        ]
        obstacles += invalid_options(blueprint, spec)
        obstacles += seen.obstacles
        obstacles += phases_that_need_pods(seen, renderer.origin, cluster)
        obstacles += invalid_override(seen, spec)
        if surroundings.checks_access:
            obstacles += missing_rights(seen, renderer.origin, cluster)
        if obstacles:
            raise ActionRefused(obstacles)
        warnings = [("NotChecked", text) for text in seen.unchecked]
        if not done:
            warnings += preflight_warnings(blueprint, spec, seen)
        return tuple([Warned(reason, masker.mask(text), spec.name) for reason, text in warnings])


def _facts_to_record(facts: ActionFacts) -> dict[str, Any]:
    """Return the facts that phases may change: the workload, and the object of the action.

    Objects that are Secrets or large are not recorded.
    """
    lasting = workload_as_dict(facts.workload)
    obj = facts.object
    if obj is None or obj.get("kind") == "Secret":
        return lasting
    seen = {**obj, "metadata": {**metadata_of(obj)}}
    seen["metadata"].pop("managedFields", None)
    if size_of(seen) <= _LARGEST_OBJECT_BYTES:
        lasting["object"] = seen
    return lasting


class PreparedActions:
    """The actions of a run, in order."""

    def __init__(
        self, course: Course, functions: FunctionSource, surroundings: Surroundings
    ) -> None:
        self._actions = [
            PreparedAction(index, action, functions, surroundings)
            for index, action in enumerate(course.actions)
        ]
        self._is_sequential = course.rules.mode is ExecutionMode.SEQUENTIAL
        self._checking = Lock()

    def __getitem__(self, index: int) -> PreparedAction:
        return self._actions[index]

    def __iter__(self) -> Iterator[PreparedAction]:
        return iter(self._actions)

    def mask(self, data: Any) -> Any:
        """Mask the secrets that any of the actions has read in plain data."""
        for action in self._actions:
            data = action.secrets.masker.mask_data(data)
        return data

    def error_of(self, error: KanisterError) -> PhaseError:
        """Convert an error from outside of a phase for the status, with secrets masked."""
        secrets = {text for action in self._actions for text in action.secrets.texts}
        return phase_error_of(error, masker=Masker(secrets))

    def find_refusal(
        self,
        refused: Mapping[int, KanisterError],
        status: Status,
        now: datetime,
        goes_on: Callable[[], bool],
    ) -> tuple[int, ActionRefused] | None:
        """Check all actions that are not launched, and collect their obstacles.

        `refused` are errors that were already found. Returns the index of the first refused action
        and an error with the obstacles of all actions, or None.
        """
        errors = dict(refused)
        # The first thread collects the obstacles of all actions. When the others get the lock, the
        # run has ended.
        with self._checking:
            for index, action_status in enumerate(status.actions):
                if len(errors) >= _MOST_REFUSED or not goes_on():
                    break
                if (
                    index in errors
                    or action_status.start_time is not None
                    or action_status.completion_time
                ):
                    continue
                action = self._actions[index]
                if status.state is State.PENDING and not action.has_versions:
                    action.choose_versions()
                try:
                    action.check(action_status, now, is_later=self._is_sequential and index > 0)
                except TransientError:
                    continue
                except KanisterError as error:
                    errors[index] = error
        if not errors:
            return None
        obstacles = {
            obstacle.message: obstacle
            for index in sorted(errors)
            for obstacle in self._obstacles_of(index, errors[index])
        }
        return min(errors), ActionRefused([*obstacles.values()])

    def _obstacles_of(self, index: int, error: KanisterError) -> Iterator[Obstacle]:
        """Yield the obstacles of an action.

        If the run has several actions, obstacles without a path get the name of the action.
        """
        own = error.obstacles if isinstance(error, ActionRefused) else ()
        for obstacle in own or [Obstacle(None, (), error.message, error.reason)]:
            is_placed = bool(obstacle.path) or len(self._actions) == 1
            named = f"{self._actions[index].name}: {obstacle.message}"
            yield obstacle if is_placed else obstacle._replace(message=named)
