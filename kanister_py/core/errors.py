"""Every failure a user can meet, grouped by who can do something about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple


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


class Problem(NamedTuple):
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
        return self._replace(file=file)

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
        super().__init__(f"Plugin {plugin} is broken: {why}")
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


class FunctionOfAnotherKind(UsageError):
    """A blueprint names a function of compositions, or the other way round."""

    reason = "FunctionOfAnotherKind"

    def __init__(self, function: str, found: str, wanted: str) -> None:
        super().__init__(f"Function {function} is for {found}, not for {wanted}")
        self.function = function
        self.found = found
        self.wanted = wanted


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


class FunctionCapabilityMissing(UsageError):
    """A step would call a revision whose package is made for something else."""

    reason = "MissingCapabilities"

    def __init__(
        self,
        function: str,
        revision: str,
        wanted: str,
        capabilities: Sequence[str],
        others: Sequence[str],
    ) -> None:
        named = f"name {' or '.join(others)} in functionRevisionRef, or " if others else ""
        super().__init__(
            f"Active revision {revision} of function {function} is made for "
            f"{', '.join(sorted(capabilities))}, not for {wanted}; {named}install a package "
            f"of it whose spec.capabilities lists {wanted}"
        )
        self.function = function
        self.revision = revision
        self.wanted = wanted
        self.capabilities = tuple(capabilities)
        self.others = tuple(others)


# The cluster and its objects


class Cause(NamedTuple):
    """One field that the cluster refuses, and why; `reason` as Kubernetes names it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiError(KanisterError):
    """What a cluster answers when it does not do what it was asked.

    `reason` and `code` are Kubernetes' own, the message is worded as the API
    server words it. Stands beside one of the three groups, never alone.
    """

    reason = "Unknown"
    code: ClassVar[int] = 500

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


class NotFound(ApiError, UsageError):
    """There is no object of this name."""

    reason = "NotFound"
    code = 404


class NoMatch(NotFound):
    """The cluster does not know this kind or resource at all."""

    reason = "NoKindMatch"


class AlreadyExists(ApiError, UsageError):
    """An object of this name is there already."""

    reason = "AlreadyExists"
    code = 409


class Conflict(TransientApiError):
    """The object has changed since it was read: read it again and decide anew."""

    reason = "Conflict"
    code = 409


class ApplyConflict(ApiError, UsageError):
    """Fields to be applied belong to other field managers, and force was not asked for.

    `conflicts` are pairs of manager and path of the field.
    """

    reason = "Conflict"
    code = 409

    def __init__(
        self, conflicts: Sequence[tuple[str, str]], *, resource: str = "", name: str = ""
    ) -> None:
        found = sorted(conflicts)
        managers = dict.fromkeys(manager for manager, _ in found)
        told = "; ".join(
            f'conflict with "{manager}": '
            + ", ".join(path for owner, path in found if owner == manager)
            for manager in managers
        )
        count = f"{len(found)} conflict{'s' if len(found) != 1 else ''}"
        causes = [
            Cause(path, f'conflict with "{manager}"', "FieldManagerConflict")
            for manager, path in found
        ]
        super().__init__(
            f"Apply failed with {count}: {told}", resource=resource, name=name, causes=causes
        )
        self.conflicts = tuple(found)


class Invalid(ApiError, UsageError):
    """The object breaks rules of its kind; `causes` holds every one, with its path."""

    reason = "Invalid"
    code = 422


class BadRequest(ApiError, UsageError):
    """The request itself makes no sense to the cluster."""

    reason = "BadRequest"
    code = 400


class Forbidden(ApiError, UsageError):
    """The cluster does not let us do it."""

    reason = "Forbidden"
    code = 403


class Unauthorized(ApiError, UsageError):
    """The cluster does not know who we are."""

    reason = "Unauthorized"
    code = 401


class MethodNotAllowed(ApiError, UsageError):
    """This kind does not offer this operation."""

    reason = "MethodNotAllowed"
    code = 405


class UnsupportedMediaType(ApiError, UsageError):
    """This kind does not take this form of patch."""

    reason = "UnsupportedMediaType"
    code = 415


class Expired(TransientApiError):
    """The point asked for is no longer in the cluster's history: list again, then watch."""

    reason = "Expired"
    code = 410


class TooManyRequests(TransientApiError):
    """The cluster asks us to slow down."""

    reason = "TooManyRequests"
    code = 429


class ClusterUnavailable(TransientApiError):
    """The cluster could not be reached, or broke off."""

    reason = "ServiceUnavailable"
    code = 503


class StreamLost(TransientApiError):
    """A stream of logs or of a command ended before its end was told."""

    reason = "StreamLost"
    code = 502


class PodsNotRun(UsageError):
    """Somebody waits for a pod on a cluster that records pods but runs none."""

    reason = "PodsNotRun"

    def __init__(self, pod: str, namespace: str) -> None:
        super().__init__(
            f"Pod {namespace}/{pod} is recorded only: nothing runs pods here; "
            "use --pods=processes or a real cluster"
        )
        self.pod = pod
        self.namespace = namespace


class StateNotReadable(UsageError):
    """A saved state of a cluster was written by a version that this one does not understand."""

    reason = "StateNotReadable"

    def __init__(self, found: object, wanted: str) -> None:
        super().__init__(f"The saved state has format {found!r}; this version reads {wanted!r}")
        self.found = found
        self.wanted = wanted


# Reading what objects say


class InvalidPath(UsageError):
    """A text that should lead to a field leads nowhere at all."""

    reason = "InvalidPath"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r} is not a path to a field: {why}")
        self.path = path
        self.why = why


class PathNotFound(UsageError):
    """An object has no field at a path; `at` is how far the path could be followed."""

    reason = "PathNotFound"

    def __init__(self, path: str, at: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.at = at
        self.why = why


class InvalidJSONPath(UsageError):
    """A JSONPath expression cannot be parsed or followed."""

    reason = "InvalidJSONPath"

    def __init__(self, expression: str, why: str) -> None:
        super().__init__(why)
        self.expression = expression
        self.why = why


class InvalidSelector(UsageError):
    """A text that should be a selector is none."""

    reason = "InvalidSelector"

    def __init__(self, selector: str, why: str) -> None:
        super().__init__(f"Unable to parse selector {selector!r}: {why}")
        self.selector = selector
        self.why = why


class InvalidQuantity(UsageError):
    """A text that should be an amount of something is none."""

    reason = "InvalidQuantity"

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text!r} is not a quantity: {why}")
        self.text = text
        self.why = why


class InvalidDuration(UsageError):
    """A text that should be a duration is none; the message is Go's."""

    reason = "InvalidDuration"

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"time: {why}")
        self.text = text
        self.why = why


class InvalidPatch(UsageError):
    """A patch cannot be applied to the object it is meant for."""

    reason = "InvalidPatch"


# Pods as processes, and what commands print


class OutputUnreadable(UsageError):
    """A command printed a line that claims to be an output and is none."""

    reason = "OutputUnreadable"

    def __init__(self, why: str) -> None:
        super().__init__(f"Failed to unmarshal key-value pair: {why}")
        self.why = why


class OutputTooLarge(UsageError):
    """A command printed more output than the status of an ActionSet can hold."""

    reason = "OutputTooLarge"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"Outputs hold more than {limit_bytes // 1024} KiB: "
            "keep the data elsewhere, and make its place the output"
        )
        self.limit_bytes = limit_bytes


class MountsUnavailable(UsageError):
    """A pod has mounts, and this machine has no namespaces to make them in."""

    reason = "MountsUnavailable"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Volumes cannot be mounted: {why}; use Linux with user namespaces, or a real cluster"
        )
        self.why = why


class HostPathRefused(UsageError):
    """A pod asks for a folder of this machine, and nobody allowed that."""

    reason = "HostPathRefused"

    def __init__(self, volume: str, path: str) -> None:
        super().__init__(
            f"Volume {volume} is {path} of this machine; "
            "pods as processes get no hostPath unless it is allowed"
        )
        self.volume = volume
        self.path = path


class VolumeNotSupported(UsageError):
    """A volume is of a kind that only a real node has."""

    reason = "VolumeNotSupported"

    def __init__(self, volume: str, kind: str) -> None:
        super().__init__(
            f"Volume {volume} is of kind {kind}; pods as processes have emptyDir, "
            "persistentVolumeClaim, configMap, secret, projected and downwardAPI"
        )
        self.volume = volume
        self.kind = kind


class VolumeUnavailable(TransientError):
    """A volume of a pod is not there, or not yet."""

    reason = "FailedMount"


class ContainerConfigError(TransientError):
    """What a container's environment refers to is not there, or not yet."""

    reason = "CreateContainerConfigError"


class ProcessesUnavailable(UsageError):
    """Processes for pods cannot be started on this machine at all."""

    reason = "ProcessesUnavailable"

    def __init__(self, why: str) -> None:
        super().__init__(f"Pods cannot run as processes here: {why}")
        self.why = why


# Templates


class TemplateError(UsageError):
    """A template cannot be parsed or carried out.

    The message is Go's own, for Go templates. `line` counts from one; `column` is
    Go's: bytes from zero, and -1 where Go does not say it.
    """

    reason = "TemplateError"

    def __init__(self, message: str, name: str = "", line: int = 0, column: int = -1) -> None:
        super().__init__(message)
        self.name = name
        self.line = line
        self.column = column


class TemplateParseError(TemplateError):
    """A text is no template."""

    reason = "TemplateParseError"


class TemplateExecError(TemplateError):
    """A template fails over the data it was given.

    `context` is the part of the template that failed, `why` what failed there
    without the place.
    """

    reason = "TemplateExecError"

    def __init__(
        self, message: str, name: str, line: int, column: int, context: str, why: str
    ) -> None:
        super().__init__(message, name, line, column)
        self.context = context
        self.why = why


class TemplateKeyMissing(TemplateExecError):
    """A template reads a key that a map has not."""

    reason = "TemplateKeyMissing"

    def __init__(
        self, message: str, name: str, line: int, column: int, context: str, key: str
    ) -> None:
        super().__init__(message, name, line, column, context, f'map has no entry for key "{key}"')
        self.key = key


class TemplateLimitExceeded(TemplateError):
    """A template was stopped because it did too much.

    `limit` is what it ran into: steps, size or depth.
    """

    reason = "TemplateLimitExceeded"

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(f"The template was stopped: {why}")
        self.limit = limit


# Params, args and the engines that render them


class InvalidObjectReference(UsageError):
    """A reference to an object says too little about where the object is."""

    reason = "InvalidObjectReference"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"Object {name or 'without a name'} of kind {kind!r} cannot be found: "
            "give apiVersion and resource (and group, unless it is a core resource), "
            "or a kind that is known: StatefulSet, Deployment, DeploymentConfig, PVC, Namespace"
        )
        self.kind = kind
        self.name = name


class InvalidProfile(UsageError):
    """A Profile, or a Secret it refers to, is not what a location is opened with."""

    reason = "InvalidProfile"


class UnknownTemplateEngine(UsageError):
    """A blueprint asks for its templates to be read in a language we do not have."""

    reason = "UnknownTemplateEngine"

    def __init__(self, engine: str, known: Sequence[str]) -> None:
        super().__init__(f"Template engine {engine!r} is not known; there are {', '.join(known)}")
        self.engine = engine
        self.known = tuple(known)


class TemplateUndefined(TemplateExecError):
    """A Jinja2 template uses something that is not there; `why` names it."""

    reason = "TemplateUndefined"


class RenderFailed(UsageError):
    """A template of a blueprint cannot be rendered.

    The message is Kanister's. `path` is where the template stands below what was
    rendered, `line` and `column` the place inside it, `cause` what its engine said.
    """

    reason = "RenderFailed"

    def __init__(self, message: str, path: str, cause: TemplateError) -> None:
        super().__init__(message)
        self.path = path
        self.cause = cause
        self.line = cause.line
        self.column = cause.column


class ArgProblem(NamedTuple):
    """One thing that is wrong with one arg: where, what was wanted, and what was found there.

    `kind` is missing, unknown or type. Of a missing or unknown arg, `wanted` and
    `found` say nothing.
    """

    path: str
    message: str
    kind: str
    wanted: str = ""
    found: str = ""

    def __str__(self) -> str:
        return self.message


class InvalidArgs(UsageError):
    """The args of a phase are not what its function takes; holds every problem."""

    reason = "InvalidArgs"

    def __init__(self, function: str, problems: Sequence[ArgProblem]) -> None:
        self.function = function
        self.problems = tuple(problems)
        told = "; ".join(problem.message for problem in self.problems)
        super().__init__(f"Args of {function or 'the function'} are refused: {told}")


# Running phases


class RunCancelled(UsageError):
    """Somebody asked for the end of the run."""

    reason = "Cancelled"

    def __init__(self) -> None:
        super().__init__("The run was cancelled")


class RunStopped(UsageError):
    """Somebody could not wait for the end of the run."""

    # To machines it was cancelled; what is said tells people the difference.
    reason = RunCancelled.reason

    def __init__(self) -> None:
        super().__init__("The run was stopped at once; nothing was tidied up")


class RunTimedOut(UsageError):
    """A run took longer than it was given."""

    reason = "RunTimedOut"

    def __init__(self) -> None:
        super().__init__("The run did not end within its timeout")


class PhaseTimedOut(UsageError):
    """A phase took longer than its `timeout` allows."""

    reason = "PhaseTimedOut"

    def __init__(self, phase: str, timeout: str) -> None:
        super().__init__(f"Phase {phase} did not end within its timeout of {timeout}")
        self.phase = phase
        self.timeout = timeout


class WaitTimedOut(UsageError):
    """Something that a function waited for did not come in time."""

    reason = "WaitTimedOut"

    def __init__(self, what: str, timeout_seconds: float) -> None:
        super().__init__(f"Waited {timeout_seconds:g} s for {what or 'a condition'}, in vain")
        self.what = what
        self.timeout_seconds = timeout_seconds


class PhaseInterrupted(UsageError):
    """A phase was under way when its process died, and cannot be taken up again."""

    reason = "Interrupted"

    def __init__(self, function: str) -> None:
        super().__init__(
            f"The process that ran {function} died, and nobody knows how far it came; "
            "retry with `on: [Interrupted]` if it is safe to do twice"
        )
        self.function = function


class CommandFailed(UsageError):
    """A command in a container ended with something else than zero.

    `outputs` are those that count all the same; of most functions, none do.
    """

    reason = "CommandFailed"

    def __init__(
        self,
        message: str,
        exit_code: int | None = None,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.outputs = dict(outputs or {})


class FunctionFailed(UsageError):
    """A function raised something that is none of our errors."""

    reason = "FunctionFailed"

    def __init__(self, function: str, why: str) -> None:
        super().__init__(f"{function}: {why}")
        self.function = function
        self.why = why


class ActionNotFound(UsageError):
    """An ActionSet names an action that its blueprint has not."""

    reason = "ActionNotFound"

    def __init__(self, action: str, kind: str, blueprint: str, known: Sequence[str] = ()) -> None:
        there = f"; it has {', '.join(known)}" if known else ""
        super().__init__(
            f"Action {action} for object kind {kind} not found in blueprint {blueprint}{there}"
        )
        self.action = action
        self.blueprint = blueprint
        self.known = tuple(known)


class ObjectNotFetched(UsageError):
    """The object that an action acts on cannot be read."""

    reason = "ObjectNotFetched"


class FunctionNotYetHere(UsageError):
    """A function of the original that this release does not offer yet."""

    reason = "FunctionNotYetHere"

    def __init__(self, function: str) -> None:
        super().__init__(f"Function {function} is not in this release yet")
        self.function = function


class InvalidReference(UsageError):
    """A word that should lead to an object leads nowhere."""

    reason = "InvalidReference"

    def __init__(self, text: str, why: str, forms: str) -> None:
        super().__init__(f"{text!r} leads to no object: {why}; write {forms}")
        self.text = text
        self.why = why


class NoArtifacts(UsageError):
    """The artifacts of a run are asked for that has not made any."""

    reason = "NoArtifacts"

    def __init__(self, run: str, state: str) -> None:
        super().__init__(
            f"Run {run} is {state}, and left no artifacts: only a run that is complete does"
        )
        self.run = run
        self.state = state


class NothingToRetry(UsageError):
    """A run cannot be taken up where somebody asked for it."""

    reason = "NothingToRetry"

    def __init__(self, run: str, phase: str) -> None:
        super().__init__(
            f"Run {run} cannot start over from phase {phase}: no action has such a phase, "
            "or one before it is not complete"
        )
        self.run = run
        self.phase = phase


# State folders and journals


class StateFolderInUse(UsageError):
    """Another run works in this state folder."""

    reason = "StateFolderInUse"

    def __init__(self, folder: str, holder: str) -> None:
        by = f" by {holder}" if holder else ""
        super().__init__(f"State folder {folder} is in use{by}; wait for it, or take another one")
        self.folder = folder
        self.holder = holder


class StateFolderUnreadable(UsageError):
    """A state folder is of another version, damaged, or none at all."""

    reason = "StateFolderUnreadable"

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(f"State folder {folder} cannot be used: {why}")
        self.folder = folder
        self.why = why


class RunNotFound(UsageError):
    """A state folder holds no run of this name."""

    reason = "RunNotFound"

    def __init__(self, run: str, folder: str, known: Sequence[str] = ()) -> None:
        there = f"; there are {', '.join(known)}" if known else "; there are none"
        super().__init__(f"No run {run} in {folder}{there}")
        self.run = run
        self.known = tuple(known)


class JournalUnwritable(TransientError):
    """The journal of a run cannot be written, so the run cannot go on."""

    reason = "JournalUnwritable"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"Cannot write {file}: {why}; the run stops here")
        self.file = file
        self.why = why


# What a command line names


class UnknownDistribution(UsageError):
    """No installed package of this name brings functions."""

    reason = "UnknownDistribution"

    def __init__(self, package: str, near: Sequence[str], known: Sequence[str]) -> None:
        meant = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"there are {', '.join(sorted(known))}"
        )
        super().__init__(f"No package {package} brings functions; {meant}")
        self.package = package
        self.near = tuple(near)
        self.known = tuple(known)


# The HTTP endpoint


class AddressUnavailable(UsageError):
    """The address to listen on is taken, or is none of this machine's."""

    reason = "AddressUnavailable"

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"Cannot listen on {host} port {port}: {why}; choose another --host or --port"
        )
        self.host = host
        self.port = port
        self.why = why


# Pods of functions


class PodNotReady(UsageError):
    """A pod did not come to run, or cannot."""

    reason = "PodNotReady"


class PodFailed(UsageError):
    """A pod ended, and no command in it is to blame."""

    reason = "PodFailed"


class PodGone(UsageError):
    """Somebody deleted a pod that a function was following."""

    reason = "PodGone"

    def __init__(self, namespace: str, pod: str) -> None:
        super().__init__(f"Pod {namespace}/{pod} was deleted before its command had ended")
        self.namespace = namespace
        self.pod = pod


class VolumesNotFound(UsageError):
    """A function needs volumes, and neither its args nor the object of the action name any."""

    reason = "VolumesNotFound"

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; name them in `volumes`")


class CommandLost(UsageError):
    """The connection to a command broke off; nobody knows whether it ended, and how."""

    reason = "StreamLost"

    def __init__(self, container: str) -> None:
        super().__init__(
            f"Failed to exec command in pod: the connection to {container} broke before the "
            "command ended; retry with `on: [StreamLost]` if it is safe to do twice"
        )
        self.container = container


# Functions that act on the API


class InvalidOperation(UsageError):
    """A function is asked for an operation that it does not know."""

    reason = "InvalidOperation"

    def __init__(self, operation: str, known: Sequence[str]) -> None:
        super().__init__(f"Invalid operation '{operation}'; use {', '.join(known)}")
        self.operation = operation
        self.known = tuple(known)


class IncompleteOperation(UsageError):
    """A function is told too little for what it is asked to do."""

    reason = "IncompleteOperation"

    def __init__(self, operation: str, missing: Sequence[str]) -> None:
        super().__init__(f"Operation {operation} needs {', '.join(missing)}")
        self.operation = operation
        self.missing = tuple(missing)


class WorkloadNotKnown(UsageError):
    """Nobody says which workload is meant."""

    reason = "WorkloadNotKnown"

    def __init__(self) -> None:
        super().__init__(
            "Workload information not available via defaults or namespace/name/kind parameters"
        )


class WorkloadNotSupported(UsageError):
    """A workload is of a kind that cannot be scaled."""

    reason = "WorkloadNotSupported"

    def __init__(self, kind: str, known: Sequence[str]) -> None:
        super().__init__(f"Workload type not supported {kind}; use {', '.join(known)}")
        self.kind = kind


class WorkloadNotReady(WaitTimedOut):
    """A workload did not get the pods it shall have in time."""

    def __init__(self, workload: str, why: str, timeout_seconds: float) -> None:
        super().__init__(f"the pods of {workload}", timeout_seconds)
        self.args = (f"{self}: {why}",)
        self.why = why


class ConditionNotMet(WaitTimedOut):
    """Objects were not as a blueprint waited for them to be; `why` says what kept the last look."""

    def __init__(self, why: str, timeout_seconds: float) -> None:
        super().__init__("the condition to be met", timeout_seconds)
        first = f"{why}: " if why else ""
        self.args = (
            f"{first}Failed to wait for the condition to be met within {timeout_seconds:g} s",
        )
        self.why = why


class SnapshotFailed(UsageError):
    """The storage says that it could not take a snapshot."""

    reason = "SnapshotFailed"

    def __init__(self, snapshot: str, namespace: str, why: str) -> None:
        super().__init__(f"Snapshot {namespace}/{snapshot} failed: {why}")
        self.snapshot = snapshot
        self.why = why


class InvalidRequest(UsageError):
    """A request cannot be sent, or may not be sent where it should go."""

    reason = "InvalidRequest"


class RequestFailed(TransientError):
    """Nobody answered a request."""

    reason = "RequestFailed"

    def __init__(self, request: str, why: str) -> None:
        super().__init__(f"{request}: {why}")
        self.request = request
        self.why = why


class UnexpectedStatus(UsageError):
    """A request was answered otherwise than expected."""

    reason = "UnexpectedStatus"

    def __init__(self, request: str, status: int, body: str) -> None:
        super().__init__(f"{request}: answered with {status}{f': {body}' if body else ''}")
        self.request = request
        self.status = status


class ServiceNotReady(TransientError):
    """A request was answered otherwise than expected, and may be answered so soon."""

    reason = "UnexpectedStatus"

    def __init__(self, request: str, status: int, body: str, delay_seconds: float) -> None:
        told = f"{request}: answered with {status}{f': {body}' if body else ''}"
        super().__init__(told, delay_seconds)
        self.request = request
        self.status = status


class ResponseTooLarge(UsageError):
    """An answer holds more than anybody wants to keep in memory."""

    reason = "ResponseTooLarge"

    def __init__(self, request: str, limit_bytes: int) -> None:
        super().__init__(f"{request}: the answer has more than {limit_bytes // 1024} KiB")
        self.limit_bytes = limit_bytes


class OutputNotInResponse(UsageError):
    """An answer has nothing where an output is looked for."""

    reason = "OutputNotInResponse"

    def __init__(self, output: str, path: str, why: str) -> None:
        super().__init__(f"Output {output}: the answer has nothing at {path}: {why}")
        self.output = output
        self.path = path
        self.why = why


# A cluster behind a network


class InternalError(TransientApiError):
    """The cluster failed at something of its own, such as a webhook or its store."""

    reason = "InternalError"
    code = 500


class RequestTimeout(TransientApiError):
    """The cluster did not get it done in its time; whether it was done is not known."""

    reason = "Timeout"
    code = 504


class RequestTooLarge(ApiError, UsageError):
    """The object is larger than the cluster takes."""

    reason = "RequestEntityTooLarge"
    code = 413


class ServerNotTrusted(ApiError, UsageError):
    """Whoever answers under the cluster's address cannot prove to be the cluster."""

    reason = "ServerNotTrusted"
    code = 495


class ClusterConfigInvalid(UsageError):
    """What should say how to reach a cluster does not."""

    reason = "ClusterConfigInvalid"

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"No cluster can be reached by {source}: {why}")
        self.source = source
        self.why = why


# The pipeline of a composition


class CompositionMismatch(UsageError):
    """A composition is not meant for the composite resource it is given with."""

    reason = "CompositionMismatch"

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PipelineStepFailed(KanisterError):
    """A step of a pipeline brought no answer. Stands beside one of the three groups."""

    reason = "PipelineStepFailed"

    def __init__(self, step: str, function: str, revision: str, cause: KanisterError) -> None:
        why = cause.why if isinstance(cause, FunctionCallError) else cause.message
        message = f'cannot run Composition pipeline step "{step}": {why}'
        super().__init__(message + _blamed(function, revision))
        self.step = step
        self.function = function
        self.revision = revision
        self.cause = cause


class PipelineStepRefused(PipelineStepFailed, UsageError):
    """A step fails until somebody changes its input, its function or its surroundings."""


class PipelineStepUnavailable(PipelineStepFailed, TransientError):
    """A step fails for the moment."""

    def __init__(self, step: str, function: str, revision: str, cause: KanisterError) -> None:
        super().__init__(step, function, revision, cause)
        self.delay_seconds = cause.delay_seconds if isinstance(cause, TransientError) else 0.0


class PipelineStepBroken(PipelineStepFailed, Fault):
    """A step fails by our own fault."""


def _blamed(function: str, revision: str, path: str = "") -> str:
    """Name who is to blame, as far as it is known, at the end of a message."""
    told = [f"function {function}"] if function else []
    if revision:
        told.append(f"revision {revision}")
    if path:
        told.append(f"path {path}")
    return f" ({', '.join(told)})" if told else ""


class PipelineFatal(UsageError):
    """A function says itself that the pipeline must not go on."""

    reason = "PipelineFatal"

    def __init__(self, step: str, function: str, revision: str, said: str) -> None:
        message = f'pipeline step "{step}" returned a fatal result: {said}'
        super().__init__(message + _blamed(function, revision))
        self.step = step
        self.function = function
        self.revision = revision
        self.said = said


class RequirementsUnsettled(UsageError):
    """A function asks for something else in every round."""

    reason = "RequirementsUnsettled"

    def __init__(self, rounds: int, asked: Sequence[str], said: Sequence[str] = ()) -> None:
        told = "; ".join(
            f"{when} it asked for {what}"
            for when, what in zip(
                ("in the round before the last", "in the last"), asked, strict=False
            )
        )
        message = (
            "requirements didn't stabilize after the maximum number of iterations "
            f"({rounds}): {told}"
        )
        if said:
            message += f"; it said: {'; '.join(said)}"
        super().__init__(message)
        self.rounds = rounds
        self.asked = tuple(asked)
        self.said = tuple(said)


class RequirementRefused(UsageError):
    """A step's function asks for a resource that the composition does not let it see."""

    reason = "RequirementRefused"

    def __init__(self, requirement: str, selector: str, allowed: Sequence[str] | None) -> None:
        if allowed is None:
            hint = "Secrets are given only to steps whose allowedExtraResources name them"
        else:
            hint = f"allowedExtraResources has {'; '.join(allowed) or 'nothing'}"
        super().__init__(f"it may not ask for {selector} (requirement {requirement}): {hint}")
        self.requirement = requirement
        self.selector = selector
        self.allowed = None if allowed is None else tuple(allowed)


class CredentialMissing(UsageError):
    """The Secret that a step's credentials name is not there."""

    reason = "CredentialMissing"

    def __init__(self, step: str, credential: str, secret: str, function: str) -> None:
        super().__init__(
            f'cannot get Composition pipeline step "{step}" credential "{credential}" from Secret: '
            f"there is no Secret {secret}" + _blamed(function, "")
        )
        self.step = step
        self.credential = credential
        self.secret = secret


class ComposedResourceRefused(UsageError):
    """A desired state holds a resource that no cluster could take."""

    reason = "ComposedResourceRefused"

    def __init__(self, message: str, *, resource: str, path: str, place: Sequence[str]) -> None:
        self.step, self.function, self.revision = (*place, "", "", "")[:3]
        at = f"desired.resources[{resource}].{path}"
        by = f"; it comes from pipeline step {self.step}" if self.step else ""
        super().__init__(message + by + _blamed(self.function, self.revision, at))
        self.resource = resource
        self.path = at


class ObservedResourceRefused(UsageError):
    """An observed resource does not say which composed resource it is, or belongs to others."""

    reason = "ObservedResourceRefused"


class DeletionRefused(UsageError):
    """A composed resource is no longer desired, and belongs to somebody else."""

    reason = "DeletionRefused"

    def __init__(self, resource: str, owner: str) -> None:
        super().__init__(
            "cannot garbage collect composed resources that are no longer desired: refusing to "
            f'delete composed resource "{resource}" that is controlled by {owner}'
        )
        self.resource = resource
        self.owner = owner


class FunctionRuntimeUnavailable(UsageError):
    """A function is to run in a way that this machine does not offer."""

    reason = "FunctionRuntimeUnavailable"

    def __init__(self, function: str, why: str) -> None:
        super().__init__(
            f"Function {function} cannot be run: {why}; annotate it with "
            "render.crossplane.io/runtime: Development and a "
            "render.crossplane.io/runtime-development-target, with Process and a "
            "kanister-py.io/runtime-command, with Python and a kanister-py.io/runtime-entry-point "
            "(module:Class), or use a function that is built in"
        )
        self.function = function
        self.why = why


class ExpectationsFailed(UsageError):
    """What was composed is not what a suite of tests expects."""

    reason = "ExpectationsFailed"


# Compositions and their revisions


def _selected(labels: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{key}={labels[key]}" for key in sorted(labels))
    return f" with the labels {pairs}" if pairs else ""


class CompositionNotSelected(UsageError):
    """No Composition is there for a kind of composite resource."""

    reason = "CompositionNotSelected"

    def __init__(self, kind: str, labels: Mapping[str, str], others: Sequence[str]) -> None:
        found = f"; without them there is {', '.join(sorted(others))}" if others else ""
        super().__init__(f"No Composition for {kind}{_selected(labels)}{found}")
        self.kind = kind
        self.labels = dict(labels)
        self.others = tuple(others)


class CompositionNotCompatible(UsageError):
    """A Composition is meant for another kind than the resource that names it."""

    reason = "CompositionNotCompatible"

    def __init__(
        self, composition: str, api_version: str, kind: str, of_api_version: str, of_kind: str
    ) -> None:
        super().__init__(
            f"Composition {composition} is for {api_version} {kind}, not for "
            f"{of_api_version} {of_kind}"
        )
        self.composition = composition


class CompositionRevisionNotFound(UsageError):
    """No revision of a Composition is what a composite resource asks for."""

    reason = "CompositionRevisionNotFound"

    def __init__(
        self,
        composition: str,
        labels: Mapping[str, str],
        others: Sequence[str],
        name: str = "",
    ) -> None:
        nothing = ": there is no such Composition, or its first revision is still to be made"
        found = f": there is {', '.join(others)}" if others else nothing
        asked = f" called {name}" if name else _selected(labels)
        super().__init__(f"Composition {composition} has no revision{asked}{found}")
        self.composition = composition
        self.labels = dict(labels)
        self.others = tuple(others)
        self.name = name


class RevisionOfAnotherComposition(UsageError):
    """A composite resource holds a revision that is not of its Composition."""

    reason = "RevisionOfAnotherComposition"

    def __init__(self, revision: str, its_composition: str, composition: str) -> None:
        super().__init__(
            f"compositionRevisionRef names {revision}, a revision of {its_composition}, but the "
            f"composition is {composition}; name one of its revisions, or remove the reference"
        )
        self.revision = revision
        self.its_composition = its_composition
        self.composition = composition


# The controller


class AnotherController(UsageError):
    """Somebody else acts on the same objects already, and two would run everything twice."""

    reason = "AnotherController"

    def __init__(self, who: str, what_to_do: str) -> None:
        super().__init__(f"{who} acts on the same objects; {what_to_do}")
        self.who = who


class LeadershipLost(TransientError):
    """This process may not act any more: another one may have taken over."""

    reason = "LeadershipLost"

    def __init__(self, why: str = "") -> None:
        more = f": {why}" if why else "; another one goes on"
        super().__init__(f"This process is not the leader any more{more}")


class StatusOvertaken(TransientError):
    """Somebody else has written the status of an ActionSet that runs here."""

    reason = "StatusOvertaken"

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(
            f"Somebody else has written the status of ActionSet {namespace}/{name}; "
            "it goes on from what stands there now"
        )


class StatusUnreadable(UsageError):
    """The status of an ActionSet is not what a status looks like."""

    reason = "StatusUnreadable"

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(
            f"status: What stands there cannot be read as the status of an ActionSet; "
            f"create {namespace}/{name} anew, without one"
        )


class BlueprintNotFound(UsageError):
    """An ActionSet names a Blueprint that is not there, or none at all."""

    reason = "BlueprintNotFound"

    def __init__(self, path: str, name: str, namespace: str, why: str) -> None:
        where = f" in namespace {namespace}" if namespace else ""
        super().__init__(f"{path}: Blueprint {name or '(none)'}{where}: {why}")
        self.path = path
        self.name = name
        self.namespace = namespace


class BlueprintChanged(UsageError):
    """A Blueprint is no longer what a run that is to be taken up began with."""

    reason = "BlueprintChanged"

    def __init__(self, action: str, blueprint: str) -> None:
        super().__init__(
            f"Action {action} was under way, and Blueprint {blueprint} has other phases now: "
            "it cannot be taken up"
        )
        self.action = action
        self.blueprint = blueprint


class BegunElsewhere(UsageError):
    """A run was under way in a controller that leaves no trace of how far it was."""

    reason = "Interrupted"

    def __init__(self) -> None:
        super().__init__(
            "The run was under way in another controller, which is gone and has not left "
            "behind how far it was; create the ActionSet anew"
        )


# Field paths of compositions. What these say is part of what functions answer on the
# wire, word for word: they begin with the path, small letters included.


class FieldPathError(UsageError):
    """A field path of a composition cannot be read, or not be followed in an object."""

    reason = "FieldPathInvalid"


class FieldNotFound(FieldPathError):
    """A field path leads to where nothing is; there may be something later."""

    reason = "FieldNotFound"


# Certificates


class AuthorityUnusable(UsageError):
    """A Secret holds a certificate to sign with whose key is another's or missing."""

    reason = "AuthorityUnusable"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Secret {name} holds an authority that cannot sign: tls.crt and tls.key do not "
            "belong together; put the right key there, or delete the Secret to get a new authority"
        )
        self.name = name


# Calls of composition functions


class FunctionCallError(KanisterError):
    """A call of a composition function brought no answer; says which step asked which revision."""

    reason = "FunctionCallFailed"

    def __init__(self, step: str, function: str, revision: str, why: str) -> None:
        at = f"Step {step}: function {function}" if step else f"Function {function}"
        called = f", revision {revision}" if revision and revision != function else ""
        super().__init__(f"{at}{called}: {why}")
        self.step = step
        self.function = function
        self.revision = revision
        self.why = why
        # Every group of errors may stand beside this one; the time to wait is not known.
        self.delay_seconds = 0.0


class FunctionUnavailable(FunctionCallError, TransientError):
    """Nobody answers where the function should be, or the connection broke off."""

    reason = "FunctionUnavailable"


class FunctionOverloaded(FunctionCallError, TransientError):
    """The function says that it has no room for the call."""

    reason = "FunctionOverloaded"


class FunctionTimedOut(FunctionCallError, TransientError):
    """The function did not answer in its time."""

    reason = "FunctionTimedOut"


class FunctionCertificateRefused(FunctionCallError, UsageError):
    """One side of a connection does not take the other's certificate."""

    reason = "FunctionCertificateRefused"


class FunctionAnswerTooLarge(FunctionCallError, UsageError):
    """A request or an answer is larger than was allowed."""

    reason = "FunctionAnswerTooLarge"


class FunctionAnswerInvalid(FunctionCallError, UsageError):
    """What came back is no response."""

    reason = "FunctionAnswerInvalid"


class FunctionRequestInvalid(FunctionCallError, UsageError):
    """What should be sent cannot be written as a request."""

    reason = "FunctionRequestInvalid"


class FunctionCallFailed(FunctionCallError, UsageError):
    """The function failed, and says why, or died."""

    reason = "FunctionCallFailed"


class FunctionNotServed(FunctionCallError, UsageError):
    """Where a function should be is something else, or an address that nobody can read."""

    reason = "FunctionNotServed"


class InvalidFunctionInput(UsageError):
    """The input of a step is not what its function takes."""

    reason = "InvalidFunctionInput"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"The input of the step is refused: {'; '.join(problems)}")
        self.problems = tuple(problems)


class InvalidResponse(UsageError):
    """A function was about to answer what no response can say."""

    reason = "InvalidResponse"


class CertificatesUnreadable(UsageError):
    """The certificates of a server or a client cannot be read or used."""

    reason = "CertificatesUnreadable"

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(f"Certificates in {folder} cannot be used: {why}")
        self.folder = folder
        self.why = why


class InvalidTarget(UsageError):
    """A text that should name a composition function names none."""

    reason = "InvalidTarget"

    def __init__(self, target: str, why: str) -> None:
        super().__init__(
            f"{target!r} is no composition function: {why}; name one of the registry "
            "(function-auto-ready), a class (module:Class), or a program (-- COMMAND)"
        )
        self.target = target
        self.why = why


# Packages of functions


class InvalidPackageReference(UsageError):
    """A text does not say where a package is."""

    reason = "InvalidPackageReference"

    def __init__(self, text: str, why: str) -> None:
        super().__init__(
            f"{text!r} is no reference to a package: {why}; write it as "
            "registry.example.org/team/function-x:v1.0.0"
        )
        self.text = text


class InvalidPackage(UsageError):
    """What was found is no package of a function."""

    reason = "InvalidPackage"

    def __init__(self, package: str, why: str) -> None:
        super().__init__(f"{package} is no package of a function: {why}")
        self.package = package
        self.why = why


class PackageNotFound(UsageError):
    """A registry does not have a package, or not for us."""

    reason = "PackageNotFound"

    def __init__(self, package: str, why: str) -> None:
        super().__init__(f"Package {package} cannot be had: {why}")
        self.package = package
        self.why = why


class RegistryUnavailable(TransientError):
    """A registry gives no answer for the moment."""

    reason = "RegistryUnavailable"

    def __init__(self, registry: str, why: str) -> None:
        super().__init__(f"Registry {registry} gives no answer: {why}")
        self.registry = registry


class FunctionFault(FunctionCallError, Fault):
    """A function of ours failed in a way that it never should."""

    reason = "Fault"


# CEL


class CelError(UsageError):
    """A CEL expression cannot be read, or says nothing about what it was given.

    `position` is the offset of the character where reading stopped, -1 for an
    expression that was read and failed later.
    """

    reason = "CelInvalid"

    def __init__(self, expression: str, why: str, position: int = -1) -> None:
        where = f" at character {position + 1}" if position >= 0 else ""
        shown = expression if len(expression) <= 200 else f"{expression[:199]}…"
        super().__init__(f"CEL expression {shown!r}: {why}{where}")
        self.expression = expression
        self.why = why
        self.position = position


class CelLimitExceeded(CelError):
    """A CEL expression does more than anybody wants to wait for."""

    reason = "CelLimitExceeded"


class FolderNotEmpty(UsageError):
    """A new project should begin where something is already."""

    reason = "FolderNotEmpty"

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is there already, and not empty; choose another --directory")
        self.folder = folder


# Composite resources on a cluster


class CompositionFailed(UsageError):
    """The pipeline of a composite resource did not come to its end."""

    reason = "CompositionFailed"

    def __init__(self, cause: KanisterError) -> None:
        super().__init__(f"cannot compose resources: {cause.message}")
        self.cause = cause


class DesiredStateEmpty(UsageError):
    """A pipeline asks for nothing at all, while there are resources that it composed."""

    reason = "DesiredStateEmpty"

    def __init__(self, observed: int, annotation: str) -> None:
        plural = "s" if observed != 1 else ""
        super().__init__(
            f"The pipeline desires no resource at all, which would delete {observed} resource"
            f"{plural}; if that is meant, annotate the Composition with {annotation}=true"
        )
        self.observed = observed


class ExtraResourcesDisabled(UsageError):
    """A function asks for objects of the cluster where none are given out."""

    reason = "ExtraResourcesDisabled"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"A function asks for {what}, and this controller gives out no extra resources; "
            "start it without --disable-extra-resources"
        )
        self.what = what


# Definitions of resources, and ActionSets on a command line


class DefinitionNotServed(TransientError):
    """A cluster took a definition, and does not serve what it defines."""

    reason = "DefinitionNotServed"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} is not served after {seconds:.0f}s; look at its conditions")
        self.name = name


class ActionSetUnclear(UsageError):
    """Not enough is said of an ActionSet for it to be made."""

    reason = "ActionSetUnclear"

    def __init__(self, what: str, what_to_do: str) -> None:
        super().__init__(f"An ActionSet with {what} does nothing; {what_to_do}")


class ActionSetIncomplete(UsageError):
    """An ActionSet is to follow one that has not come to a good end."""

    reason = "ActionSetIncomplete"

    def __init__(self, name: str, state: str) -> None:
        super().__init__(
            f"ActionSet {name} is {state}; only one that is complete has artifacts to go on from"
        )
        self.name = name
        self.state = state


class ActionSetNotFit(UsageError):
    """What an ActionSet names is not there; it would fail at once."""

    reason = "ActionSetNotFit"

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(f"{'; '.join(missing)}; --skip-validation creates it all the same")
        self.missing = tuple(missing)


class ActionSetState(UsageError):
    """Something is asked of an ActionSet that does not fit how far it is."""

    reason = "ActionSetState"

    def __init__(self, name: str, state: str, why: str) -> None:
        super().__init__(f"ActionSet {name} is {state}: {why}")
        self.name = name
        self.state = state


class ActionSetGone(UsageError):
    """Somebody deleted an ActionSet while another one waited for its end."""

    reason = "ActionSetGone"

    def __init__(self, name: str) -> None:
        super().__init__(f"ActionSet {name} was deleted before it ended")
        self.name = name


class CancelNotKept(UsageError):
    """The cluster's definition of ActionSets drops the wish to cancel one."""

    reason = "CancelNotKept"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"This cluster's definition of ActionSets knows no spec.cancel; "
            f"delete {name} instead, or install ours with kanister-py crds upgrade"
        )
        self.name = name


class PhaseLinesUnavailable(UsageError):
    """Nobody is found who could give the lines that phases printed."""

    reason = "PhaseLinesUnavailable"

    def __init__(self, why: str, what_to_do: str) -> None:
        super().__init__(f"{why}; {what_to_do}")


# Revisions on a cluster, asked about by people


class RevisionUnknown(UsageError):
    """Somebody names a revision that the cluster does not have."""

    reason = "RevisionNotFound"

    def __init__(self, name: str, there: Sequence[str]) -> None:
        shown = ", ".join(sorted(there)[:10]) or "no revision at all"
        super().__init__(f"There is no revision {name}; there is {shown}")
        self.name = name
        self.there = tuple(there)


class RevisionNotSwitched(UsageError):
    """Somebody wants a revision to serve, or not to, and that cannot last or would harm."""

    reason = "RevisionNotSwitched"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} stays as it is: {why}")
        self.name = name
        self.why = why


class NamespaceUnknown(UsageError):
    """Somebody wants to look at a namespace that the cluster does not have."""

    reason = "NamespaceNotFound"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"There is no namespace {name}{meant}")
        self.name = name
        self.near = tuple(near)


# Packages of functions that people make


class FunctionNotBuilt(UsageError):
    """No package can be made of a function as it is."""

    reason = "FunctionNotBuilt"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"No package can be made of {what}: {why}")
        self.what = what
        self.why = why


class InvalidDockerConfig(UsageError):
    """The file in which container tools keep their logins says nothing that can be read."""

    reason = "InvalidDockerConfig"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why
