"""Choice of a function version (for phases) or a function revision (for pipeline steps).

Both filter the candidates of a function in order of rank, and can explain their result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kanister_py.core.errors import FunctionVersionNotFound, FunctionVersionRemoved, UsageError
from kanister_py.core.kube.selectors import LabelSelector
from kanister_py.core.notices import Notice, Severity
from kanister_py.core.registry.entries import (
    Candidate,
    DesiredState,
    Family,
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Registry,
)
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import (
    DEFAULT_VERSION,
    Range,
    Version,
    is_range,
    parse_range,
    parse_request,
    parse_version,
)


class FunctionRevisionNotFound(UsageError, reason="FunctionRevisionNotFound"):
    """No revision of a function can serve the call of a pipeline step.

    `may_come` is set if an allowed revision is active and may become routable soon.
    """

    def __init__(
        self,
        function: str,
        requested: str,
        passed_over: Sequence[str],
        hint: str = "",
        *,
        may_come: bool = False,
    ) -> None:
        rejected = f": {'; '.join(passed_over)}" if passed_over else ": it has no revisions"
        super().__init__(f"No revision of function {function} matches {requested}{rejected}{hint}")
        self.function = function
        self.requested = requested
        self.passed_over = tuple(passed_over)
        self.may_come = may_come


T = TypeVar("T", bound=Candidate)


class Choice(NamedTuple, Generic[T]):
    """Chosen candidate, the reason, and notices for users.

    `account` explains why the other candidates were rejected. It is a function because most callers
    only need the result. `candidates` includes the rejected ones.
    """

    chosen: T
    why: str
    notices: tuple[Notice, ...] = ()
    account: Callable[[], Sequence[str]] = tuple
    candidates: Iterable[T] = ()

    @property
    def passed_over(self) -> tuple[str, ...]:
        return tuple(self.account())


# A test returns why a candidate is not suitable, or an empty string.
_Test = Callable[[T], str]
_NO_RELEASES: Mapping[str, Version] = {}


# Filter for versions and revisions


def _why_not(candidate: T, tests: Iterable[_Test[T]]) -> str:
    for test in tests:
        if why := test(candidate):
            return why
    return ""


def _passing(candidates: Iterable[T], tests: Sequence[_Test[T]]) -> Iterator[T]:
    """Yield the candidates that pass every test, in their order."""
    return (candidate for candidate in candidates if not _why_not(candidate, tests))


def _passed_over(
    candidates: Iterable[T], tests: Sequence[_Test[T]], chosen: T | None = None
) -> list[str]:
    """Explain for each candidate except the chosen one why it was rejected."""
    lower = f"ranks below {chosen.title}" if chosen is not None else ""
    return [
        f"{candidate.title} {_why_not(candidate, tests) or lower}"
        for candidate in candidates
        if candidate is not chosen
    ]


def _support(candidate: Candidate, at: Mapping[str, Version]) -> Support:
    return candidate.support_at(at.get(candidate.source.name))


def _why_unavailable(at: Mapping[str, Version], candidate: Candidate) -> str:
    support = _support(candidate, at)
    if support is Support.REMOVED:
        return _removal(candidate)
    return "is planned" if support is Support.PLANNED else ""


def _removal(candidate: Candidate) -> str:
    removed_in = candidate.listing.removed_in
    return f"was removed in release {removed_in.bare}" if removed_in else "was removed"


def _removed_error(
    function: str, candidate: Candidate, version: str, setting: str
) -> FunctionVersionRemoved:
    listing = candidate.listing
    removed_in = listing.removed_in.bare if listing.removed_in else "an earlier one"
    replacement = str(listing.replacement or "")
    return FunctionVersionRemoved(function, version, removed_in, replacement, setting)


# Versions


class RequestedVersion(NamedTuple):
    """Requested version or range, and the field that contains it (`by`), for messages.

    An empty text requests the default version.
    """

    text: str = ""
    by: str = ""


def requested_version(func_version: str | None, preferred_version: str | None) -> RequestedVersion:
    """Return the version that a phase requests: `funcVersion` wins over `preferredVersion`."""
    if func_version:
        return RequestedVersion(func_version, "funcVersion")
    if preferred_version:
        return RequestedVersion(preferred_version, "preferredVersion")
    return RequestedVersion()


def choose_version(
    registry: Registry[FunctionEntry],
    function: str,
    requested: RequestedVersion | str | None = None,
    *,
    at: Mapping[str, Version] = _NO_RELEASES,
    strict: bool = False,
    kind: FunctionKind | None = None,
) -> Choice[FunctionEntry]:
    """Choose the function version for a phase or a step.

    `at` maps packages to releases to assume instead of the installed ones, to plan upgrades.
    `strict` disables the fallback to v0.0.0. `kind` is the engine that will call the function;
    functions for the other engine are refused.
    """
    request = (
        requested if isinstance(requested, RequestedVersion) else RequestedVersion(requested or "")
    )
    family = registry.family(function)
    actual_kind = family.candidates[0].kind
    if kind not in (None, actual_kind):
        why = f"Function {function} is for {actual_kind.plural}, not for {kind.plural}"
        raise UsageError(why, reason="FunctionOfAnotherKind")
    if not request.text:
        choice = _default_version(family, at)
    elif is_range(request.text):
        choice = _version_in_range(family, request, parse_range(request.text), at)
    else:
        choice = _exact_version(family, request, parse_version(request.text), at, strict=strict)
    return choice._replace(candidates=family)


def _default_version(
    family: Family[FunctionEntry], at: Mapping[str, Version]
) -> Choice[FunctionEntry]:
    entry = family.default
    if entry is None or _support(entry, at) is Support.PLANNED:
        raise FunctionVersionNotFound(
            family.function, "a phase that names no version", _list_versions(family, at)
        )
    why = "the stable version" if entry.is_stable else "the default version"
    return _usable(entry, why, at)


def _exact_version(
    family: Family[FunctionEntry],
    requested: RequestedVersion,
    version: Version,
    at: Mapping[str, Version],
    *,
    strict: bool,
) -> Choice[FunctionEntry]:
    entry = family.by_identity.get(version)
    if entry is not None and _support(entry, at) is not Support.PLANNED:
        return _usable(entry, f"named by {requested.by}" if requested.by else "named", at)
    default = family.by_identity.get(DEFAULT_VERSION)
    if default is None or strict or _support(default, at) in (Support.REMOVED, Support.PLANNED):
        raise FunctionVersionNotFound(family.function, str(version), _list_versions(family, at))
    fallback = _usable(default, f"{version} does not exist", at)
    usable = [entry.title for entry in _passing(family, (partial(_why_unavailable, at),))]
    notice = Notice(
        reason="FunctionVersionFallback",
        message=(
            f"{family.function} has no {version}, so {DEFAULT_VERSION} is used; "
            f"there are {', '.join(reversed(usable))}"
        ),
        function=family.function,
        version=str(DEFAULT_VERSION),
        facts={"asked": str(version)},
    )
    return Choice(default, fallback.why, (notice, *fallback.notices))


def _version_in_range(
    family: Family[FunctionEntry],
    requested: RequestedVersion,
    requested_range: Range,
    at: Mapping[str, Version],
) -> Choice[FunctionEntry]:
    by = f"the range {requested_range.text}"
    tests = (partial(_why_outside, requested_range), partial(_why_unavailable, at))
    # Prefer the stable version, then versions that are not deprecated, then the highest.
    best = min(
        _passing(family, tests),
        key=lambda entry: (not entry.is_stable, _support(entry, at) is Support.DEPRECATED),
        default=None,
    )
    if best is None:
        raise FunctionVersionNotFound(family.function, by, _passed_over(family, tests))
    if requested.by:
        by += f" of {requested.by}"
    why = f"the stable version, inside {by}" if best.is_stable else f"the highest inside {by}"
    notices = _usable(best, why, at).notices
    return Choice(best, why, notices, lambda: _passed_over(family, tests, best))


def _why_outside(requested_range: Range, entry: FunctionEntry) -> str:
    if entry.version in requested_range:
        return ""
    is_early = entry.version.is_prerelease
    return "is a pre-release, which a range must name" if is_early else "does not match"


def _usable(entry: FunctionEntry, why: str, at: Mapping[str, Version]) -> Choice[FunctionEntry]:
    """Build the choice of an entry, with a notice if it is deprecated. Raises if it was removed."""
    support = _support(entry, at)
    if support is Support.SERVED:
        return Choice(entry, why)
    if support is Support.REMOVED:
        raise _removed_error(entry.function, entry, str(entry.version), "funcVersion")
    return Choice(entry, why, (deprecation_of(entry),))


def deprecation_of(entry: FunctionEntry | FunctionRevision) -> Notice:
    """Build the notice for a deprecated version, with its removal and replacement."""
    if isinstance(entry, FunctionRevision):
        # A built-in version that replaces a package has its own deprecation.
        entry = entry.entry or entry
    listing = entry.listing
    facts = {}
    text = f"{entry.function} {entry.version} is deprecated"
    if listing.deprecated_in is not None:
        text += f" since release {listing.deprecated_in.bare}"
        facts["deprecatedIn"] = listing.deprecated_in.bare
    if listing.removed_in is not None:
        text += f" and refused from release {listing.removed_in.bare} on"
        facts["removedIn"] = listing.removed_in.bare
    if listing.replacement is not None:
        text += f"; use {listing.replacement}"
        facts["replacement"] = str(listing.replacement)
    if listing.message:
        text += f": {listing.message}"
    reason, severity = "FunctionVersionDeprecated", Severity.WARNING
    return Notice(reason, text, severity, entry.function, str(entry.version), facts)


def _list_versions(family: Family[FunctionEntry], at: Mapping[str, Version]) -> list[str]:
    """List all versions with their states, oldest first."""
    return [f"{entry.version} {_state_text(entry, at)}" for entry in reversed(family.candidates)]


def _state_text(entry: FunctionEntry, at: Mapping[str, Version]) -> str:
    """Describe the state of a version in a release. A planned version is not called stable."""
    support = _support(entry, at)
    since = entry.listing.since
    if support is Support.PLANNED and since is not None:
        release = at.get(entry.source.name) or entry.source.release
        return f"is available since {since.bare}, and the release is {release.bare}"
    if entry.is_stable:
        return "is stable"
    if support is Support.SERVED:
        return "is supported"
    return _removal(entry) if support is Support.REMOVED else f"is {support}"


# Revisions


class RevisionRequest(NamedTuple):
    """Request of a pipeline step for a revision. A name wins over labels."""

    name: str = ""
    labels: Mapping[str, str] | None = None
    version: str = ""
    selector: LabelSelector = LabelSelector()
    """Further requirements for the labels."""

    def __str__(self) -> str:
        parts = []
        if self.version:
            parts.append(f"version {self.version}")
        if self.name:
            parts.append(f"the name {self.name}")
        elif self.labels:
            pairs = ", ".join(f"{key}={self.labels[key]}" for key in sorted(self.labels))
            parts.append(f"the labels {pairs}")
        if self.selector.requirements and not self.name:
            parts.append(f"the selector {self.selector}")
        return " and ".join(parts) or "a step without a version or revision"


_MAX_CACHED_CHOICES = 256


def choose_revision(
    registry: Registry[FunctionRevision], function: str, request: RevisionRequest | None = None
) -> Choice[FunctionRevision]:
    """Choose the revision for a pipeline step: the highest routable revision that it allows.

    Removed versions are never chosen, and planned versions count as unknown.
    """
    request = request or RevisionRequest()
    family = registry.family(function)
    labels = tuple(sorted((request.labels or {}).items()))
    key = (request.name, request.version, labels, request.selector)
    choice: Choice[FunctionRevision] | None = family.choices.get(key)
    if choice is None:
        choice = _choose_uncached(family, request)
        if len(family.choices) < _MAX_CACHED_CHOICES:
            family.choices[key] = choice
    return choice


def _choose_uncached(
    family: Family[FunctionRevision], request: RevisionRequest
) -> Choice[FunctionRevision]:
    request_tests = list(_tests_of(request))
    served: list[_Test[FunctionRevision]] = [
        *request_tests,
        partial(_why_unavailable, _NO_RELEASES),
    ]
    tests: list[_Test[FunctionRevision]] = [*served, lambda revision: revision.why_not_routable]
    chosen = next(_passing(family, tests), None)
    if chosen is None:
        _check_not_removed(family, request, request_tests)
        account = _passed_over(family, tests)
        if request.name and request.name not in family.by_identity:
            account.insert(0, f"{request.name} is not a revision of {family.function}")
        allowed = list(_passing(family, served))
        may_come = any(revision.desired_state is DesiredState.ACTIVE for revision in allowed)
        hint = ""
        if allowed and not may_come:
            # Every allowed revision has been deactivated.
            routable = next((revision.name for revision in family if revision.is_routable), "")
            other = f", or let the step request {routable}, which is routable" if routable else ""
            hint = f"; set spec.desiredState of {allowed[0].name} to Active{other}"
        raise FunctionRevisionNotFound(
            family.function, str(request), account, hint, may_come=may_come
        )
    if request.name:
        why = "named by functionRevisionRef"
    elif request.labels or request.selector.requirements:
        why = "the highest routable revision with the labels of functionRevisionSelector"
    else:
        why = "the highest routable revision"
    is_deprecated = chosen.support_at() is Support.DEPRECATED
    notices = (deprecation_of(chosen),) if is_deprecated else ()
    return Choice(chosen, why, notices, lambda: _passed_over(family, tests, chosen))


def _check_not_removed(
    family: Family[FunctionRevision],
    request: RevisionRequest,
    request_tests: Sequence[_Test[FunctionRevision]],
) -> None:
    """Raise FunctionVersionRemoved if the requested version was removed."""
    if request.version and is_range(request.version):
        return
    for candidate in _passing(family, request_tests):
        if candidate.support_at() is Support.REMOVED:
            setting = (
                "functionRef.version" if request.version else f"spec.package of {family.function}"
            )
            version_entry = candidate.entry or candidate
            if request.name == f"{family.function}-{version_entry.version}":
                # A built-in function without a Function, so there is no package to change.
                setting = "the version in functionRevisionRef.name"
            raise _removed_error(
                version_entry.function, candidate, str(version_entry.version), setting
            )


def _tests_of(request: RevisionRequest) -> Iterator[_Test[FunctionRevision]]:
    if request.version:
        yield partial(_why_other_version, parse_request(request.version))
    if request.name:
        yield lambda revision: "" if revision.name == request.name else "has another name"
    elif request.labels or request.selector.requirements:
        yield partial(_why_other_labels, request.labels or {}, request.selector)


def _why_other_version(requested: Version | Range, revision: FunctionRevision) -> str:
    version = revision.version
    if version is None:
        return "has no version"
    matches = version in requested if isinstance(requested, Range) else version == requested
    return "" if matches else f"is {version}"


def _why_other_labels(
    labels: Mapping[str, str], selector: LabelSelector, revision: FunctionRevision
) -> str:
    for requirement in selector.requirements:
        if not requirement.matches(revision.labels):
            return f"is not selected by {requirement}"
    for key in sorted(labels):
        actual = revision.labels.get(key)
        if actual != labels[key]:
            return f"has {key}={actual}" if actual is not None else f"has no label {key}"
    return ""
