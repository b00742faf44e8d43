"""Errors, grouped by the party that can fix them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final


def did_you_mean(near: Sequence[str]) -> str:
    """Return a question that suggests similar names, or an empty string without any."""
    return f"; did you mean {' or '.join(near)}?" if near else ""


class KanisterError(Exception):
    """Base class of all errors that are raised on purpose.

    The message is one line that starts with a capital, has no full stop and is the same on
    every retry. `reason` is the machine-readable identifier in conditions, events and JSON.
    Classes set it as an argument after their bases.
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
    """The input is wrong and the user must fix it."""


class Unusable(UsageError, reason="Unusable"):
    """A value, named by `what`, is invalid for the reason `why`."""

    wording: ClassVar[str] = "{what}: {why}"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(self.wording.format(what=what, why=why))
        self.what = what
        self.why = why


class TransientError(KanisterError, reason="TransientError"):
    """A temporary failure. It is retried after `delay_seconds` at the earliest."""

    def __init__(self, message: str, delay_seconds: float = 0.0, *, reason: str = "") -> None:
        super().__init__(message, reason=reason)
        self.delay_seconds = delay_seconds


class Fault(KanisterError, reason="Fault"):
    """A bug in this program. The traceback is logged, users get a short message."""


# Files and documents


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem at one place of a document.

    `path` is the path in the document (`actions.backup.phases[1].func`). Lines and columns
    start at one, zero means unknown.
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
    """A document is invalid. `problems` has all problems, sorted by line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("; ".join(str(problem) for problem in self.problems))


# Versions


class InvalidVersion(UsageError, reason="InvalidVersion"):
    """A string is not a valid version."""

    expected: ClassVar[str] = "a version"

    def __init__(self, text: str, why: str, suggestion: str = "") -> None:
        hint = f"; {suggestion}" if suggestion else ""
        super().__init__(f"{text!r} is not {self.expected}: {why}{hint}")
        self.text = text
        self.why = why
        self.suggestion = suggestion


_REMOVED_FROM_KANISTER: Final = {
    "BackupDataUsingKopiaServer": "BackupData",
    "RestoreDataUsingKopiaServer": "RestoreData",
    "DeleteDataUsingKopiaServer": "DeleteData",
    "CreateVolumeSnapshot": "CreateCSISnapshot",
    "WaitForSnapshotCompletion": "CreateCSISnapshot",
    "CreateVolumeFromSnapshot": "RestoreCSISnapshot",
    "DeleteVolumeSnapshot": "DeleteCSISnapshot",
}
"""Replacements of functions that Kanister has removed but that blueprints still call."""


class FunctionNotRegistered(UsageError, reason="FunctionNotRegistered"):
    """No function of this name is registered."""

    def __init__(
        self, function: str, near: Sequence[str] = (), broken_plugins: Sequence[str] = ()
    ) -> None:
        hint = did_you_mean(near)
        if successor := _REMOVED_FROM_KANISTER.get(function):
            near = [successor]
            hint = f"; Kanister has removed it as well, use {successor} instead"
        # The same sentence as Kanister's, since users search for it.
        parts = [f"Requested function {{{function}}} has not been registered{hint}"]
        super().__init__("; ".join([*parts, *broken_plugins]))
        self.function = function
        self.near = tuple(near)
        self.broken_plugins = tuple(broken_plugins)


class FunctionVersionRemoved(UsageError, reason="FunctionVersionRemoved"):
    """A phase or step requests a version that has been removed.

    `setting` is the field with the version.
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
    """No usable version matches the request of a phase."""

    def __init__(self, function: str, requested: str, passed_over: Sequence[str]) -> None:
        details = f": {'; '.join(passed_over)}" if passed_over else ": it has no versions"
        # The beginning is the same as in Kanister's message.
        super().__init__(
            f"Function version not found: {function} has no version that matches "
            f"{requested}{details}"
        )
        self.function = function
        self.requested = requested
        self.passed_over = tuple(passed_over)


# The cluster and its objects


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that the cluster refuses, with Kubernetes' `reason`."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiError(KanisterError, reason="Unknown"):
    """Error response of an API server.

    `reason`, `code` and the message come from Kubernetes. Subclasses also derive from
    one of the three groups of errors.
    """

    code: ClassVar[int] = 500
    manifest: Mapping[str, Any] | None = None
    """The refused manifest, if it was one of several."""

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
    """The cluster cannot handle the request at the moment."""

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
    """The object does not exist."""


class NoMatch(NotFound, reason="NoKindMatch"):
    """The cluster does not have this kind or resource."""


class AlreadyExists(ApiError, UsageError, reason="AlreadyExists", code=409):
    """An object with this name already exists."""


class Conflict(TransientApiError, reason="Conflict", code=409):
    """The object was changed since it was read. The caller must read it again."""


class Invalid(ApiError, UsageError, reason="Invalid", code=422):
    """The object violates rules of its kind. `causes` has all of them with their paths."""


class BadRequest(ApiError, UsageError, reason="BadRequest", code=400):
    """The cluster cannot interpret the request."""


class Forbidden(ApiError, UsageError, reason="Forbidden", code=403):
    """The cluster does not permit the request."""


class Unauthorized(ApiError, UsageError, reason="Unauthorized", code=401):
    """The cluster does not accept the credentials."""


class MethodNotAllowed(ApiError, UsageError, reason="MethodNotAllowed", code=405):
    """The resource does not support this operation."""


class UnsupportedMediaType(ApiError, UsageError, reason="UnsupportedMediaType", code=415):
    """The resource does not support this type of patch."""


class Expired(TransientApiError, reason="Expired", code=410):
    """The requested resource version is too old. The caller must list again, then watch."""


class TooManyRequests(TransientApiError, reason="TooManyRequests", code=429):
    """The cluster throttles requests."""


class ClusterUnavailable(TransientApiError, reason="ServiceUnavailable", code=503):
    """The cluster could not be reached, or closed the connection."""


class StreamLost(TransientApiError, reason="StreamLost", code=502):
    """A stream of logs or of a command was interrupted."""


class InternalError(TransientApiError, reason="InternalError", code=500):
    """The cluster failed internally, such as in a webhook or its storage."""


class RequestTimeout(TransientApiError, reason="Timeout", code=504):
    """The request timed out in the cluster. It is unknown whether it took effect."""


class RequestTooLarge(ApiError, UsageError, reason="RequestEntityTooLarge", code=413):
    """The object is larger than the cluster allows."""


# Running phases


class RunCancelled(UsageError, reason="Cancelled"):
    """The run was cancelled."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled")


# The reason is the same as for a cancelled run. Only the message differs.
class RunStopped(UsageError, reason=RunCancelled.reason):
    """The run was stopped at once, without cleanup."""

    def __init__(self) -> None:
        super().__init__("The run was stopped at once, without cleanup")


class RunTimedOut(UsageError, reason="RunTimedOut"):
    """The run exceeded its timeout."""

    def __init__(self) -> None:
        super().__init__("The run did not end within its timeout")


class WaitTimedOut(UsageError, reason="WaitTimedOut"):
    """A condition that a function waited for was not met in time."""

    def __init__(self, what: str, timeout_seconds: float) -> None:
        super().__init__(
            f"Timed out after {timeout_seconds:g} s waiting for {what or 'a condition'}"
        )
        self.what = what
        self.timeout_seconds = timeout_seconds


class CommandFailed(UsageError, reason="CommandFailed"):
    """A command in a container failed.

    `outputs` are outputs that remain valid. Most functions have none.
    """

    def __init__(
        self, message: str, exit_code: int | None = None, outputs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.outputs = dict(outputs or {})


class ObjectNotFetched(UsageError, reason="ObjectNotFetched"):
    """The object of an action cannot be read."""


# State folders and journals


class JournalUnwritable(TransientError, reason="JournalUnwritable"):
    """The journal of a run cannot be written, so the run cannot continue."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"Cannot write {file}: {why}; the run stops here")
        self.file = file
        self.why = why


# The controller


class LeadershipLost(TransientError, reason="LeadershipLost"):
    """This process lost its Lease, so another one may be active."""

    def __init__(self, why: str = "") -> None:
        more = f": {why}" if why else "; another process has taken over"
        super().__init__(f"This process is not the leader any more{more}")


# Calls of composition functions


class CertificatesUnreadable(Unusable, reason="CertificatesUnreadable"):
    """The certificates of a server or a client cannot be read or used."""

    wording = "Certificates in {what} cannot be used: {why}"
