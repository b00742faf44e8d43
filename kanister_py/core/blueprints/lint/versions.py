"""Lint rules for the function versions that phases request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.replacements import replacement_of
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
)
from kanister_py.core.registry.choose import Choice, RequestedVersion, choose_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind
from kanister_py.core.versions.catalogue import TRAP_ANNOTATION
from kanister_py.core.versions.semver import parse_version

REMOVED = Rule(
    "version-removed",
    Severity.ERROR,
    "A phase requests a removed version of a function.",
    "A removed version has no code, so the phase fails before anything runs, and no other "
    "version is used in its place. Set funcVersion to the replacement; `kanister-py upgrade "
    "--write` does it, and renames arguments where it can. Without a replacement, "
    "`kanister-py functions describe` lists the versions of the function.",
)
DEPRECATED = Rule(
    "version-deprecated",
    Severity.WARNING,
    "A phase requests a deprecated version of a function.",
    "The version works until the release named in removedIn. Move to the replacement before "
    "that release is installed; `kanister-py upgrade --write` does it. "
    "`kanister-py functions diff` lists the other differences between the two.",
)
FALLBACK = Rule(
    "version-fallback",
    Severity.WARNING,
    "A phase requests a version that does not exist, and gets v0.0.0.",
    "As in Kanister, a version that does not exist falls back to v0.0.0. That hides "
    "misspelt versions and versions of another release. Request an existing version. With "
    "--strict-versions this is an error, in lint and at run time.",
)
NOT_FOUND = Rule(
    "version-not-found",
    Severity.ERROR,
    "No available version matches the request of a phase.",
    "The range matches no supported version, or the version does not exist and the "
    "function has no v0.0.0 to fall back to. The message lists the available versions.",
)
INVALID = Rule(
    "version-invalid",
    Severity.ERROR,
    "A version or range is invalid.",
    "Versions are SemVer, with or without a leading v: v1.2.3, v1.2.3-rc.1. Ranges are "
    "made of = != > >= < <= ~ ^, with space or comma for and, || for or.",
)
UNKNOWN = Rule(
    "function-unknown",
    Severity.ERROR,
    "No installed package has a function of this name.",
    "Names are exact, including capitals. `kanister-py functions list` lists the functions. "
    "The package of a function of your own must be installed where the Blueprint is "
    "linted and where it runs.",
)
TRAP = Rule(
    "version-trap",
    Severity.INFO,
    "A version has a known pitfall that it shares with Kanister.",
    "v0.0.0 of a function behaves like Kanister's: published Blueprints rely on it, so it is "
    "not deprecated. The message explains the pitfall; a later version avoids it, which "
    "`kanister-py functions diff` shows.",
)
RULES = (REMOVED, DEPRECATED, FALLBACK, NOT_FOUND, INVALID, UNKNOWN, TRAP)


def check_version(
    where: Spot,
    requested: RequestedVersion,
    context: Context,
    kind: FunctionKind = FunctionKind.BLUEPRINT,
) -> tuple[Choice[FunctionEntry] | None, list[Finding]]:
    """Choose the function version of a phase or a step; also return findings about the choice.

    `where` is the place of the version, or of the function name if no version is requested. Steps
    of Compositions never fall back to v0.0.0.
    """
    function = where.function
    if function not in context.registry:
        near = context.hints.nearest(function, context.function_names)
        return None, [where.finding(UNKNOWN, FunctionNotRegistered(function, near).message)]
    try:
        strict = kind is FunctionKind.COMPOSITION
        choice = choose_version(context.registry, function, requested, at=context.at, strict=strict)
    except FunctionVersionRemoved as error:
        return None, [_removed(where, error, requested.by if strict else "funcVersion", context)]
    except InvalidVersion as error:
        return None, [where.finding(INVALID, str(error), version=requested.text)]
    except FunctionVersionNotFound as error:
        return None, [where.finding(NOT_FOUND, str(error), version=requested.text)]
    if choice.chosen.kind is not kind:
        message = f"{function} is a function of {choice.chosen.kind.plural}, not of {kind.plural}"
        return None, [where.finding(UNKNOWN, message)]
    return choice, list(_findings_about(where, requested, choice, context))


def _removed(where: Spot, error: FunctionVersionRemoved, setting: str, context: Context) -> Finding:
    error = FunctionVersionRemoved(
        error.function, error.version, error.removed_in, error.replacement, setting
    )
    family = context.registry.family(error.function)
    entry = family.by_identity[parse_version(error.version)]
    return where.finding(REMOVED, str(error), version=error.version, **_window_of(entry, context))


def _findings_about(
    where: Spot, requested: RequestedVersion, choice: Choice[FunctionEntry], context: Context
) -> Iterator[Finding]:
    entry = choice.chosen
    if trap := entry.listing.annotations.get(TRAP_ANNOTATION):
        message = f"{entry.function} {entry.version}: {trap}"
        yield where.finding(TRAP, message, version=str(entry.version))
    for notice in choice.notices:
        if notice.reason == "FunctionVersionFallback":
            finding = where.finding(FALLBACK, notice.message, version=requested.text)
            if context.is_strict:
                finding = finding._replace(severity=Severity.ERROR)
            yield finding
        else:
            window = _window_of(entry, context)
            hint = "" if window["replacement"] else "; no version replaces it"
            message = f"{notice.message}{hint}"
            yield where.finding(DEPRECATED, message, version=str(entry.version), **window)


def _window_of(entry: FunctionEntry, context: Context) -> Mapping[str, str]:
    listing = entry.listing
    family = context.registry.family(entry.function)
    replacement = replacement_of(family, entry, context.at)
    return {
        "replacement": str(replacement.entry.version) if replacement else "",
        "deprecated_in": listing.deprecated_in.bare if listing.deprecated_in else "",
        "removed_in": listing.removed_in.bare if listing.removed_in else "",
    }
