"""Lint rules for Compositions and Functions: schema and function versions.

Only versions of built-in functions and plugins are checked. Packages of other vendors and the steps
that use them have versions of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import schema_findings
from kanister_py.core.blueprints.lint.versions import check_version
from kanister_py.core.errors import InvalidVersion, did_you_mean
from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import annotations_of, mapping_of, metadata_of, spec_of
from kanister_py.core.registry.choose import Choice, RequestedVersion
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.revisions.functions import PACKAGE_TAG, RENDER_RUNTIME, RUNTIME, Runtime
from kanister_py.core.revisions.substitutes import (
    NO_TAGS,
    OWNER,
    Substitute,
    built_in_named,
    composition_families,
    own_package_function,
    repository_of,
    substitute_for,
    tag_of,
)
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import Path

NOT_A_COMPOSITION = Rule(
    "composition-invalid",
    Severity.ERROR,
    "A Composition is invalid.",
    "`render` and the controller refuse the Composition: nothing of its pipeline runs. The "
    "message names the expected value.",
)
MISSPELT_FUNCTION = Rule(
    "step-function-unknown",
    Severity.INFO,
    "A step names a function that is not built in and resembles one that is.",
    "It is correct if the cluster has a Function of that name: then give lint the file with "
    "the Function too. Otherwise write the name of the built-in function.",
)
NOT_STOOD_FOR = Rule(
    "package-not-stood-for",
    Severity.ERROR,
    "No built-in version is known to replace the release of a package.",
    "`render` still uses the built-in function in place of such a package, with a note. With "
    "--strict-versions, `render` and lint refuse it. Use a release that the message lists, or "
    "set in the Function where it runs.",
)
INPUT = Rule(
    "step-input-invalid",
    Severity.ERROR,
    "A step has an input that its built-in function refuses.",
    "`render` and the controller stop the pipeline at this step for every composite resource. "
    "`kanister-py functions describe` lists the fields of the input. Only the input in the step "
    "is checked, not inputs from a ConfigMap or a registry.",
)
RULES = (NOT_A_COMPOSITION, MISSPELT_FUNCTION, NOT_STOOD_FOR, INPUT)

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apiextensions.crossplane.io": ("Composition", "CompositionRevision"),
    "pkg.crossplane.io": ("Function", "FunctionRevision"),
}
_PREFIX: Final = "function-"


class Package(NamedTuple):
    """Package of a Function: the matching function of the registry, and its tag.

    `function` is empty for packages of other vendors; `stand_in` is the function that `render` uses
    in their place.
    """

    function: str
    tag: str
    stand_in: FunctionEntry | None = None


class VersionRequest(NamedTuple):
    """Place that requests a version of a function of the registry.

    `version` may be a range, or empty for the stable version. `text` is the text at the place. If
    `is_own` is False, the version is defined at another place and checked there.
    """

    spot: Spot
    version: str
    setting: str
    text: str = ""
    is_own: bool = True
    input: Mapping[str, Any] = {}


def is_pipeline(manifest: LocatedObject) -> bool:
    return manifest.kind in _KINDS["apiextensions.crossplane.io"]


def is_of_pipelines(manifest: LocatedObject) -> bool:
    """Return whether an object is a Composition, a Function, or a revision of one."""
    return manifest.kind in _KINDS.get(manifest.group, ())


def packages_of(
    objects: Iterable[LocatedObject], registry: Registry[FunctionEntry]
) -> Mapping[str, Package]:
    """Map the names of Functions and FunctionRevisions to their packages."""
    return {
        str(metadata_of(obj.value).get("name") or ""): _package_of(obj, registry)
        for obj in objects
        if not is_pipeline(obj)
    }


def _package_of(manifest: LocatedObject, registry: Registry[FunctionEntry]) -> Package:
    package, tag = _image_of(manifest)
    is_ours = annotations_of(manifest.value).get(RUNTIME) == Runtime.IN_PROCESS
    name = str(metadata_of(manifest.value).get("name") or "")
    function = own_package_function(registry, name, repository_of(package), is_ours=is_ours)
    stand_in = None if function else _stand_in_of(manifest, registry)
    is_usable = stand_in is not None and not stand_in.doubt(tag)
    return Package(function, tag, stand_in.entry if stand_in and is_usable else None)


def _image_of(manifest: LocatedObject) -> tuple[str, str]:
    """Return the image of a package, and its tag."""
    package = str(spec_of(manifest.value).get(_key_of(manifest)) or "")
    return package, str(annotations_of(manifest.value).get(PACKAGE_TAG) or tag_of(package))


def _key_of(manifest: LocatedObject) -> str:
    return "package" if manifest.kind == "Function" else "image"


def _stand_in_of(manifest: LocatedObject, registry: Registry[FunctionEntry]) -> Substitute | None:
    """Find the function that `render` uses for another vendor's package, if it runs in process."""
    runtime = annotations_of(manifest.value).get(RENDER_RUNTIME, Runtime.IN_PROCESS)
    if runtime != Runtime.IN_PROCESS:
        return None
    package, tag = _image_of(manifest)
    return substitute_for(registry, repository_of(package), tag)


class _Step(NamedTuple):
    """Step of a pipeline."""

    manifest: LocatedObject
    at: int
    data: Mapping[str, Any]

    @property
    def function(self) -> Any:
        return mapping_of(self.data.get("functionRef")).get("name")

    def spot(self, function: str, *path: str | int) -> Spot:
        full_path = ("spec", "pipeline", self.at, *path)
        return Spot(
            self.manifest, full_path, phase=str(self.data.get("step") or ""), function=function
        )


def _steps_of(manifest: LocatedObject) -> Iterator[_Step]:
    pipeline = spec_of(manifest.value).get("pipeline")
    for index, step in enumerate(pipeline if isinstance(pipeline, list) else ()):
        if isinstance(step, dict):
            yield _Step(manifest, index, step)


def version_requests_of(
    manifest: LocatedObject, packages: Mapping[str, Package], registry: Registry[FunctionEntry]
) -> Iterator[VersionRequest]:
    """Yield the places of an object that request versions."""
    if is_pipeline(manifest):
        for step in _steps_of(manifest):
            request = _version_request_of(step, packages, registry)
            if request is not None:
                yield request
        return
    package = _package_of(manifest, registry)
    if package.function:
        key = _key_of(manifest)
        text = str(spec_of(manifest.value).get(key) or "")
        # A revision is generated from its Function, so its version cannot be edited.
        spot = Spot(manifest, ("spec", key), function=package.function)
        yield VersionRequest(
            spot, package.tag, "the tag of spec.package", text, manifest.kind == "Function"
        )


def _version_request_of(
    step: _Step, packages: Mapping[str, Package], registry: Registry[FunctionEntry]
) -> VersionRequest | None:
    name, version = step.function, mapping_of(step.data.get("functionRef")).get("version")
    revision = mapping_of(step.data.get("functionRevisionRef")).get("name")
    package = packages.get(str(name))
    if package is None:
        package = Package(built_in_named(registry, str(name).removeprefix(f"{OWNER}-")), "")
    if not package.function:
        return None
    spot = step.spot(package.function)
    step_input = mapping_of(step.data.get("input"))
    if isinstance(version, str) and version:
        where = spot.at("functionRef", "version")
        return VersionRequest(where, version, "functionRef.version", version, input=step_input)
    by_revision = spot.at("functionRevisionRef", "name")
    if revision in packages:
        setting = "functionRevisionRef to a revision of"
        return VersionRequest(
            by_revision, packages[str(revision)].tag, setting, str(revision), False, step_input
        )
    if str(name) not in packages and (built_in := _built_in_version(str(revision), str(name))):
        setting = "the version in functionRevisionRef.name"
        return VersionRequest(by_revision, built_in, setting, str(revision), input=step_input)
    where, is_own = spot.at("functionRef", "name"), not package.tag
    return VersionRequest(
        where, package.tag, "functionRef.version", is_own=is_own, input=step_input
    )


def _built_in_version(revision: str, function: str) -> str:
    """Return the version in the name of a built-in revision, or an empty string."""
    head, _, version = revision.rpartition(f"{function}-")
    try:
        return version if not head and parse_version(version) else ""
    except InvalidVersion:
        return ""


def check_pipeline(
    manifest: LocatedObject, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    """Check an object against its schema, and the function versions that it requests."""
    version_findings = list(_check_versions(manifest, packages, context))
    yield from version_findings
    if context.is_strict and not is_pipeline(manifest):
        yield from _not_stood_for(manifest, context)
    if is_pipeline(manifest) and "Composition" in context.schema_checks:
        # An invalid version is reported only once, by its own rule.
        reported = {(NOT_A_COMPOSITION.id, finding.path) for finding in version_findings}
        form = schema_findings(manifest, "Composition", NOT_A_COMPOSITION, context)
        yield from (finding for finding in form if (finding.rule, finding.path) not in reported)
        yield from _misspelt_functions(manifest, packages, context)
        for step in _steps_of(manifest):
            yield from _check_input(step, packages, context)


def _check_input(
    step: _Step, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    """Check the input of a step with the code of its built-in function."""
    step_input = step.data.get("input")
    if "inputRef" in step.data or not isinstance(step_input, dict | None):
        return
    entry = _entry_of(step, packages, context)
    refusal_of = None if entry is None else getattr(context.code(entry), "refusal_of", None)
    refusal = None if refusal_of is None else refusal_of(step_input)
    if entry is None or refusal is None:
        return
    path = path_in_input(step.at, refusal.path)
    phase = str(step.data.get("step") or "")
    spot = Spot(step.manifest, path, phase=phase, function=entry.function)
    hint = context.hints.did_you_mean(refusal.word, refusal.allowed) if refusal.word else ""
    where = f"{refusal.path}: " if refusal.path else ""
    message = f"{where}{refusal.message[:1].upper()}{refusal.message[1:]}{hint}"
    yield spot.finding(INPUT, message, version=str(entry.version))


def _entry_of(
    step: _Step, packages: Mapping[str, Package], context: Context
) -> FunctionEntry | None:
    """Return the version that a step gets, or None if it is not in the registry."""
    package = packages.get(str(step.function))
    if package is not None and package.stand_in is not None:
        return package.stand_in
    request = _version_request_of(step, packages, context.registry)
    choice = None if request is None else _choice_for(request, context)[0]
    return None if choice is None else choice.chosen


def _choice_for(
    request: VersionRequest, context: Context
) -> tuple[Choice[FunctionEntry] | None, list[Finding]]:
    requested = RequestedVersion(
        "" if request.version in NO_TAGS else request.version, request.setting
    )
    return check_version(request.spot, requested, context, FunctionKind.COMPOSITION)


def path_in_input(index: int, path: str) -> Path:
    """Return the path in a Composition for a path in the input of a step."""
    try:
        steps = parse_field_path(path).steps
    except FieldPathError:
        steps = ()
    return ("spec", "pipeline", index, "input", *steps)


def _check_versions(
    manifest: LocatedObject, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    for request in version_requests_of(manifest, packages, context.registry):
        is_reference = request.spot.path[-2:] == ("functionRevisionRef", "name")
        if request.is_own or is_reference or manifest.kind == "FunctionRevision":
            yield from _choice_for(request, context)[1]


def _not_stood_for(manifest: LocatedObject, context: Context) -> Iterator[Finding]:
    if annotations_of(manifest.value).get(RUNTIME) == Runtime.IN_PROCESS:
        return  # its tag is a version of ours
    package, tag = _image_of(manifest)
    stand_in = _stand_in_of(manifest, context.registry)
    if stand_in is not None and (doubt := stand_in.doubt(tag)):
        spot = Spot(manifest, ("spec", _key_of(manifest)), function=stand_in.entry.function)
        yield spot.finding(
            NOT_STOOD_FOR, f"No built-in version is known to replace {package}: {doubt}"
        )


def _misspelt_functions(
    manifest: LocatedObject, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    # Compare names without the common prefix, which makes all names similar.
    names = {
        family.function.removeprefix(_PREFIX): family.function
        for family in composition_families(context.registry)
    }
    for step in _steps_of(manifest):
        name = step.function
        if not isinstance(name, str) or not name or name in packages:
            continue
        bare = name.removeprefix(f"{OWNER}-")
        if bare in names.values():
            continue
        near = context.hints.nearest(bare.removeprefix(_PREFIX), [*names])
        if near:
            hint = did_you_mean([names[name] for name in near])
            message = f"No built-in function is called {name}{hint}"
            spot = step.spot(name, "functionRef", "name")
            yield spot.finding(MISSPELT_FUNCTION, message)
