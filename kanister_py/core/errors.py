"""Every failure a user can meet, grouped by who can do something about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar


class KanisterError(Exception):
    """The root of everything we raise on purpose.

    The message is one line, capital first, no full stop, and the same on every
    retry. `reason` is for machines and goes unchanged into conditions, events
    and JSON.
    """

    reason: ClassVar[str] = "Error"

    @property
    def message(self) -> str:
        return str(self)


class UsageError(KanisterError):
    """The input is wrong: the user fixes it."""

    reason = "UsageError"


class TransientError(KanisterError):
    """The world is wrong for the moment: we try again, after `delay_seconds` at the earliest."""

    reason = "TransientError"

    def __init__(self, message: str, delay_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.delay_seconds = delay_seconds


class Fault(KanisterError):
    """Our bug: the traceback belongs in the log, a short line before the user."""

    reason = "Fault"


# Files and documents


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in one place.

    `path` is where it is inside the document (`actions.backup.phases[1].func`);
    lines and columns count from one, zero means that nobody knows.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    reason: str = "InvalidDocument"

    def in_file(self, file: str) -> Problem:
        return replace(self, file=file)

    def __str__(self) -> str:
        place = self.file or "input"
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class InvalidDocument(UsageError):
    """A document that people hand us does not say what such a document must say.

    Holds every problem of the document, in the order of its lines.
    """

    reason = "InvalidDocument"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("; ".join(str(problem) for problem in self.problems))


# Versions and the choice among them


class InvalidVersion(UsageError):
    """A text that should be a version is none."""

    reason = "InvalidVersion"

    def __init__(self, text: str, why: str, suggestion: str = "") -> None:
        hint = f"; {suggestion}" if suggestion else ""
        super().__init__(f"{text!r} is not a version: {why}{hint}")
        self.text = text
        self.why = why
        self.suggestion = suggestion


class InvalidRange(InvalidVersion):
    """A text that should be a range of versions is none."""

    def __init__(self, text: str, why: str, suggestion: str = "") -> None:
        super().__init__(text, why, suggestion)
        hint = f"; {suggestion}" if suggestion else ""
        self.args = (f"{text!r} is not a range of versions: {why}{hint}",)


class RegistrationRefused(UsageError):
    """A function cannot be registered, and the registry is as it was before."""

    reason = "RegistrationRefused"

    def __init__(self, function: str, why: str) -> None:
        super().__init__(f"Cannot register function {function}: {why}")
        self.function = function
        self.why = why


class PluginBroken(UsageError):
    """What an entry point names could not be loaded or registered."""

    reason = "PluginBroken"

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"Plugin {plugin} is left out: {why}")
        self.plugin = plugin
        self.why = why


class CatalogueMismatch(UsageError):
    """The record of versions and the code disagree about a function."""

    reason = "CatalogueMismatch"

    def __init__(self, function: str, why: str) -> None:
        super().__init__(f"versions.yaml and the code disagree about {function}: {why}")
        self.function = function
        self.why = why


class FunctionNotRegistered(UsageError):
    """Nobody brought a function of this name."""

    reason = "FunctionNotRegistered"

    def __init__(self, function: str, near: Sequence[str] = ()) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"Function {function} is not registered{meant}")
        self.function = function
        self.near = tuple(near)


class FunctionVersionRemoved(UsageError):
    """A phase asks for a version that is past its deprecation window."""

    reason = "FunctionVersionRemoved"

    def __init__(self, function: str, version: str, removed_in: str, replacement: str) -> None:
        way_out = (
            f"set funcVersion to {replacement}, as `kanister-py upgrade` does"
            if replacement
            else "no version replaces it"
        )
        super().__init__(f"{function} {version} was removed in release {removed_in}; {way_out}")
        self.function = function
        self.version = version
        self.removed_in = removed_in
        self.replacement = replacement


class FunctionVersionNotFound(UsageError):
    """No version that may be used answers what a phase asks for."""

    reason = "FunctionVersionNotFound"

    def __init__(self, function: str, asked: str, passed_over: Sequence[str]) -> None:
        found = f": {'; '.join(passed_over)}" if passed_over else ": it has no versions"
        super().__init__(f"{function} has no version that answers {asked}{found}")
        self.function = function
        self.asked = asked
        self.passed_over = tuple(passed_over)


class FunctionRevisionNotFound(UsageError):
    """No revision of a function can take the call of a pipeline step."""

    reason = "FunctionRevisionNotFound"

    def __init__(self, function: str, asked: str, passed_over: Sequence[str]) -> None:
        found = f": {'; '.join(passed_over)}" if passed_over else ": it has no revisions"
        super().__init__(f"No revision of function {function} answers {asked}{found}")
        self.function = function
        self.asked = asked
        self.passed_over = tuple(passed_over)
