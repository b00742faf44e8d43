"""Errors, grouped by who can do something about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final


def did_you_mean(near: Sequence[str]) -> str:
    """Ask whether one of a few names is meant; nothing if there is none."""
    return f"; did you mean {' or '.join(near)}?" if near else ""


class KanisterError(Exception):
    """The root of everything we raise on purpose.

    The message is one line, capital first, no full stop, and the same on every
    retry. `reason` is for machines and goes unchanged into conditions, events
    and JSON: a class of errors states it beside its bases.
    """

    reason: str = "Error"

    def __init_subclass__(cls, *, reason: str = "") -> None:
        super().__init_subclass__()
        if reason:
            cls.reason = reason

    def __init__(self, message: str = "", *, reason: str = "") -> None:
        super().__init__(message)
        if reason:
            self.reason = reason

    @property
    def message(self) -> str:
        return str(self)


class UsageError(KanisterError, reason="UsageError"):
    """The input is wrong: the user fixes it."""


class Unusable(UsageError, reason="Unusable"):
    """Something that is given is not what it should be: `what` is refused for `why`."""

    wording: ClassVar[str] = "{what}: {why}"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(self.wording.format(what=what, why=why))
        self.what = what
        self.why = why


class TransientError(KanisterError, reason="TransientError"):
    """The world is wrong for the moment: we try again, after `delay_seconds` at the earliest."""

    def __init__(self, message: str, delay_seconds: float = 0.0, *, reason: str = "") -> None:
        super().__init__(message, reason=reason)
        self.delay_seconds = delay_seconds


class Fault(KanisterError, reason="Fault"):
    """Our bug: the traceback belongs in the log, a short line before the user."""


# Files and documents


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in one place.

    `path` is where it is inside the document (`actions.backup.phases[1].func`);
    lines and columns count from one, zero means unknown.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    reason: str = "InvalidDocument"

    def __str__(self) -> str:
        place = self.file or "input"
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class InvalidDocument(UsageError, reason="InvalidDocument"):
    """A document that people hand us does not say what such a document must say.

    Holds every problem of the document, in the order of its lines.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("; ".join(str(problem) for problem in self.problems))


# Versions and the choice among them


class InvalidVersion(UsageError, reason="InvalidVersion"):
    """A text that should be a version is none."""

    wanted: ClassVar[str] = "a version"

    def __init__(self, text: str, why: str, suggestion: str = "") -> None:
        hint = f"; {suggestion}" if suggestion else ""
        super().__init__(f"{text!r} is not {self.wanted}: {why}{hint}")
        self.text = text
        self.why = why
        self.suggestion = suggestion


_GONE_FROM_KANISTER: Final = {
    "BackupDataUsingKopiaServer": "BackupData",
    "RestoreDataUsingKopiaServer": "RestoreData",
    "DeleteDataUsingKopiaServer": "DeleteData",
    "CreateVolumeSnapshot": "CreateCSISnapshot",
    "WaitForSnapshotCompletion": "CreateCSISnapshot",
    "CreateVolumeFromSnapshot": "RestoreCSISnapshot",
    "DeleteVolumeSnapshot": "DeleteCSISnapshot",
}
"""What takes the place of functions that blueprints still call, and Kanister has removed."""


class FunctionNotRegistered(UsageError, reason="FunctionNotRegistered"):
    """No function of this name is registered."""

    def __init__(self, function: str, near: Sequence[str] = ()) -> None:
        meant = did_you_mean(near)
        if successor := _GONE_FROM_KANISTER.get(function):
            near = [successor]
            meant = f"; Kanister has removed it, too: {successor} takes its place"
        # Kanister's own sentence: it is what people search for.
        super().__init__(f"Requested function {{{function}}} has not been registered{meant}")
        self.function = function
        self.near = tuple(near)


class FunctionVersionRemoved(UsageError, reason="FunctionVersionRemoved"):
    """A phase or a step asks for a version that is past its deprecation window.

    `setting` is where it asks, and where another version would be written.
    """

    def __init__(
        self,
        function: str,
        version: str,
        removed_in: str,
        replacement: str,
        setting: str = "funcVersion",
    ) -> None:
        hint = (
            f"set {setting} to {replacement}, as `kanister-py upgrade` does"
            if replacement
            else "no version replaces it"
        )
        super().__init__(f"{function} {version} was removed in release {removed_in}; {hint}")
        self.function = function
        self.version = version
        self.removed_in = removed_in
        self.replacement = replacement


class FunctionVersionNotFound(UsageError, reason="FunctionVersionNotFound"):
    """No version that may be used answers what a phase asks for."""

    def __init__(self, function: str, asked: str, passed_over: Sequence[str]) -> None:
        found = f": {'; '.join(passed_over)}" if passed_over else ": it has no versions"
        # It begins as Kanister's sentence does.
        super().__init__(
            f"Function version not found: {function} has no version that answers {asked}{found}"
        )
        self.function = function
        self.asked = asked
        self.passed_over = tuple(passed_over)


# The cluster and its objects


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that the cluster refuses, and why; `reason` as Kubernetes names it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiError(KanisterError, reason="Unknown"):
    """Answer of a cluster that does not do what it was asked.

    `reason` and `code` are Kubernetes' own, the message is worded as the API
    server words it. Stands beside one of the three groups, never alone.
    """

    code: ClassVar[int] = 500

    def __init_subclass__(cls, *, reason: str = "", code: int = 0) -> None:
        super().__init_subclass__(reason=reason)
        if code:
            cls.code = code

    def __init__(
        self, message: str, *, resource: str = "", name: str = "", causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(message)
        self.resource = resource
        self.name = name
        self.causes = tuple(causes)


class TransientApiError(ApiError, TransientError):
    """The cluster cannot do it for the moment."""

    def __init__(
        self,
        message: str,
        *,
        resource: str = "",
        name: str = "",
        causes: Sequence[Cause] = (),
        delay_seconds: float = 0.0,
    ) -> None:
        super().__init__(message, resource=resource, name=name, causes=causes)
        self.delay_seconds = delay_seconds


class NotFound(ApiError, UsageError, reason="NotFound", code=404):
    """There is no object of this name."""


class NoMatch(NotFound, reason="NoKindMatch"):
    """The cluster does not know this kind or resource at all."""


class AlreadyExists(ApiError, UsageError, reason="AlreadyExists", code=409):
    """An object of this name is there already."""


class Conflict(TransientApiError, reason="Conflict", code=409):
    """The object has changed since it was read: read it again and decide anew."""


class Invalid(ApiError, UsageError, reason="Invalid", code=422):
    """The object breaks rules of its kind; `causes` holds every one, with its path."""


class BadRequest(ApiError, UsageError, reason="BadRequest", code=400):
    """The request itself makes no sense to the cluster."""


class Forbidden(ApiError, UsageError, reason="Forbidden", code=403):
    """The cluster does not let us do it."""


class Unauthorized(ApiError, UsageError, reason="Unauthorized", code=401):
    """The cluster does not know who we are."""


class MethodNotAllowed(ApiError, UsageError, reason="MethodNotAllowed", code=405):
    """This kind does not offer this operation."""


class UnsupportedMediaType(ApiError, UsageError, reason="UnsupportedMediaType", code=415):
    """This kind does not take this form of patch."""


class Expired(TransientApiError, reason="Expired", code=410):
    """The point asked for is no longer in the cluster's history: list again, then watch."""


class TooManyRequests(TransientApiError, reason="TooManyRequests", code=429):
    """The cluster asks us to slow down."""


class ClusterUnavailable(TransientApiError, reason="ServiceUnavailable", code=503):
    """The cluster could not be reached, or broke off."""


class StreamLost(TransientApiError, reason="StreamLost", code=502):
    """A stream of logs or of a command broke off before its end."""


class InternalError(TransientApiError, reason="InternalError", code=500):
    """The cluster failed at something of its own, such as a webhook or its store."""


class RequestTimeout(TransientApiError, reason="Timeout", code=504):
    """The cluster did not get it done in its time; whether it was done is not known."""


class RequestTooLarge(ApiError, UsageError, reason="RequestEntityTooLarge", code=413):
    """The object is larger than the cluster takes."""


# Running phases


class RunCancelled(UsageError, reason="Cancelled"):
    """The end of the run was asked for."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled")


# To machines it was cancelled; the message has the difference for people.
class RunStopped(UsageError, reason=RunCancelled.reason):
    """The run was to end at once, without tidying up."""

    def __init__(self) -> None:
        super().__init__("The run was stopped at once; nothing was tidied up")


class RunTimedOut(UsageError, reason="RunTimedOut"):
    """A run took longer than it was given."""

    def __init__(self) -> None:
        super().__init__("The run did not end within its timeout")


class WaitTimedOut(UsageError, reason="WaitTimedOut"):
    """Something that a function waited for did not come in time."""

    def __init__(self, what: str, timeout_seconds: float) -> None:
        super().__init__(f"Waited {timeout_seconds:g} s for {what or 'a condition'}, in vain")
        self.what = what
        self.timeout_seconds = timeout_seconds


class CommandFailed(UsageError, reason="CommandFailed"):
    """A command in a container ended with something else than zero.

    `outputs` are those that count all the same; of most functions, none do.
    """

    def __init__(
        self, message: str, exit_code: int | None = None, outputs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.outputs = dict(outputs or {})


class ObjectNotFetched(UsageError, reason="ObjectNotFetched"):
    """The object that an action acts on cannot be read."""


# State folders and journals


class JournalUnwritable(TransientError, reason="JournalUnwritable"):
    """The journal of a run cannot be written, so the run cannot go on."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"Cannot write {file}: {why}; the run stops here")
        self.file = file
        self.why = why


# The controller


class LeadershipLost(TransientError, reason="LeadershipLost"):
    """This process may not act any more: another one may have taken over."""

    def __init__(self, why: str = "") -> None:
        more = f": {why}" if why else "; another one goes on"
        super().__init__(f"This process is not the leader any more{more}")


# Calls of composition functions


class CertificatesUnreadable(Unusable, reason="CertificatesUnreadable"):
    """The certificates of a server or a client cannot be read or used."""

    wording = "Certificates in {what} cannot be used: {why}"
