"""Executions that cost too much for this process, as bytes for one with limits.

Most templates cost next to nothing and are carried out where they are needed. One that
exceeds its allowance there, or whose cost nobody can foresee, is carried out again in a
process that is ended when it takes too much time or memory.
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
    """One execution of a template: what pickle can copy, with plain data."""

    @property
    def is_costly(self) -> bool:
        """Whether it needs limits that only a process of its own has."""

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        """Return the output; raises TemplateError."""


def carried_out(
    execution: Execution,
    effects: Effects = NO_EFFECTS,
    limits: Limits = DEFAULT,
    budget: Budget | None = None,
) -> str:
    """Return the output of an execution, here if it is cheap, else in a process with limits.

    A template that changes the data it was given does so in a copy there.
    """
    if effects.elsewhere is None:
        return execution.run(effects, limits, budget)
    if not execution.is_costly:
        try:
            return execution.run(effects, limits, budget)
        except TemplateLimitExceeded as error:
            if error.limit != "steps":
                raise
    return _output_in(effects.elsewhere(_packed(execution, effects), effects.is_stopped))


@dataclass(frozen=True, slots=True)
class _Moment:
    """A clock that shows one moment, since a clock cannot be sent."""

    moment: Time | None

    def __call__(self) -> Time:
        if self.moment is None:
            return NO_EFFECTS.now()
        return self.moment


def _packed(execution: Execution, effects: Effects) -> bytes:
    try:
        moment = effects.now()
    except GoError:
        moment = None
    sent = effects._replace(now=_Moment(moment), elsewhere=None, is_stopped=NO_EFFECTS.is_stopped)
    return pickle.dumps((execution, sent), pickle.HIGHEST_PROTOCOL)


def answer(payload: bytes) -> bytes:
    """Carry out an execution of another process, which is trusted; the answer is not pickled."""
    execution: Execution
    execution, effects = pickle.loads(payload)  # noqa: S301 - from the process that started this one
    try:
        output = execution.run(effects, UNLIMITED, None)
    except TemplateError as error:
        described = {**vars(error), "class": type(error).__name__}
        return _ERROR + json.dumps(described).encode()
    return _OUTPUT + output.encode("utf-8", "surrogatepass")


_OUTPUT: Final = b"o"
_ERROR: Final = b"e"
_ERRORS: Final = {
    each.__name__: each
    for each in (
        KeyMissing,
        TemplateExecError,
        TemplateLimitExceeded,
        TemplateParseError,
        TemplateUndefined,
    )
}


def _output_in(answered: bytes) -> str:
    text = answered[1:].decode("utf-8", "surrogatepass")
    if answered[:1] == _OUTPUT:
        return text
    raise _error_of(json.loads(text))


def _error_of(described: dict[str, Any]) -> TemplateError:
    error_class = _ERRORS[described.pop("class")]
    error = error_class.__new__(error_class, described["message"])
    error.args = (described["message"],)
    for name, value in described.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
