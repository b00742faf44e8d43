"""Choice of a version or a revision: one ordered filter, and the account of what it passed over."""

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
    """No revision of a function can take the call of a pipeline step.

    `may_come` says that one which the step allows is active, and may serve in a moment.
    """

    def __init__(
        self,
        function: str,
        asked: str,
        passed_over: Sequence[str],
        hint: str = "",
        *,
        may_come: bool = False,
    ) -> None:
        found = f": {'; '.join(passed_over)}" if passed_over else ": it has no revisions"
        super().__init__(f"No revision of function {function} answers {asked}{found}{hint}")
        self.function = function
        self.asked = asked
        self.passed_over = tuple(passed_over)
        self.may_come = may_come


T = TypeVar("T", bound=Candidate)


class Choice(NamedTuple, Generic[T]):
    """Outcome of a choice: what was chosen, why, and the notices for users.

    The account of what was passed over is made when it is asked for: most
    runs want only the answer. `candidates` is everything that it was chosen from.
    """

    chosen: T
    why: str
    notices: tuple[Notice, ...] = ()
    account: Callable[[], Sequence[str]] = tuple
    candidates: Iterable[T] = ()

    @property
    def passed_over(self) -> tuple[str, ...]:
        return tuple(self.account())


# A test says why a candidate does not do, or nothing.
_Test = Callable[[T], str]
_NO_RELEASES: Mapping[str, Version] = {}


# The one filter for versions and revisions: candidates in their order, and their tests


def _why_not(candidate: T, tests: Iterable[_Test[T]]) -> str:
    for test in tests:
        if why := test(candidate):
            return why
    return ""


def _passing(candidates: Iterable[T], tests: Sequence[_Test[T]]) -> Iterator[T]:
    """Give those that pass every test, the highest first."""
    return (each for each in candidates if not _why_not(each, tests))


def _passed_over(
    candidates: Iterable[T], tests: Sequence[_Test[T]], chosen: T | None = None
) -> list[str]:
    """Say of each candidate but the chosen one why it was passed over."""
    behind = f"comes after {chosen.title}" if chosen is not None else ""
    return [
        f"{each.title} {_why_not(each, tests) or behind}"
        for each in candidates
        if each is not chosen
    ]


def _support(candidate: Candidate, at: Mapping[str, Version]) -> Support:
    return candidate.support_at(at.get(candidate.source.name))


def _why_not_served(at: Mapping[str, Version], candidate: Candidate) -> str:
    support = _support(candidate, at)
    if support is Support.REMOVED:
        return _removal(candidate)
    return "is planned" if support is Support.PLANNED else ""


def _removal(candidate: Candidate) -> str:
    removed_in = candidate.listing.removed_in
    return f"was removed in release {removed_in.bare}" if removed_in else "was removed"


def _removed(
    function: str, candidate: Candidate, version: str, setting: str
) -> FunctionVersionRemoved:
    listing = candidate.listing
    removed_in = listing.removed_in.bare if listing.removed_in else "an earlier one"
    replacement = str(listing.replacement or "")
    return FunctionVersionRemoved(function, version, removed_in, replacement, setting)


# Versions


class RequestedVersion(NamedTuple):
    """Requested version or range, and the field that requests it. No text: the default."""

    text: str = ""
    by: str = ""


def requested_version(func_version: str | None, preferred_version: str | None) -> RequestedVersion:
    """Say which version a phase asks for: its own funcVersion comes before the action's."""
    if func_version:
        return RequestedVersion(func_version, "funcVersion")
    if preferred_version:
        return RequestedVersion(preferred_version, "preferredVersion")
    return RequestedVersion()


def choose_version(
    registry: Registry[FunctionEntry],
    function: str,
    asked: RequestedVersion | str | None = None,
    *,
    at: Mapping[str, Version] = _NO_RELEASES,
    strict: bool = False,
    kind: FunctionKind | None = None,
) -> Choice[FunctionEntry]:
    """Choose the version of a function that a phase gets.

    `at` names other releases of packages than the installed ones, to ask what an
    upgrade would make of it. `strict` forbids the step back to v0.0.0. `kind` says
    which engine will call it: another engine's function is refused.
    """
    request = asked if isinstance(asked, RequestedVersion) else RequestedVersion(asked or "")
    family = registry.family(function)
    found = family.candidates[0].kind
    if kind not in (None, found):
        why = f"Function {function} is for {found.plural}, not for {kind.plural}"
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
            family.function, "a phase that names no version", _account(family, at)
        )
    why = "the stable version" if entry.is_stable else "the default version"
    return _served(entry, why, at)


def _exact_version(
    family: Family[FunctionEntry],
    asked: RequestedVersion,
    version: Version,
    at: Mapping[str, Version],
    *,
    strict: bool,
) -> Choice[FunctionEntry]:
    entry = family.by_identity.get(version)
    if entry is not None and _support(entry, at) is not Support.PLANNED:
        return _served(entry, f"named by {asked.by}" if asked.by else "named", at)
    default = family.by_identity.get(DEFAULT_VERSION)
    if default is None or strict or _support(default, at) in (Support.REMOVED, Support.PLANNED):
        raise FunctionVersionNotFound(family.function, str(version), _account(family, at))
    served = _served(default, f"{version} is not known", at)
    usable = [each.title for each in _passing(family, (partial(_why_not_served, at),))]
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
    return Choice(default, served.why, (notice, *served.notices))


def _version_in_range(
    family: Family[FunctionEntry], asked: RequestedVersion, wanted: Range, at: Mapping[str, Version]
) -> Choice[FunctionEntry]:
    by = f"the range {wanted.text}"
    tests = (partial(_why_not_inside, wanted), partial(_why_not_served, at))
    # The stable version first, then the highest, deprecated ones last.
    best = min(
        _passing(family, tests),
        key=lambda each: (not each.is_stable, _support(each, at) is Support.DEPRECATED),
        default=None,
    )
    if best is None:
        raise FunctionVersionNotFound(family.function, by, _passed_over(family, tests))
    if asked.by:
        by += f" of {asked.by}"
    why = f"the stable version, and inside {by}" if best.is_stable else f"the highest inside {by}"
    notices = _served(best, why, at).notices
    return Choice(best, why, notices, lambda: _passed_over(family, tests, best))


def _why_not_inside(wanted: Range, entry: FunctionEntry) -> str:
    if entry.version in wanted:
        return ""
    is_early = entry.version.is_prerelease
    return "is a pre-release, which no range gets unasked" if is_early else "is outside"


def _served(entry: FunctionEntry, why: str, at: Mapping[str, Version]) -> Choice[FunctionEntry]:
    """Answer with an entry that was found, with a warning if it is deprecated; never if removed."""
    support = _support(entry, at)
    if support is Support.SERVED:
        return Choice(entry, why)
    if support is Support.REMOVED:
        raise _removed(entry.function, entry, str(entry.version), "funcVersion")
    return Choice(entry, why, (deprecation_of(entry),))


def deprecation_of(entry: FunctionEntry | FunctionRevision) -> Notice:
    """Say until when a deprecated version is served, and what comes instead."""
    if isinstance(entry, FunctionRevision):
        # Of what stands in for a package, our own number is the one that ages.
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


def _account(family: Family[FunctionEntry], at: Mapping[str, Version]) -> list[str]:
    """List what there is, the oldest first, with what stands in the way of each."""
    return [f"{each.version} {_standing(each, at)}" for each in reversed(family.candidates)]


def _standing(entry: FunctionEntry, at: Mapping[str, Version]) -> str:
    """Say what a release makes of a version; one that is to come is not called stable."""
    support = _support(entry, at)
    since = entry.listing.since
    if support is Support.PLANNED and since is not None:
        asked = at.get(entry.source.name) or entry.source.release
        return f"is there since {since.bare}, and release {asked.bare} is asked"
    if entry.is_stable:
        return "is stable"
    return _removal(entry) if support is Support.REMOVED else f"is {support}"


# Revisions


class RevisionRequest(NamedTuple):
    """Request of a pipeline step for a revision. A name wins over labels."""

    name: str = ""
    labels: Mapping[str, str] | None = None
    version: str = ""
    selector: LabelSelector = LabelSelector()
    """What its labels must be besides."""

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
        return " and ".join(parts) or "a step that names none"


_MOST_ANSWERS = 256


def choose_revision(
    registry: Registry[FunctionRevision], function: str, request: RevisionRequest | None = None
) -> Choice[FunctionRevision]:
    """Choose the revision that a pipeline step calls: the highest routable one that it allows.

    A version that was removed is never called, and one that is planned counts as unknown.
    """
    wanted = request or RevisionRequest()
    family = registry.family(function)
    labels = tuple(sorted((wanted.labels or {}).items()))
    key = (wanted.name, wanted.version, labels, wanted.selector)
    answer: Choice[FunctionRevision] | None = family.answers.get(key)
    if answer is None:
        answer = _chosen_revision(family, wanted)
        if len(family.answers) < _MOST_ANSWERS:
            family.answers[key] = answer
    return answer


def _chosen_revision(
    family: Family[FunctionRevision], wanted: RevisionRequest
) -> Choice[FunctionRevision]:
    asked = list(_tests_of(wanted))
    served: list[_Test[FunctionRevision]] = [*asked, partial(_why_not_served, _NO_RELEASES)]
    tests: list[_Test[FunctionRevision]] = [*served, lambda each: each.why_not_routable]
    chosen = next(_passing(family, tests), None)
    if chosen is None:
        _check_not_removed(family, wanted, asked)
        account = _passed_over(family, tests)
        if wanted.name and wanted.name not in family.by_identity:
            account.insert(0, f"{wanted.name} is no revision of {family.function}")
        allowed = list(_passing(family, served))
        may_come = any(each.desired_state is DesiredState.ACTIVE for each in allowed)
        hint = ""
        if allowed and not may_come:
            # All that the step allows was taken out of service.
            serving = next((each.name for each in family if each.is_routable), "")
            other = f", or have the step ask for {serving}, which serves" if serving else ""
            hint = f"; set spec.desiredState of {allowed[0].name} to Active{other}"
        raise FunctionRevisionNotFound(
            family.function, str(wanted), account, hint, may_come=may_come
        )
    if wanted.name:
        why = "named by functionRevisionRef"
    elif wanted.labels or wanted.selector.requirements:
        why = "the highest routable revision with the labels of functionRevisionSelector"
    else:
        why = "the highest routable revision"
    is_deprecated = chosen.support_at() is Support.DEPRECATED
    notices = (deprecation_of(chosen),) if is_deprecated else ()
    return Choice(chosen, why, notices, lambda: _passed_over(family, tests, chosen))


def _check_not_removed(
    family: Family[FunctionRevision],
    wanted: RevisionRequest,
    asked: Sequence[_Test[FunctionRevision]],
) -> None:
    """Say that what a step asks for was removed, if it is that which stands in its way."""
    if wanted.version and is_range(wanted.version):
        return
    for each in _passing(family, asked):
        if each.support_at() is Support.REMOVED:
            setting = (
                "functionRef.version" if wanted.version else f"spec.package of {family.function}"
            )
            named = each.entry or each
            if wanted.name == f"{family.function}-{named.version}":
                # Built in, with no Function whose package could be another.
                setting = "the version in functionRevisionRef.name"
            raise _removed(named.function, each, str(named.version), setting)


def _tests_of(request: RevisionRequest) -> Iterator[_Test[FunctionRevision]]:
    if request.version:
        yield partial(_why_not_of_version, parse_request(request.version))
    if request.name:
        yield lambda each: "" if each.name == request.name else "has another name"
    elif request.labels or request.selector.requirements:
        yield partial(_why_not_labelled, request.labels or {}, request.selector)


def _why_not_of_version(wanted: Version | Range, revision: FunctionRevision) -> str:
    version = revision.version
    if version is None:
        return "has no version"
    fits = version in wanted if isinstance(wanted, Range) else version == wanted
    return "" if fits else f"is {version}"


def _why_not_labelled(
    labels: Mapping[str, str], selector: LabelSelector, revision: FunctionRevision
) -> str:
    for each in selector.requirements:
        if not each.matches(revision.labels):
            return f"is not selected by {each}"
    for key in sorted(labels):
        found = revision.labels.get(key)
        if found != labels[key]:
            return f"has {key}={found}" if found is not None else f"has no label {key}"
    return ""
