"""Registry of functions: built once, then frozen, and safe to read from any thread."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from kanister_py.core.errors import FunctionNotRegistered, Unusable
from kanister_py.core.versions.deprecation import Listing, Release, Support, support_of
from kanister_py.core.versions.semver import DEFAULT_VERSION, Version
from kanister_py.core.yaml.documents import nearest


class RegistrationRefused(Unusable, reason="RegistrationRefused"):
    """A function cannot be registered, and the registry is as it was before."""

    wording = "Cannot register function {what}: {why}"


class FunctionKind(StrEnum):
    """Kind of a function: the engine that calls it."""

    BLUEPRINT = "Blueprint"
    COMPOSITION = "Composition"

    @property
    def method(self) -> str:
        """The method that does the work."""
        return "exec" if self is FunctionKind.BLUEPRINT else "run"

    @property
    def plural(self) -> str:
        """Where such functions are used, for a sentence."""
        return f"{self.lower()}s"


class Source(NamedTuple):
    """Source of a function: a package, its releases, and the one that is installed."""

    name: str
    release: Version
    releases: tuple[Release, ...] = ()
    is_ours: bool = False

    def release_on(self, version: Version) -> Release | None:
        return next((each for each in self.releases if each.version == version), None)


class Origin(StrEnum):
    """Origin of the code of a version."""

    BUILT_IN = "built in"
    PLUGIN = "plugin"
    PACKAGE = "package"


class FunctionEntry(NamedTuple):
    """One version of a function: where its code is, and what the record says of it.

    A removed version has no code. `target` is a class, or `module:Class` for one
    that is loaded when it is needed.
    """

    function: str
    version: Version
    kind: FunctionKind
    source: Source
    target: Any = None
    listing: Listing = Listing()
    is_stable: bool = False

    @property
    def identity(self) -> Hashable:
        return self.version

    @property
    def rank(self) -> Version:
        return self.version

    @property
    def title(self) -> str:
        return str(self.version)

    @property
    def origin(self) -> Origin:
        return Origin.BUILT_IN if self.source.is_ours else Origin.PLUGIN

    def support_at(self, release: Version | None = None) -> Support:
        """Say how a release treats this version: the installed one, if none is named."""
        return support_of(self.listing, release or self.source.release)


class DesiredState(StrEnum):
    """State that a revision is meant to be in."""

    ACTIVE = "Active"
    INACTIVE = "Inactive"


UNKNOWN_SOURCE = Source("", Version(0, 0, 0))


class FunctionRevision(NamedTuple):
    """One installed revision of a function's package.

    `version` is that of the code that it runs: of a package, its tag if that is SemVer. A
    revision without one answers no request for a version. What the version is worth says
    `listing`, counted in the releases of `source`; without a record it is served.
    `capabilities` are what its package is made for; none if that is not known.
    """

    function: str
    name: str
    number: int
    labels: Mapping[str, str] = MappingProxyType({})
    desired_state: DesiredState = DesiredState.ACTIVE
    is_healthy: bool = False
    endpoint: str = ""
    digest: str = ""
    version: Version | None = None
    capabilities: tuple[str, ...] = ()
    answer_limit_bytes: int = 0
    """How large an answer of it may be; zero leaves that to who calls."""
    listing: Listing = Listing()
    source: Source = UNKNOWN_SOURCE
    origin: Origin = Origin.PACKAGE
    entry: FunctionEntry | None = None
    """What answers for it, where that is a version in this process."""
    trouble: str = ""
    """Why it is not healthy, where that is known."""
    lifecycle: str = ""
    """What its package says of its versions, unread."""

    def run_by(self, entry: FunctionEntry, endpoint: str) -> FunctionRevision:
        """Give it as run by a version that is here, and worth what that is worth."""
        return self._replace(
            endpoint=endpoint if entry.target is not None else "",
            version=self.version or entry.version,
            listing=entry.listing,
            source=entry.source,
            origin=entry.origin,
            entry=entry,
        )

    @property
    def identity(self) -> Hashable:
        return self.name

    @property
    def rank(self) -> tuple[int, str]:
        # Two revisions of one number cannot be; should they be, the name decides.
        return (self.number, self.name)

    @property
    def title(self) -> str:
        return f"{self.name} (revision {self.number})"

    def support_at(self, release: Version | None = None) -> Support:
        """Say how a release treats what it runs: the installed one, if none is named."""
        return support_of(self.listing, release or self.source.release)

    @property
    def is_routable(self) -> bool:
        return not self.why_not_routable

    @property
    def why_not_routable(self) -> str:
        """Say what keeps calls away from it, or nothing."""
        if self.desired_state is not DesiredState.ACTIVE:
            return "is inactive"
        if not self.is_healthy:
            return f"is not healthy: {self.trouble}" if self.trouble else "is not healthy"
        if not self.endpoint:
            return "has no endpoint yet"
        return ""


Candidate: TypeAlias = FunctionEntry | FunctionRevision
"""What may answer a request for a function; the highest rank comes first."""

T = TypeVar("T", bound=Candidate)


class Family(Generic[T]):
    """All candidates of one function, the highest first.

    `default` is what a request gets that names nothing. `answers` keeps what was chosen
    among them: they never change, and a pipeline asks the same for every resource.
    """

    __slots__ = ("answers", "by_identity", "candidates", "default", "function")

    def __init__(self, function: str, candidates: tuple[T, ...], default: T | None) -> None:
        self.function = function
        self.candidates = candidates
        self.by_identity: Mapping[Hashable, T] = MappingProxyType(
            {each.identity: each for each in candidates}
        )
        self.default = default
        self.answers: dict[Hashable, Any] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self.candidates)


class Registry(Generic[T]):
    """All functions by name. Nothing changes it: a builder makes another one."""

    __slots__ = ("_families",)

    def __init__(self, families: Mapping[str, Family[T]]) -> None:
        self._families = MappingProxyType({name: families[name] for name in sorted(families)})

    def __contains__(self, function: object) -> bool:
        return function in self._families

    def __iter__(self) -> Iterator[Family[T]]:
        return iter(self._families.values())

    def __len__(self) -> int:
        return len(self._families)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._families)

    def family(self, function: str) -> Family[T]:
        """Give a function's candidates, or say which names are near."""
        found = self._families.get(function)
        if found is None:
            raise FunctionNotRegistered(function, nearest(function, self.names))
        return found


class RegistryBuilder(Generic[T]):
    """Builder of a registry. What is refused leaves no trace."""

    def __init__(self, registry: Registry[T] | None = None) -> None:
        self._families: dict[str, Family[T]] = {each.function: each for each in registry or ()}

    def add(self, candidates: Sequence[T], default: T | None = None) -> None:
        """Take all the candidates of one function, or none of them."""
        if not candidates:
            raise RegistrationRefused("without a name", "it offers no versions")
        function = candidates[0].function
        seen: set[Hashable] = set()
        if function in self._families:
            raise RegistrationRefused(function, "a function of this name is registered already")
        for each in candidates:
            if each.function != function:
                raise RegistrationRefused(function, f"{each.title} calls itself {each.function}")
            if each.identity in seen:
                raise RegistrationRefused(function, f"{each.title} is offered twice")
            seen.add(each.identity)
        if default is not None and default.identity not in seen:
            raise RegistrationRefused(function, f"{default.title} is not among its versions")
        ordered = tuple(sorted(candidates, key=lambda each: each.rank, reverse=True))
        self._families[function] = Family(function, ordered, default)

    def build(self) -> Registry[T]:
        return Registry(self._families)


def default_of(entries: Sequence[FunctionEntry]) -> FunctionEntry | None:
    """Find what a phase gets that names no version: the stable one, else v0.0.0."""
    stable = next((each for each in entries if each.is_stable), None)
    return stable or next((each for each in entries if each.version == DEFAULT_VERSION), None)
