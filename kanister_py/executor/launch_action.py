"""Launch of an action: what its templates see, and the check before its first phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.actionsets.course import ActionCourse
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.status import DEFER, ActionStatus, Place, State, Warned, size_of
from kanister_py.core.actionsets.steps import current_phase
from kanister_py.core.blueprints.plan import Obstacle, PlanBasis, renderer_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
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
from kanister_py.executor.foresee import ActionRefused, forbidden, foresee, warnings_before
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run_phase import PhaseWork, enter, leave
from kanister_py.ports.cluster import Cluster
from kanister_py.ports.function import Func

_LARGEST_OBJECT_BYTES: Final = 16 * 1024
_OF_CLUSTER: Final[Mapping[tuple[str, ...], str]] = {
    (root,): "actions before this one may change it"
    for root in ("Object", *WORKLOADS, "Secrets", "ConfigMaps", "Profile")
}


class SecretBook:
    """All secrets that an action has come to know, and the mask made of them."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self.texts = set(texts)
        self.masker = Masker(self.texts)

    def learn(self, secrets: Iterable[Mapping[str, Any]]) -> Masker:
        """Take in Secrets as the cluster gives them."""
        return self.take_in(text for secret in secrets for text in texts_of_secret(secret))

    def take_in(self, texts: Iterable[str]) -> Masker:
        """Take in what is secret, as text."""
        new = set(texts)
        with self._lock:
            if not new <= self.texts:
                self.texts |= new
                self.masker = Masker(self.texts)
            return self.masker


class ActionWork(NamedTuple):
    """Working set of one process for an action. It can be found again after a restart."""

    course: ActionCourse
    params: Params
    renderer: Renderer
    phases: Mapping[int, PhaseWork]
    secrets: SecretBook
    facts: Mapping[str, Any]
    warnings: tuple[Warned, ...] = ()

    def render_artifacts(self) -> dict[str, dict[str, Any]]:
        """Render the artifacts that the action leaves behind."""
        artifacts = {
            name: artifact.as_dict()
            for name, artifact in self.course.action.output_artifacts.items()
        }
        return self.renderer.artifacts(artifacts, self.params, ("outputArtifacts",))


Choices: TypeAlias = Sequence[Choice[FunctionEntry] | KanisterError]
"""The version of each phase of an action, or why it gets none; the deferred one is last."""


class Launch(NamedTuple):
    """An action to launch, and what is at hand for it.

    What is secret stands in `secrets` as soon as it is known: what goes wrong after that
    may speak of it.
    """

    course: ActionCourse
    choices: Choices
    load: Callable[[FunctionEntry], type[Func]]
    surroundings: Surroundings
    time: datetime
    status: ActionStatus
    secrets: SecretBook


def launch_action(launch: Launch, index: int) -> ActionWork:
    """Read what an action's templates see, and render what its phases refer to.

    An action that was launched before is as it was then, and its later phases see what
    the earlier ones gave. One that is sure to fail is refused with everything it would
    fail for, and with nothing touched.
    """
    course, choices, load, surroundings, time, status, secrets = launch
    cluster = surroundings.cluster
    try:
        renderer = renderer_of(course.blueprint, course.spec.name, surroundings.effects)
    except UnknownTemplateEngine as error:
        message = f"annotation {ENGINE_ANNOTATION} of the Blueprint: {error.message}"
        raise ActionRefused([Obstacle(None, (), message, error.reason)]) from None
    remembered = status.facts
    fetched = fetch_facts(
        *(surroundings.facts or cluster, course.spec, time),
        *(parse_workload(remembered), remembered.get("object")),
    )
    params = Params(fetched.facts)
    warnings: tuple[Warned, ...] = ()
    if status.start_time is None:
        warnings = _look_first(launch, renderer, fetched)
    else:
        secrets.take_in(params.secret_texts())
        if fetched.missing:
            raise fetched.missing[0].error
    phases = {}
    for (path, phase), choice in zip(course.action.every_phase(), choices, strict=True):
        if isinstance(choice, KanisterError):
            raise choice
        at = path[-1] if isinstance(path[-1], int) else DEFER
        references: Mapping[str, Mapping[str, Any]] = {}
        if phase.objects:
            objects = {name: each.as_dict() for name, each in phase.objects.items()}
            references = renderer.references(objects, params, (*path, "objects"))
        code = load(choice.chosen)
        phases[at] = PhaseWork(Place(index, at), phase, code, renderer, references)
    work = ActionWork(course, params, renderer, phases, secrets, _lasting(fetched.facts), warnings)
    try:
        _catch_up(work, status, cluster)
    finally:
        secrets.take_in(params.secret_texts())
    return work


def look_at_action(launch: Launch, *, is_later: bool) -> None:
    """Raise what an action is sure to fail for, without launching it.

    `is_later`: other actions run before it, which may change what it finds in the cluster.
    """
    spec, around = launch.course.spec, launch.surroundings
    renderer = renderer_of(launch.course.blueprint, spec.name, around.effects)
    fetched = fetch_facts(around.facts or around.cluster, spec, launch.time)
    _look_first(launch, renderer, fetched, is_later=is_later)


def _look_first(
    launch: Launch, renderer: Renderer, fetched: Fetched, *, is_later: bool = False
) -> tuple[Warned, ...]:
    """Refuse what is sure to fail, and give warnings about the rest."""
    course, choices, load, surroundings, _, status, secrets = launch
    name, cluster = course.spec.name, surroundings.cluster
    current = current_phase(status)
    done = len(status.phases) if current is None else current
    over: dict[tuple[str, ...], str] = {
        ("Phases", phase.name, kind): "it is of a phase that is over"
        for phase in status.phases[:done]
        for kind in ("Secrets", "ConfigMaps")
    }
    known = PlanBasis(
        renderer,
        # These have no other user: what only a look at later phases shows must not be seen
        # by earlier ones.
        Params(fetched.facts),
        load,
        open={**(_OF_CLUSTER if is_later else fetched.open), **over},
        is_whole=True,
        preferred=course.spec.preferred_version,
    )
    if surroundings.stores is not None:
        known = known._replace(place_of=surroundings.stores.place_of)
    try:
        blueprint = course.blueprint
        seen = foresee(blueprint, name, choices, known, cluster, done=done, is_later=is_later)
    finally:
        masker = secrets.take_in(known.params.secret_texts())
    obstacles = [
        Obstacle(None, (), each.error.message, each.error.reason)
        for each in fetched.missing
        # What earlier actions may make is waited for; a reference that says too little is not.
        if not is_later or isinstance(each.error, InvalidObjectReference)
    ]
    obstacles += seen.obstacles
    if surroundings.checks_access:
        obstacles += forbidden(seen, renderer.origin, cluster)
    if obstacles:
        raise ActionRefused(obstacles)
    warnings = [("NotChecked", each) for each in seen.unchecked]
    if not done:
        warnings += warnings_before(course.blueprint, course.spec, seen)
    return tuple([Warned(reason, masker.mask(text), name) for reason, text in warnings])


def _catch_up(work: ActionWork, status: ActionStatus, cluster: Cluster) -> None:
    for index, phase in enumerate(status.phases):
        if phase.state is State.COMPLETE and phase.output is not None:
            if work.phases[index].references:
                enter(work.params, work.phases[index], cluster)
            leave(work.params, work.phases[index], phase.output.values)
        elif phase.state is State.FAILED:
            output = phase.output.values if phase.output is not None else None
            leave(work.params, work.phases[index], output)


def _lasting(facts: ActionFacts) -> dict[str, Any]:
    """Give the facts that cannot be seen again once the phases have begun their work."""
    lasting = workload_as_dict(facts.workload)
    found = facts.object
    if found is None or found.get("kind") == "Secret":
        return lasting
    seen = {**found, "metadata": {**metadata_of(found)}}
    seen["metadata"].pop("managedFields", None)
    if size_of(seen) <= _LARGEST_OBJECT_BYTES:
        lasting["object"] = seen
    return lasting
