"""Which version, or which revision, of a function answers a request?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from kanister_py.core.errors import FunctionVersionNotFound, FunctionVersionRemoved, UsageError
from kanister_py.core.notices import Notice
from kanister_py.core.registry.entries import (
    Candidate,
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


class FunctionOfAnotherKind(UsageError):
    """A blueprint names a function of compositions, or the other way round."""

    reason = "FunctionOfAnotherKind"

    def __init__(self, function: str, found: str, wanted: str) -> None:
        super().__init__(f"Function {function} is for {found}, not for {wanted}")
        self.function = function
        self.found = found
        self.wanted = wanted


class FunctionRevisionNotFound(UsageError):
    """No revision of a function can take the call of a pipeline step."""

    reason = "FunctionRevisionNotFound"

    def __init__(self, function: str, asked: str, passed_over: Sequence[str]) -> None:
        found = f": {'; '.join(passed_over)}" if passed_over else ": it has no revisions"
        super().__init__(f"No revision of function {function} answers {asked}{found}")
        self.function = function
        self.asked = asked
        self.passed_over = tuple(passed_over)


T = TypeVar("T", bound=Candidate)


class PassedOver(NamedTuple, Generic[T]):
    """A candidate that was not taken, and why."""

    candidate: T
    why: str

    def __str__(self) -> str:
        return f"{self.candidate.title} {self.why}"


class Choice(Generic[T]):
    """What was chosen, why, and what a user should hear.

    The account of what was passed over is made when somebody asks for it: most
    runs want only the answer.
    """

    __slots__ = ("_account", "chosen", "notices", "why")

    def __init__(
        self,
        chosen: T,
        why: str,
        notices: tuple[Notice, ...] = (),
        account: Callable[[], Iterable[PassedOver[T]]] = tuple,
    ) -> None:
        self.chosen = chosen
        self.why = why
        self.notices = notices
        self._account = account

    @property
    def passed_over(self) -> tuple[PassedOver[T], ...]:
        return tuple(self._account())


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


class Asked(NamedTuple):
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
    kind: FunctionKind | None = None,
) -> Choice[FunctionEntry]:
    """Choose the version of a function that a phase gets.

    `at` names other releases of packages than the installed ones, to ask what an
    upgrade would make of it. `strict` forbids the step back to v0.0.0. `kind` says
    which engine will call it: another engine's function is refused.
    """
    request = asked if isinstance(asked, Asked) else Asked(asked or "")
    family = registry.family(function)
    found = family.candidates[0].kind
    if kind not in (None, found):
        raise FunctionOfAnotherKind(function, found.plural, kind.plural)
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
    return Choice(default, served.why, (notice, *served.notices))


def _version_in_range(
    family: Family[FunctionEntry], asked: Asked, wanted: Range, at: Mapping[str, Version]
) -> Choice[FunctionEntry]:
    by = f"the range {wanted.text}"
    best = _best_inside(family, wanted, at)
    if best is None:
        lines = [str(each) for each in _sift(family, (_range_test(wanted, at),))[1]]
        raise FunctionVersionNotFound(family.function, by, lines)
    if asked.by:
        by += f" of {asked.by}"
    why = f"the stable version, and inside {by}" if best.is_stable else f"the highest inside {by}"

    def account() -> Iterable[PassedOver[FunctionEntry]]:
        inside, passed_over = _sift(family, (_range_test(wanted, at),))
        rest = [
            PassedOver(each, "is inside, but not chosen") for each in inside if each is not best
        ]
        return [*passed_over, *rest]

    served = _served(best, why, at)
    return Choice(best, why, served.notices, account)


def _best_inside(
    family: Family[FunctionEntry], wanted: Range, at: Mapping[str, Version]
) -> FunctionEntry | None:
    """Find the stable version if it is inside, else the highest, deprecated ones last."""
    usable = (Support.SERVED, Support.DEPRECATED)
    stable = family.default
    is_inside = stable is not None and stable.is_stable and stable.version in wanted
    if stable is not None and is_inside and _support(stable, at) in usable:
        return stable
    highest = None
    for entry in family.candidates:
        if entry.version in wanted:
            support = _support(entry, at)
            if support is Support.SERVED:
                return entry
            if highest is None and support is Support.DEPRECATED:
                highest = entry
    return highest


def _range_test(wanted: Range, at: Mapping[str, Version]) -> _Test[FunctionEntry]:
    def wrong(entry: FunctionEntry) -> str:
        if entry.version not in wanted:
            is_early = entry.version.is_prerelease
            return "is a pre-release, which no range gets unasked" if is_early else "is outside"
        support = _support(entry, at)
        if support is Support.REMOVED:
            return _removal(entry)
        return "is planned" if support is Support.PLANNED else ""

    return wrong


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
    return Choice(entry, why, (deprecation_of(entry),))


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


class RevisionRequest(NamedTuple):
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
    return Choice(chosen, why, account=lambda: [*passed_over, *lower])


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
