"""Registration of classes: their registry entries, or the reason for a refusal.

A registered class has a `name`. It is either a function with a method `exec` or `run`, or it has
a `stable_version` and maps versions to classes in `versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Unusable, did_you_mean
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistrationRefused,
    Source,
)
from kanister_py.core.versions.catalogue import (
    Catalogue,
    Lifecycle,
    parse_lifecycle,
    wrong_releases,
)
from kanister_py.core.versions.deprecation import (
    Listing,
    Read,
    Support,
    wrong_listings,
    wrong_stable,
)
from kanister_py.core.versions.semver import DEFAULT_VERSION, Version, parse_version
from kanister_py.core.yaml.documents import nearest, text_of_path


class CatalogueMismatch(Unusable, reason="CatalogueMismatch"):
    """versions.yaml and the code disagree about a function."""

    wording = "versions.yaml and the code disagree about {what}: {why}"


def entries_of(declared: Any, source: Source) -> list[FunctionEntry]:
    """List the entries of a class, one per version. Raises RegistrationRefused if it is invalid."""
    if declared is None:
        raise RegistrationRefused("without a name", "it is None (Cannot register nil function)")
    name = _name_of(declared)
    kind = kind_of(declared)
    if not isinstance(declared, type):
        raise RegistrationRefused(name, "it is an instance; register its class")
    if not hasattr(declared, "versions"):
        if not _has_method(declared, kind.method):
            raise RegistrationRefused(name, f"it has no method `{kind.method}`")
        _check_models(declared, name, kind)
        text = getattr(declared, "version", None)
        version = _version(name, text) if isinstance(text, str) else DEFAULT_VERSION
        return [FunctionEntry(name, version, kind, source, declared, is_stable=True)]
    return _versioned_entries(declared, name, source, kind)


def unregistered_entries(declared: Any, source: Source) -> list[FunctionEntry]:
    """List the versions that a class offers, without their lifecycle.

    For classes that are called by their path. They have no installed package, and so no release
    that could decide which versions are deprecated.
    """
    if not isinstance(declared, type) or not hasattr(declared, "versions"):
        return entries_of(declared, source)
    name, kind = _name_of(declared), kind_of(declared)
    targets = _targets_of(declared, name, kind)
    stable = _stable_of(declared, name, targets, {}, source.release)
    return [
        FunctionEntry(name, version, kind, source, target, is_stable=version == stable)
        for version, target in targets.items()
    ]


def kind_of(declared: Any) -> FunctionKind:
    """Return the engine of a class: a class with `run` but without `exec` is for Compositions.

    Inherited abstract methods also count, so that classes that only list versions have a kind.
    """
    is_for_compositions = hasattr(declared, "run") and not hasattr(declared, "exec")
    return FunctionKind.COMPOSITION if is_for_compositions else FunctionKind.BLUEPRINT


def _name_of(declared: Any) -> str:
    name = getattr(declared, "name", None)
    shown = getattr(declared, "__qualname__", type(declared).__qualname__)
    if not isinstance(name, str) or not name:
        raise RegistrationRefused(shown, "it has no name; set the class attribute `name`")
    if not name.replace("-", "").isalnum() or not name.isascii():
        raise RegistrationRefused(name, "a name has letters, digits and hyphens only")
    return name


def _version(name: str, text: Any) -> Version:
    if not isinstance(text, str):
        raise RegistrationRefused(name, f"a version is text such as 'v0.1.0', found {text!r}")
    try:
        return parse_version(text)
    except InvalidVersion as error:
        raise RegistrationRefused(name, str(error)) from None


def _versioned_entries(
    declared: Any, name: str, source: Source, kind: FunctionKind
) -> list[FunctionEntry]:
    targets = _targets_of(declared, name, kind)
    releases, listings = _lifecycle_of(declared, name, source.release)
    own = Source(source.name, source.release, releases or source.releases)
    stable = _stable_of(declared, name, targets, listings, own.release)
    entries = []
    for version in targets.keys() | listings.keys():
        target, listing = targets.get(version), listings.get(version, Listing())
        entry = FunctionEntry(name, version, kind, own, target, listing, version == stable)
        if target is None and entry.support_at() is not Support.REMOVED:
            raise RegistrationRefused(
                name, f"lifecycle lists {version}, which versions does not offer"
            )
        entries.append(entry)
    problems = wrong_renames(entries, targets)
    if problems:
        raise RegistrationRefused(name, "; ".join(problems))
    return entries


def wrong_renames(entries: Iterable[FunctionEntry], code: Mapping[Version, Any]) -> list[str]:
    """List the renamed arguments that a version or its replacement does not have.

    `code` has the classes by version; versions without a class, or with arbitrary arguments,
    are not checked.
    """
    return [
        f"renamedArgs of {entry.version}: {version} has no argument {argument!r}"
        f"{did_you_mean(nearest(argument, names))}"
        for entry in entries
        for version, arguments in (
            (entry.version, entry.listing.renamed_args.keys()),
            (entry.listing.replacement, entry.listing.renamed_args.values()),
        )
        if version is not None
        and (names := _argument_names(code.get(version), entry.kind)) is not None
        for argument in arguments
        if argument not in names
    ]


def _argument_names(code: Any, kind: FunctionKind) -> list[str] | None:
    """Return the names that a class accepts as arguments, or None if they are unknown."""
    model = getattr(code, "Args" if kind is FunctionKind.BLUEPRINT else "Input", None)
    fields: Mapping[str, Any] | None = getattr(model, "model_fields", None)
    if fields is None or getattr(model, "model_config", {}).get("extra") == "allow":
        return None
    return sorted(name for field in fields.items() for name in _names_of(*field))


def _names_of(name: str, field: Any) -> Iterator[str]:
    yield name
    alias = field.validation_alias or field.alias
    yield from map(str, getattr(alias, "choices", [alias] if alias else []))


def _targets_of(declared: Any, name: str, kind: FunctionKind) -> dict[Version, Any]:
    offered = declared.versions
    if not isinstance(offered, Mapping):
        raise RegistrationRefused(name, "`versions` maps versions to classes")
    targets: dict[Version, Any] = {}
    for text, target in offered.items():
        version = _version(name, text)
        if version in targets:
            raise RegistrationRefused(name, f"{version} is listed twice")
        if target is None:
            raise RegistrationRefused(name, f"{version} is None, not a function")
        if isinstance(target, type):
            if _name_of(target) != name:
                raise RegistrationRefused(name, f"{version} is named {_name_of(target)}")
            if kind_of(target) is not kind:
                raise RegistrationRefused(name, f"{version} is not a function for {kind.plural}")
            if not _has_method(target, kind.method):
                raise RegistrationRefused(name, f"{version} has no method `{kind.method}`")
            _check_models(target, name, kind)
        targets[version] = target
    # A class with its own method is also v0.0.0, unless `versions` lists another class for it.
    if _has_method(declared, kind.method):
        targets.setdefault(DEFAULT_VERSION, declared)
    if not targets:
        raise RegistrationRefused(name, "it offers no versions")
    return targets


def _check_models(declared: type, name: str, kind: FunctionKind) -> None:
    model = getattr(declared, "Args", None)
    if kind is FunctionKind.BLUEPRINT and not hasattr(model, "model_validate"):
        raise RegistrationRefused(
            name, "its `Args` is not a model; derive it from kanister_py.Args"
        )


def _has_method(declared: type, method: str) -> bool:
    call = getattr(declared, method, None)
    return callable(call) and not getattr(call, "__isabstractmethod__", False)


def _lifecycle_of(declared: Any, name: str, release: Version) -> Lifecycle:
    declared_lifecycle = getattr(declared, "lifecycle", None)
    if not declared_lifecycle:
        return Lifecycle((), {})
    try:
        lifecycle = parse_lifecycle(declared_lifecycle, f"{name}.lifecycle")
    except InvalidDocument as error:
        raise RegistrationRefused(name, error.message) from None

    def find(read: Read) -> Listing | None:
        if read.function != name:
            raise LookupError(read.function)  # its support level is in the record of that function
        return lifecycle.versions.get(read.version)

    releases = [release.version for release in lifecycle.releases]
    problems = [
        f"{text_of_path(('lifecycle', *place))}: {message}"
        for place, message in wrong_releases(lifecycle.releases)
    ]
    problems += [
        f"{text_of_path(('lifecycle', 'versions', str(place[0]), *place[1:]))}: {message}"
        for place, message in wrong_listings(lifecycle.versions, releases, release, find)
    ]
    if problems:
        raise RegistrationRefused(name, "; ".join(problems))
    return lifecycle


def _stable_of(
    declared: Any,
    name: str,
    targets: Mapping[Version, Any],
    listings: Mapping[Version, Listing],
    release: Version,
) -> Version:
    stable = _version(name, getattr(declared, "stable_version", None))
    if stable not in targets:
        known_versions = ", ".join(map(str, sorted(targets)))
        raise RegistrationRefused(
            name, f"the stable version {stable} is missing; found {known_versions}"
        )
    for message in wrong_stable({**dict.fromkeys(targets, Listing()), **listings}, stable, release):
        raise RegistrationRefused(name, message)
    return stable


def catalogued_entries(
    catalogue: Catalogue, targets: Mapping[str, Mapping[str, str]], source: Source
) -> list[list[FunctionEntry]]:
    """Join versions.yaml with the code: a list of entries for each function.

    `targets` maps functions and versions to `module:Class`. No code is loaded. Raises
    CatalogueMismatch with all disagreements.
    """
    unlisted = {name: dict(versions) for name, versions in targets.items()}
    families = []
    problems = []
    for name, record in catalogue.functions.items():
        code, kind = unlisted.get(name, {}), FunctionKind(record.kind)
        family = [
            FunctionEntry(
                name,
                version,
                kind,
                source,
                code.pop(str(version), None),
                listing,
                version == record.stable,
            )
            for version, listing in record.versions.items()
        ]
        families.append(family)
        problems += [
            f"{name} {entry.version} is {entry.support_at()}, but there is no code for it"
            for entry in family
            if entry.target is None and entry.support_at() is not Support.REMOVED
        ]
    problems += [
        f"{name} {text} has code, but versions.yaml does not list it"
        for name, code in unlisted.items()
        for text in code
    ]
    if problems:
        raise CatalogueMismatch("the released functions", "; ".join(sorted(problems)))
    return families
