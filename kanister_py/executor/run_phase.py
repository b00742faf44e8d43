"""One attempt of a phase: its objects, arguments, call and result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.status import DEFER, PhaseError, Place
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.errors import (
    Fault,
    KanisterError,
    TransientError,
    UsageError,
    did_you_mean,
)
from kanister_py.core.templates.facts import needs_of_phase
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer
from kanister_py.core.yaml.documents import Path, nearest, text_of_path
from kanister_py.core.yaml.weak import decode_args
from kanister_py.executor.author_frames import error_text
from kanister_py.executor.fetch_facts import fetch_named
from kanister_py.executor.phase_context import RunningPhase
from kanister_py.executor.preflight import ActionRefused
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.function import Func, OnRestart, interrupted

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LOG: Final = logging.getLogger(__name__)
_LONGEST_MESSAGE: Final = 4000
# With these limits the problems fit into an annotation, together with the rest of a status.
_MOST_PROBLEMS: Final = 50
_LONGEST_PROBLEM: Final = 800
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Completed:
    """The function succeeded."""

    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """The condition `if` of the phase is false."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. Some outputs may be kept."""

    error: PhaseError
    output: Mapping[str, Any] | None = None


Result: TypeAlias = Completed | Skipped | Failed


class PhaseWork(NamedTuple):
    """Input of a phase that is known before it starts.

    `references` are its `objects`, rendered when the action was launched.
    """

    place: Place
    phase: Phase
    function: type[Func]
    renderer: Renderer
    references: Mapping[str, Mapping[str, Any]] = _NOTHING

    @property
    def path(self) -> Path:
        if self.place.phase == DEFER:
            return ("deferPhase",)
        return ("phases", self.place.phase)


def run_phase(
    work: PhaseWork, params: Params, context: RunningPhase, *, is_resumed: bool
) -> Result:
    """Make one attempt, and return its result. Exceptions become a `Failed` result.

    `is_resumed` is set if another process began this attempt and stopped.
    """
    context.begin(work.renderer.at((*work.path, "args")), is_resumed=is_resumed)
    try:
        context.check_cancelled()
        if is_resumed and work.function.on_restart is OnRestart.FAIL:
            raise interrupted(work.function.name)
        result = _attempt(work, params, context)
    except KanisterError as error:
        if isinstance(error, Fault):
            _LOG.exception("Phase %s failed because of an internal error", work.phase.name)
        cause = context.stopped_by or error
        result = Failed(phase_error_of(cause, context), getattr(cause, "outputs", None) or None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 # a function may raise anything
        _LOG.debug("Function %s raised", work.function.name, exc_info=True)
        why = error_text(error, work.function)
        cause = context.stopped_by or UsageError(
            f"{work.function.name}: {why}", reason="FunctionFailed"
        )
        result = Failed(phase_error_of(cause, context))
    return result


def _attempt(work: PhaseWork, params: Params, context: RunningPhase) -> Result:
    enter(params, work, context.cluster, context)
    phase, function, path = work.phase, work.function, work.path
    condition = phase.if_
    renderer = context.renderer.at(())
    if condition is not None and not renderer.is_wanted(condition, params, (*path, "if")):
        return Skipped()
    args: Mapping[str, Any] = phase.args
    if not function.renders_own_args:
        args = renderer.args(phase.args, params, (*path, "args"))
    decoded = decode_args(function.Args, args, function.name)
    output = _json_output(function.name, function().exec(context, params, decoded))
    _check_declared(function, output)
    return Completed(output)


def enter(
    params: Params, work: PhaseWork, cluster: Cluster, context: RunningPhase | None = None
) -> None:
    """Fetch the objects of a phase, and add them to the parameters of its templates."""
    secrets: dict[str, KubeObject] = {}
    config_maps: dict[str, KubeObject] = {}
    needs = needs_of_phase(work.references) if work.references else {}
    for name, need in needs.items():
        into = secrets if need.resource.resource == "secrets" else config_maps
        into[name] = fetch_named(cluster, need)
    if secrets and context is not None:
        context.learn_secrets(secrets.values())
    phase = None if work.place.phase == DEFER else work.phase.name
    params.enter_phase(phase, secrets, config_maps)


def leave(params: Params, work: PhaseWork, output: Mapping[str, Any] | None) -> None:
    """Add the output of a phase to the parameters of later templates. None means no output."""
    params.leave_phase(None if work.place.phase == DEFER else work.phase.name, output)


def phase_error_of(
    error: KanisterError, context: RunningPhase | None = None, masker: Masker | None = None
) -> PhaseError:
    """Build the error for a status: on one line, masked and shortened."""

    def line_of(text: str, most: int = _LONGEST_MESSAGE) -> str:
        line = " ".join(line.strip() for line in text.splitlines() if line.strip())
        if context is not None:
            line = context.mask(line)
        if masker is not None:
            line = masker.mask(line)
        return line if len(line) <= most else line[: most - 1] + "…"

    if isinstance(error, ActionRefused):
        messages = [obstacle.message for obstacle in error.obstacles]
    else:
        messages = [str(problem) for problem in getattr(error, "problems", ())]
        # A single problem is already in the message.
        messages = messages if len(messages) > 1 else []
    problems = [line_of(message, _LONGEST_PROBLEM) for message in messages[:_MOST_PROBLEMS]]
    if len(messages) > _MOST_PROBLEMS:
        problems.append(f"and {len(messages) - _MOST_PROBLEMS} more")
    return PhaseError(
        message=line_of(error.message),
        reason=error.reason,
        exit_code=getattr(error, "exit_code", None),
        log_tail=context.log_tail if context is not None else (),
        is_transient=isinstance(error, TransientError),
        delay_seconds=error.delay_seconds if isinstance(error, TransientError) else 0.0,
        problems=tuple(problems),
    )


def _check_declared(function: type[Func], output: Mapping[str, Any]) -> None:
    """Check outputs against the model `Outputs`. Raises an error that names every problem.

    The outputs are not changed: values are not converted, and defaults are not added.
    """
    validate = getattr(function.Outputs, "model_validate", None)
    if validate is None:
        return
    try:
        validate(output)
    except ValidationError as error:
        # Values may be secret, so the message leaves them out.
        problems = [
            _output_problem(detail, function.Outputs)
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise UsageError(
            f"{function.name}: its outputs do not match its model `Outputs`: {'; '.join(problems)}",
            reason="FunctionFailed",
        ) from None


def _output_problem(detail: ErrorDetails, model: type[BaseModel]) -> str:
    path = text_of_path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in model.model_fields.items()]
        return f"{path} is not declared{did_you_mean(nearest(path, names))}"
    if detail["type"] == "missing":
        return f"{path} is missing"
    message = detail["msg"]
    return f"{path}: {message[:1].lower()}{message[1:]}" if path else message


def _json_output(function: str, output: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return outputs as JSON values, or raise an error that names the invalid one."""
    if output is None:
        return {}
    if not isinstance(output, Mapping):
        raise UsageError(
            f"{function}: its output is {type(output).__name__}, not a mapping",
            reason="FunctionFailed",
        )
    return {str(key): _json_of(function, str(key), value) for key, value in output.items()}


def _json_of(function: str, path: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {
            str(key): _json_of(function, f"{path}.{key}", member) for key, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_json_of(function, f"{path}[{at}]", item) for at, item in enumerate(value)]
    raise UsageError(
        f"{function}: its output {path} is {type(value).__name__}, not JSON",
        reason="FunctionFailed",
    )
