"""Execution of expensive templates in a separate process with limits.

Most templates are cheap and run in this process. A template that exceeds its limit of steps, or
whose cost cannot be predicted, runs in a process that is killed when it needs too much time or
memory.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kanister_py.core.templates.errors import (
    TemplateError,
    TemplateExecError,
    TemplateLimitExceeded,
    TemplateParseError,
    TemplateUndefined,
)
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import KeyMissing
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import DEFAULT, UNLIMITED, Budget, Limits
from kanister_py.gotemplate.times import Time


class Execution(Protocol):
    """Execution of a template. Can be pickled, with JSON-like data."""

    @property
    def is_costly(self) -> bool:
        """Whether it needs limits that only a separate process can enforce."""

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        """Return the output; raises TemplateError."""


def execute(
    execution: Execution,
    effects: Effects = NO_EFFECTS,
    limits: Limits = DEFAULT,
    budget: Budget | None = None,
) -> str:
    """Return the output of an execution, from this process if it is cheap, else from another one.

    In another process, changes that a template makes to its data are lost.
    """
    if effects.run_in_process is None:
        return execution.run(effects, limits, budget)
    if not execution.is_costly:
        try:
            return execution.run(effects, limits, budget)
        except TemplateLimitExceeded as error:
            if error.limit != "steps":
                raise
    return _output_in(effects.run_in_process(_pickled(execution, effects), effects.is_stopped))


@dataclass(frozen=True, slots=True)
class _Moment:
    """Clock that always returns the same time. The real clock cannot be pickled."""

    moment: Time | None

    def __call__(self) -> Time:
        if self.moment is None:
            return NO_EFFECTS.now()
        return self.moment


def _pickled(execution: Execution, effects: Effects) -> bytes:
    try:
        moment = effects.now()
    except GoError:
        moment = None
    sent = effects._replace(
        now=_Moment(moment), run_in_process=None, is_stopped=NO_EFFECTS.is_stopped
    )
    return pickle.dumps((execution, sent), pickle.HIGHEST_PROTOCOL)


def execute_pickled(payload: bytes) -> bytes:
    """Run an execution from a trusted process. The response is not pickled."""
    execution: Execution
    execution, effects = pickle.loads(payload)  # noqa: S301 - from the process that started this one
    try:
        output = execution.run(effects, UNLIMITED, None)
    except TemplateError as error:
        fields = {**vars(error), "class": type(error).__name__}
        return _ERROR + json.dumps(fields).encode()
    return _OUTPUT + output.encode("utf-8", "surrogatepass")


_OUTPUT: Final = b"o"
_ERROR: Final = b"e"
_ERRORS: Final = {
    error_class.__name__: error_class
    for error_class in (
        KeyMissing,
        TemplateExecError,
        TemplateLimitExceeded,
        TemplateParseError,
        TemplateUndefined,
    )
}


def _output_in(response: bytes) -> str:
    text = response[1:].decode("utf-8", "surrogatepass")
    if response[:1] == _OUTPUT:
        return text
    raise _error_of(json.loads(text))


def _error_of(fields: dict[str, Any]) -> TemplateError:
    error_class = _ERRORS[fields.pop("class")]
    error = error_class.__new__(error_class, fields["message"])
    error.args = (fields["message"],)
    for name, value in fields.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
