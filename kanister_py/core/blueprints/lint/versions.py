"""Versions that phases ask for, and whether they would still get them."""

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
from kanister_py.core.registry.choose import Asked, Choice, choose_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind
from kanister_py.core.versions.catalogue import TRAP_ANNOTATION
from kanister_py.core.versions.semver import parse_version

REMOVED = Rule(
    "version-removed",
    Severity.ERROR,
    "A phase asks for a version of a function that was removed.",
    "A removed version has no code any more: the phase fails before anything runs, and "
    "nothing stands in for it. Set funcVersion to the replacement, which "
    "`kanister-py upgrade --write` does, arguments included where it can. Without a "
    "replacement, look at `kanister-py functions describe` for what the function offers.",
)
DEPRECATED = Rule(
    "version-deprecated",
    Severity.WARNING,
    "A phase asks for a version of a function that will be removed.",
    "The version still works, until the release named in removedIn. Move to the "
    "replacement before that release is installed; `kanister-py upgrade --write` does it. "
    "`kanister-py functions diff` says what else changes between the two.",
)
FALLBACK = Rule(
    "version-fallback",
    Severity.WARNING,
    "A phase asks for a version that does not exist, and gets v0.0.0.",
    "As in Kanister, a version that does not exist falls back to v0.0.0. That hides "
    "misspelt versions and versions of another release. Name one that exists. With "
    "--strict-versions this is an error, here and when the blueprint runs.",
)
NOT_FOUND = Rule(
    "version-not-found",
    Severity.ERROR,
    "No version that may be used answers what a phase asks for.",
    "A range has nothing inside that is served, or the version does not exist and the "
    "function has no v0.0.0 to fall back to. The message lists what there is.",
)
INVALID = Rule(
    "version-invalid",
    Severity.ERROR,
    "A version or range cannot be read.",
    "Versions are SemVer, with or without a leading v: v1.2.3, v1.2.3-rc.1. Ranges are "
    "made of = != > >= < <= ~ ^, with space or comma for and, || for or.",
)
UNKNOWN = Rule(
    "function-unknown",
    Severity.ERROR,
    "No package brings a function of this name.",
    "Names are exact, capitals included. `kanister-py functions list` shows what is "
    "there. A function of your own needs its package installed where the blueprint is "
    "linted and where it runs.",
)
TRAP = Rule(
    "version-trap",
    Severity.INFO,
    "A version does what Kanister does, and that is a trap.",
    "v0.0.0 of a function is what Kanister has: published blueprints rely on it, so it stays "
    "and is not deprecated. The message says what to know of it; a later version mends it, "
    "which `kanister-py functions diff` shows.",
)
RULES = (REMOVED, DEPRECATED, FALLBACK, NOT_FOUND, INVALID, UNKNOWN, TRAP)


def check_version(
    where: Spot, asked: Asked, context: Context, kind: FunctionKind = FunctionKind.BLUEPRINT
) -> tuple[Choice[FunctionEntry] | None, list[Finding]]:
    """Choose the version that a phase or a step gets, and say what a user should hear about it.

    `where` is the place of the version, or of the function's name where none is given.
    Steps of compositions never fall back to v0.0.0.
    """
    function = where.function
    if function not in context.registry:
        near = context.hints.nearest(function, context.function_names)
        return None, [where.finding(UNKNOWN, FunctionNotRegistered(function, near).message)]
    try:
        strict = kind is FunctionKind.COMPOSITION
        choice = choose_version(context.registry, function, asked, at=context.at, strict=strict)
    except FunctionVersionRemoved as error:
        return None, [_removed(where, error, asked.by if strict else "funcVersion", context)]
    except InvalidVersion as error:
        return None, [where.finding(INVALID, str(error), version=asked.text)]
    except FunctionVersionNotFound as error:
        return None, [where.finding(NOT_FOUND, str(error), version=asked.text)]
    if choice.chosen.kind is not kind:
        message = f"{function} is a function of {choice.chosen.kind.plural}, not of {kind.plural}"
        return None, [where.finding(UNKNOWN, message)]
    return choice, list(_noticed(where, asked, choice, context))


def _removed(where: Spot, error: FunctionVersionRemoved, setting: str, context: Context) -> Finding:
    error = FunctionVersionRemoved(
        error.function, error.version, error.removed_in, error.replacement, setting
    )
    family = context.registry.family(error.function)
    entry = family.by_identity[parse_version(error.version)]
    return where.finding(REMOVED, str(error), version=error.version, **_window_of(entry, context))


def _noticed(
    where: Spot, asked: Asked, choice: Choice[FunctionEntry], context: Context
) -> Iterator[Finding]:
    entry = choice.chosen
    if trap := entry.listing.annotations.get(TRAP_ANNOTATION):
        message = f"{entry.function} {entry.version}: {trap}"
        yield where.finding(TRAP, message, version=str(entry.version))
    for notice in choice.notices:
        if notice.reason == "FunctionVersionFallback":
            found = where.finding(FALLBACK, notice.message, version=asked.text)
            if context.is_strict:
                found = found._replace(severity=Severity.ERROR)
            yield found
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
