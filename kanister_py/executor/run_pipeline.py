"""Pipeline run: calls all steps in order and computes the desired state, without applying it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kanister_py.core.compositions.cache_keys import Digests, cache_seconds
from kanister_py.core.compositions.capabilities import check_capability
from kanister_py.core.compositions.desired import Composed, ComposedRules, compose_state
from kanister_py.core.compositions.messages import Data, FunctionResponse
from kanister_py.core.compositions.model import Composition, Step
from kanister_py.core.compositions.pipeline import (
    Observed,
    PipelineState,
    StepOutcome,
    accept,
    as_doubles,
    error_source,
    failed_state,
    first_state,
    inexact_numbers,
    notice_of_number,
    request_of,
    skip,
    skip_reason,
    with_warnings,
)
from kanister_py.core.compositions.requirements import Fetched, check_allowed
from kanister_py.core.compositions.step_inputs import ArtifactRef, StepInputUnusable, input_in
from kanister_py.core.errors import (
    Fault,
    FunctionVersionRemoved,
    KanisterError,
    TransientError,
    UsageError,
)
from kanister_py.core.kube.parts import name_of, namespace_of
from kanister_py.core.registry.choose import choose_revision
from kanister_py.core.registry.entries import FunctionRevision, Registry
from kanister_py.executor.requirements_loop import Settled, fetch, settle
from kanister_py.executor.response_cache import CachedStep, ResponseCache
from kanister_py.executor.runner_wrappers import (
    STEP_RETRY,
    bounded,
    measured,
    retried,
    traced,
    with_tags_checked,
)
from kanister_py.executor.step_artifacts import StepArtifacts
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionCallError,
    FunctionMetrics,
    FunctionRunner,
)
from kanister_py.ports.requirement_source import RequirementSource
from kanister_py.ports.tracing import span


class PipelineStepFailed(KanisterError, reason="PipelineStepFailed"):
    """A step of a pipeline failed. The subclasses add the group of the error."""

    def __init__(self, step: str, function: str, revision: str, cause: KanisterError) -> None:
        why = cause.why if isinstance(cause, FunctionCallError) else cause.message
        message = f'cannot run Composition pipeline step "{step}": {why}'
        super().__init__(message + error_source(function, revision))
        self.step = step
        self.function = function
        self.revision = revision
        self.cause = cause


class PipelineStepRefused(PipelineStepFailed, UsageError):
    """A step fails until its input, its function or its surroundings change."""


class PipelineStepUnavailable(PipelineStepFailed, TransientError):
    """A step fails temporarily."""

    def __init__(self, step: str, function: str, revision: str, cause: KanisterError) -> None:
        super().__init__(step, function, revision, cause)
        self.delay_seconds = cause.delay_seconds if isinstance(cause, TransientError) else 0.0


class PipelineStepBroken(PipelineStepFailed, Fault):
    """A step fails because of an internal error."""


class CredentialMissing(UsageError, reason="CredentialMissing"):
    """The Secret in a step's credentials does not exist."""

    def __init__(self, step: str, credential: str, secret: str, function: str) -> None:
        super().__init__(
            f'cannot get Composition pipeline step "{step}" credential "{credential}" from Secret: '
            f"Secret {secret} does not exist" + error_source(function, "")
        )
        self.step = step
        self.credential = credential
        self.secret = secret


class Record(NamedTuple):
    """One call that the pipeline made, with its response or its error."""

    call: FunctionCall
    seconds: float
    response: FunctionResponse | None = None
    error: KanisterError | None = None


class Engine(NamedTuple):
    """Engine of pipelines: the runner, the registry of functions, the source of requirements."""

    runner: FunctionRunner
    """The transport only; retries, cache and other wrappers are added for each step."""
    revisions: Registry[FunctionRevision]
    source: RequirementSource
    clock: Clock
    cache: ResponseCache | None = None
    metrics: FunctionMetrics | None = None
    note: Callable[[Record], None] | None = None
    rules: ComposedRules = ComposedRules()
    artifacts: StepArtifacts | None = None
    """The reader of step inputs in registries."""


def compose(
    composition: Composition,
    observed: Observed,
    engine: Engine,
    *,
    context: Data | None = None,
    remembered: Mapping[str, Data] | None = None,
) -> Composed:
    """Run all steps in order, and evaluate the last desired state.

    `remembered` are the requirements of each step when this XR was last composed. They are
    fetched in advance, so that one call per step is usually sufficient. Failures are part of the
    result.
    """
    xr = observed.composite
    with span(f"compose {xr.get('kind')}", xr=name_of(xr), namespace=namespace_of(xr)) as traced:
        composed = _compose(composition, observed, engine, context, remembered or {})
        if composed.error is not None:
            traced.fail(composed.error.reason, composed.error.message)
    return composed


def _compose(
    composition: Composition,
    observed: Observed,
    engine: Engine,
    context: Data | None,
    remembered: Mapping[str, Data],
) -> Composed:
    steps: list[Step] = []
    for step in composition.steps:
        # Read all inputs before the first call, and check below that no version was removed. No
        # function is called for a pipeline that is certain to fail.
        try:
            steps.append(_with_input(step, observed, engine))
        except KanisterError as error:
            failed = failed_state(
                step, first_state(observed, context), "", _failure(step, "", error)
            )
            return compose_state(observed, failed, engine.rules)
    composition = composition._replace(steps=tuple(steps))
    notices = tuple(map(notice_of_number, _inexact_inputs(composition, observed)))
    if notices:
        composition, observed = _with_doubles(composition, observed)
    state = first_state(observed, context)._replace(notices=notices)
    digests = Digests(is_exact=engine.cache is not None)
    for step in composition.steps[1:]:
        removed = _removed(step, engine)
        if removed is not None:
            return compose_state(observed, failed_state(step, state, "", removed), engine.rules)
    for step in composition.steps:
        with span(f"step {step.name}", step=step.name, function=step.function) as traced:
            state = _run_step(step, state, engine, digests, remembered.get(step.name))
            if state.error is not None:
                traced.fail(state.error.reason, state.error.message)
                break
    return compose_state(observed, state, engine.rules)


def _with_input(step: Step, observed: Observed, engine: Engine) -> Step:
    """Return a step with the current content of its `inputRef`."""
    ref = step.input_ref
    if ref is None:
        return step
    if isinstance(ref, ArtifactRef):
        if engine.artifacts is None:
            raise StepInputUnusable(
                f"inputRef names {ref.package}, but registries are not used here"
            )
        return step._replace(input=engine.artifacts.read(ref))
    namespace = namespace_of(observed.composite)
    config_map = engine.source.fetch_config_map(ref.namespace or namespace, ref.name)
    return step._replace(input=input_in(ref, namespace, config_map))


def _with_doubles(composition: Composition, observed: Observed) -> tuple[Composition, Observed]:
    steps = tuple(step._replace(input=as_doubles(step.input)) for step in composition.steps)
    resources = {name: as_doubles(resource) for name, resource in observed.resources.items()}
    return composition._replace(steps=steps), observed._replace(
        composite=as_doubles(observed.composite), resources=resources
    )


def _removed(step: Step, engine: Engine) -> KanisterError | None:
    try:
        choose_revision(engine.revisions, step.function, step.revision)
    except FunctionVersionRemoved as error:
        return _failure(step, "", error)
    except KanisterError:
        pass  # reported when the step runs: the object may exist by then
    return None


def _inexact_inputs(composition: Composition, observed: Observed) -> Iterator[str]:
    yield from inexact_numbers(observed.composite, "observed.composite.resource")
    for name in sorted(observed.resources):
        yield from inexact_numbers(observed.resources[name], f"observed.resources[{name}].resource")
    for step in composition.steps:
        if step.input is not None:
            yield from inexact_numbers(step.input, f"pipeline[{step.name}].input")


def _run_step(
    step: Step, state: PipelineState, engine: Engine, digests: Digests, remembered: Data | None
) -> PipelineState:
    revision_name = ""
    try:
        why = skip_reason(step.when, state)
        if why:
            return skip(step, state, why)
        choice = choose_revision(engine.revisions, step.function, step.revision)
        revision_name = choice.chosen.name
        if choice.notices:
            state = with_warnings(step, state, choice.notices)
        check_capability(choice.chosen, engine.revisions.family(step.function))
        call = _call_of(step, state, choice.chosen, engine.source, digests, remembered)
        outcome, response = _answer(step, call, engine, digests)
    except CredentialMissing as error:
        return failed_state(step, state, revision_name, error)
    except KanisterError as error:
        return failed_state(step, state, revision_name, _failure(step, revision_name, error))
    # The TTL of a cached response is its remaining time. The `ttl` of the step overrides others.
    is_kept = response.calls == 0
    seconds = response.ttl_seconds if is_kept else cache_seconds(response, step.ttl_seconds)
    return accept(step, state, outcome, response, seconds)


def _failure(step: Step, revision: str, error: KanisterError) -> KanisterError:
    kind: type[PipelineStepFailed] = PipelineStepRefused
    if isinstance(error, Fault):
        kind = PipelineStepBroken
    elif isinstance(error, TransientError):
        kind = PipelineStepUnavailable
    return kind(step.name, step.function, revision, error)


def _call_of(
    step: Step,
    state: PipelineState,
    revision: FunctionRevision,
    source: RequirementSource,
    digests: Digests,
    remembered: Data | None,
) -> FunctionCall:
    beforehand = _fetch_in_advance(step, source, remembered)
    request = request_of(
        step,
        state,
        digests,
        credentials=_credentials(step, source),
        resources=beforehand.resources,
        schemas=beforehand.schemas,
    )
    return FunctionCall(step.name, revision, request, step.timeout_seconds)


def _fetch_in_advance(step: Step, source: RequirementSource, remembered: Data | None) -> Fetched:
    """Fetch the requirements that a step declares, and the remembered ones of its function.

    Only errors for declared requirements are raised. If fetching the others fails, the function
    requests them again.
    """
    own = fetch({"resources": step.required_resources, "schemas": step.required_schemas}, source)
    if not remembered:
        return own
    try:
        check_allowed(step, remembered)
        fetched = fetch(remembered, source)
    except KanisterError:
        return own
    return Fetched({**fetched.resources, **own.resources}, {}, {**fetched.schemas, **own.schemas})


def _credentials(step: Step, source: RequirementSource) -> Mapping[str, Data] | None:
    credentials: dict[str, Data] = {}
    for credential in step.credentials:
        if not credential.secret:
            continue
        data = source.fetch_secret(credential.namespace, credential.secret)
        if data is None:
            where = f"{credential.namespace}/{credential.secret}"
            raise CredentialMissing(step.name, credential.name, where, step.function)
        credentials[credential.name] = {"credentialData": {"data": dict(data)}}
    return credentials or None


def _answer(
    step: Step, call: FunctionCall, engine: Engine, digests: Digests
) -> tuple[StepOutcome, FunctionResponse]:
    """Call the function of one step.

    From the outside in, the layers are: recording, cache, requirements loop, retries, timeout,
    metrics, tracing, tag check, transport.
    """
    clock = engine.clock
    run = traced(with_tags_checked(engine.runner.run))
    if engine.metrics is not None:
        run = measured(run, clock, engine.metrics)
    if step.timeout_seconds:
        run = bounded(run, clock)
    rule = STEP_RETRY if step.retry is None else STEP_RETRY.overridden_by(step.retry)
    run = retried(run, clock, rule)

    def settled(call: FunctionCall) -> Settled:
        return settle(call, run, step, engine.source)

    began = clock.monotonic()

    def record(response: FunctionResponse | None, error: KanisterError | None = None) -> float:
        seconds = clock.monotonic() - began
        if engine.note is not None:
            engine.note(Record(call, seconds, response, error))
        return seconds

    try:
        if engine.cache is None:
            response = settled(call).response
        else:
            cached = CachedStep(settled, step, engine.source, engine.cache, digests)
            response = cached.run(call)
    except KanisterError as error:
        record(None, error)
        raise
    return StepOutcome(step.name, step.function, call.revision.name, record(response)), response
