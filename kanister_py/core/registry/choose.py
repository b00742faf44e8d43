"""Which version, or which revision, of a function answers a request?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kanister_py.core.errors import (
    FunctionRevisionNotFound,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
)
from kanister_py.core.notices import Notice
from kanister_py.core.registry.entries import (
    Candidate,
    Family,
    FunctionEntry,
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

T = TypeVar("T", bound=Candidate)


@dataclass(frozen=True, slots=True)
class PassedOver(Generic[T]):
    """A candidate that was not taken, and why."""

    candidate: T
    why: str

    def __str__(self) -> str:
        return f"{self.candidate.title} {self.why}"


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """What was chosen, why, what was passed over on the way, and what a user should hear."""

    chosen: T
    why: str
    passed_over: tuple[PassedOver[T], ...] = ()
    notices: tuple[Notice, ...] = ()


# A test says why a candidate does not do, or nothing.
_Test = Callable[[T], str]


def _sift(
    candidates: Iterable[T], tests: Iterable[_Test[T]]
) -> tuple[list[T], list[PassedOver[T]]]:
    """Part those that pass every test from those that do not; both keep their order."""
    kept: list[T] = []
    passed_over: list[PassedOver[T]] = []
    every = tuple(tests)
    for candidate in candidates:
        for test in every:
            why = test(candidate)
            if why:
                passed_over.append(PassedOver(candidate, why))
                break
        else:
            kept.append(candidate)
    return kept, passed_over


# Versions


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for, and who asks. No text: whatever is the default."""

    text: str = ""
    by: str = ""


def asked_version(func_version: str | None, preferred_version: str | None) -> Asked:
    """Say which version a phase asks for: its own funcVersion comes before the action's."""
    if func_version:
        return Asked(func_version, "funcVersion")
    if preferred_version:
        return Asked(preferred_version, "preferredVersion")
    return Asked()


_NO_RELEASES: Mapping[str, Version] = {}


def choose_version(
    registry: Registry[FunctionEntry],
    function: str,
    asked: Asked | str | None = None,
    *,
    at: Mapping[str, Version] = _NO_RELEASES,
    strict: bool = False,
) -> Choice[FunctionEntry]:
    """Choose the version of a function that a phase gets.

    `at` names other releases of packages than the installed ones, to ask what an
    upgrade would make of it. `strict` forbids the step back to v0.0.0.
    """
    request = asked if isinstance(asked, Asked) else Asked(asked or "")
    family = registry.family(function)
    if not request.text:
        return _default_version(family, at)
    if is_range(request.text):
        return _version_in_range(family, request, parse_range(request.text), at)
    return _exact_version(family, request, parse_version(request.text), at, strict=strict)


def _support(entry: FunctionEntry, at: Mapping[str, Version]) -> Support:
    return entry.support_at(at.get(entry.source.name))


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
    asked: Asked,
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
    notice = Notice(
        reason="FunctionVersionFallback",
        message=(
            f"{family.function} has no {version}, so {DEFAULT_VERSION} is used; "
            f"there are {', '.join(each.title for each in reversed(family.candidates))}"
        ),
        function=family.function,
        version=str(DEFAULT_VERSION),
        facts={"asked": str(version)},
    )
    return Choice(default, served.why, (), (notice, *served.notices))


def _version_in_range(
    family: Family[FunctionEntry], asked: Asked, wanted: Range, at: Mapping[str, Version]
) -> Choice[FunctionEntry]:
    def outside(entry: FunctionEntry) -> str:
        if entry.version in wanted:
            return ""
        if entry.version.is_prerelease:
            return "is a pre-release, which a range must name"
        return "is outside the range"

    def gone(entry: FunctionEntry) -> str:
        support = _support(entry, at)
        if support is Support.REMOVED:
            return _removal(entry)
        return "is planned" if support is Support.PLANNED else ""

    inside, passed_over = _sift(family, (outside, gone))
    if not inside:
        raise FunctionVersionNotFound(
            family.function, f"the range {wanted}", [str(each) for each in passed_over]
        )
    by = f"the range {wanted} of {asked.by}" if asked.by else f"the range {wanted}"
    best = next((each for each in inside if each.is_stable), None)
    if best is not None:
        why = f"the stable version, and inside {by}"
    else:
        best = next((each for each in inside if _support(each, at) is Support.SERVED), None)
        why = f"the highest inside {by}"
        if best is None:
            best = inside[0]
    rest = [PassedOver(each, "is inside, but not chosen") for each in inside if each is not best]
    served = _served(best, why, at)
    return Choice(best, why, (*passed_over, *rest), served.notices)


def _served(entry: FunctionEntry, why: str, at: Mapping[str, Version]) -> Choice[FunctionEntry]:
    """Answer with an entry that was found, with a warning if it is deprecated; never if removed."""
    support = _support(entry, at)
    if support is Support.SERVED:
        return Choice(entry, why)
    if support is Support.REMOVED:
        listing = entry.listing
        assert listing.removed_in is not None  # or it would not be removed
        raise FunctionVersionRemoved(
            entry.function,
            str(entry.version),
            listing.removed_in.bare,
            str(listing.replacement or ""),
        )
    return Choice(entry, why, (), (deprecation_of(entry),))


def deprecation_of(entry: FunctionEntry) -> Notice:
    """Say until when a deprecated version is served, and what comes instead."""
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
    return Notice(
        reason="FunctionVersionDeprecated",
        message=text,
        function=entry.function,
        version=str(entry.version),
        facts=facts,
    )


def _removal(entry: FunctionEntry) -> str:
    removed_in = entry.listing.removed_in
    return f"was removed in release {removed_in.bare}" if removed_in else "was removed"


def _account(family: Family[FunctionEntry], at: Mapping[str, Version]) -> list[str]:
    """List what there is, the oldest first, with what stands in the way of each."""
    lines = []
    for entry in reversed(family.candidates):
        support = _support(entry, at)
        what = _removal(entry) if support is Support.REMOVED else f"is {support}"
        lines.append(f"{entry.version} {'is stable' if entry.is_stable else what}")
    return lines


# Revisions


@dataclass(frozen=True, slots=True)
class RevisionRequest:
    """Which revision a pipeline step asks for. A name wins over labels."""

    name: str = ""
    labels: Mapping[str, str] | None = None
    version: str = ""

    def __str__(self) -> str:
        parts = []
        if self.version:
            parts.append(f"version {self.version}")
        if self.name:
            parts.append(f"the name {self.name}")
        elif self.labels:
            pairs = ", ".join(f"{key}={self.labels[key]}" for key in sorted(self.labels))
            parts.append(f"the labels {pairs}")
        return " and ".join(parts) or "a step that names none"


def choose_revision(
    registry: Registry[FunctionRevision],
    function: str,
    request: RevisionRequest | None = None,
) -> Choice[FunctionRevision]:
    """Choose the revision that a pipeline step calls: the highest routable one that it allows."""
    wanted = request or RevisionRequest()
    family = registry.family(function)
    tests = [*_version_tests(wanted), *_reference_tests(wanted), lambda each: each.why_not_routable]
    kept, passed_over = _sift(family, tests)
    if not kept:
        account = [str(each) for each in passed_over]
        if wanted.name and wanted.name not in family.by_identity:
            account.insert(0, f"{wanted.name} is no revision of {function}")
        raise FunctionRevisionNotFound(function, str(wanted), account)
    chosen, *rest = kept
    if wanted.name:
        why = "named by functionRevisionRef"
    elif wanted.labels:
        why = "the highest routable revision with the labels of functionRevisionSelector"
    else:
        why = "the highest routable revision"
    lower = [PassedOver(each, f"is lower than {chosen.title}") for each in rest]
    return Choice(chosen, why, (*passed_over, *lower))


def _version_tests(request: RevisionRequest) -> Iterable[_Test[FunctionRevision]]:
    if not request.version:
        return ()
    wanted = parse_request(request.version)

    def wrong_version(revision: FunctionRevision) -> str:
        version = revision.version
        if version is None:
            return "has no version"
        fits = version in wanted if isinstance(wanted, Range) else version == wanted
        return "" if fits else f"is {version}"

    return (wrong_version,)


def _reference_tests(request: RevisionRequest) -> Iterable[_Test[FunctionRevision]]:
    if request.name:
        return (lambda each: "" if each.name == request.name else "has another name",)
    if not request.labels:
        return ()
    labels = request.labels

    def wrong_labels(revision: FunctionRevision) -> str:
        for key in sorted(labels):
            found = revision.labels.get(key)
            if found != labels[key]:
                return f"has {key}={found}" if found is not None else f"has no label {key}"
        return ""

    return (wrong_labels,)
