"""Registry of functions. It is immutable and thread-safe; a builder creates it."""

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
    """A function cannot be registered. The registry is unchanged."""

    wording = "Cannot register function {what}: {why}"


class FunctionKind(StrEnum):
    """Kind of a function: the engine that calls it."""

    BLUEPRINT = "Blueprint"
    COMPOSITION = "Composition"

    @property
    def method(self) -> str:
        """Name of the method that the engine calls."""
        return "exec" if self is FunctionKind.BLUEPRINT else "run"

    @property
    def plural(self) -> str:
        """Plural for messages."""
        return f"{self.lower()}s"


class Source(NamedTuple):
    """Package that contains functions: its installed release, and the record of all releases."""

    name: str
    release: Version
    releases: tuple[Release, ...] = ()
    is_ours: bool = False

    def release_on(self, version: Version) -> Release | None:
        return next((release for release in self.releases if release.version == version), None)


class Origin(StrEnum):
    """Origin of the code of a version."""

    BUILT_IN = "built in"
    PLUGIN = "plugin"
    PACKAGE = "package"


class FunctionEntry(NamedTuple):
    """Version of a function: its code and its record.

    A removed version has no code. `target` is a class, or `module:Class` for a class that is loaded
    on demand.
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
        """Return the support level in a release; default: the installed release."""
        return support_of(self.listing, release or self.source.release)


class DesiredState(StrEnum):
    """Desired state of a revision."""

    ACTIVE = "Active"
    INACTIVE = "Inactive"


UNKNOWN_SOURCE = Source("", Version(0, 0, 0))


class FunctionRevision(NamedTuple):
    """Installed revision of the package of a function.

    `version` is the version of the code: the tag of the package if it is SemVer. A revision without
    a version matches no requested version. `listing` has the deprecation and removal in releases of
    `source`; without a record the version is supported. `capabilities` come from the metadata of
    the package.
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
    """Maximum size of a response; zero means the default of the caller."""
    listing: Listing = Listing()
    source: Source = UNKNOWN_SOURCE
    origin: Origin = Origin.PACKAGE
    entry: FunctionEntry | None = None
    """Version in this process that runs the calls, if any."""
    trouble: str = ""
    """Reason why the revision is not healthy, if known."""
    lifecycle: str = ""
    """Unparsed lifecycle of the package."""

    def run_by(self, entry: FunctionEntry, endpoint: str) -> FunctionRevision:
        """Return the revision as run by a version in this process, with its support level."""
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
        # Numbers should be unique. The name makes the order stable if they are not.
        return (self.number, self.name)

    @property
    def title(self) -> str:
        return f"{self.name} (revision {self.number})"

    def support_at(self, release: Version | None = None) -> Support:
        """Return the support level of its code in a release; default: the installed release."""
        return support_of(self.listing, release or self.source.release)

    @property
    def is_routable(self) -> bool:
        return not self.why_not_routable

    @property
    def why_not_routable(self) -> str:
        """Reason why calls cannot be routed to the revision; empty if they can."""
        if self.desired_state is not DesiredState.ACTIVE:
            return "is inactive"
        if not self.is_healthy:
            return f"is not healthy: {self.trouble}" if self.trouble else "is not healthy"
        if not self.endpoint:
            return "has no endpoint yet"
        return ""


Candidate: TypeAlias = FunctionEntry | FunctionRevision
"""Candidate for a request; candidates are ordered by rank, highest first."""

T = TypeVar("T", bound=Candidate)


class Family(Generic[T]):
    """All candidates of one function, highest rank first.

    `default` is the candidate for requests without a version. `choices` caches the results of
    `choose_revision`, because every composite resource repeats the same requests.
    """

    __slots__ = ("by_identity", "candidates", "choices", "default", "function")

    def __init__(self, function: str, candidates: tuple[T, ...], default: T | None) -> None:
        self.function = function
        self.candidates = candidates
        self.by_identity: Mapping[Hashable, T] = MappingProxyType(
            {candidate.identity: candidate for candidate in candidates}
        )
        self.default = default
        self.choices: dict[Hashable, Any] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self.candidates)


class Registry(Generic[T]):
    """All functions by name. Immutable; use a RegistryBuilder to create a changed copy.

    `broken_plugins` describes plugins whose functions are missing.
    """

    __slots__ = ("_families", "broken_plugins")

    def __init__(
        self, families: Mapping[str, Family[T]], broken_plugins: Sequence[str] = ()
    ) -> None:
        self.broken_plugins = tuple(broken_plugins)
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
        """Return the candidates of a function. Raises FunctionNotRegistered with similar names."""
        family = self._families.get(function)
        if family is None:
            near = nearest(function, self.names)
            raise FunctionNotRegistered(function, near, self.broken_plugins)
        return family


class RegistryBuilder(Generic[T]):
    """Builder of a registry. A refused function changes nothing."""

    def __init__(self, registry: Registry[T] | None = None) -> None:
        self._families: dict[str, Family[T]] = {
            family.function: family for family in registry or ()
        }
        self.broken_plugins = [*registry.broken_plugins] if registry is not None else []

    def add(self, candidates: Sequence[T], default: T | None = None) -> None:
        """Add all candidates of one function, or none of them."""
        if not candidates:
            raise RegistrationRefused("without a name", "it offers no versions")
        function = candidates[0].function
        identities: set[Hashable] = set()
        if function in self._families:
            raise RegistrationRefused(function, "a function of this name is registered already")
        for candidate in candidates:
            if candidate.function != function:
                raise RegistrationRefused(
                    function, f"{candidate.title} is named {candidate.function}"
                )
            if candidate.identity in identities:
                raise RegistrationRefused(function, f"{candidate.title} is listed twice")
            identities.add(candidate.identity)
        if default is not None and default.identity not in identities:
            raise RegistrationRefused(function, f"{default.title} is not among its versions")
        ordered = tuple(sorted(candidates, key=lambda candidate: candidate.rank, reverse=True))
        self._families[function] = Family(function, ordered, default)

    def build(self) -> Registry[T]:
        return Registry(self._families, self.broken_plugins)


def default_of(entries: Sequence[FunctionEntry]) -> FunctionEntry | None:
    """Return the entry for phases without a version: the stable version, else v0.0.0."""
    stable = next((entry for entry in entries if entry.is_stable), None)
    return stable or next((entry for entry in entries if entry.version == DEFAULT_VERSION), None)
