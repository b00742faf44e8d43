"""Compositions and Functions: their form, and the versions of functions that they ask for.

Of versions, only our numbers are judged: those of functions that come with us or with plugins.
A package of others keeps its own, and so do the steps that name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import check_form
from kanister_py.core.blueprints.lint.versions import check_version
from kanister_py.core.errors import InvalidVersion, did_you_mean
from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.core.kube.objects import Found
from kanister_py.core.kube.parts import annotations_of, mapping_of, metadata_of, spec_of
from kanister_py.core.registry.choose import Asked, Choice
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.revisions.functions import PACKAGE_TAG, RENDER_RUNTIME, RUNTIME, Runtime
from kanister_py.core.revisions.stand_ins import (
    NO_TAGS,
    OWNER,
    StandIn,
    composition_families,
    named_here,
    own_function,
    repository_of,
    stand_in_for,
    tag_of,
)
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import Path

NOT_A_COMPOSITION = Rule(
    "composition-invalid",
    Severity.ERROR,
    "A Composition says something that its pipeline cannot run with.",
    "`render` and the controller refuse the Composition: nothing of its pipeline runs. The "
    "message says what belongs there.",
)
MISSPELT_FUNCTION = Rule(
    "step-function-unknown",
    Severity.INFO,
    "A step names a function that is not built in, but has nearly the name of one that is.",
    "A cluster may have a Function of that name, and then all is well. Give lint the file "
    "with the Function too, or write the name of the built-in one.",
)
NOT_STOOD_FOR = Rule(
    "package-not-stood-for",
    Severity.ERROR,
    "No built-in version is known to stand for the release of a package.",
    "`render` puts the built-in function in for such a package all the same, with a note; with "
    "--strict-versions it refuses, as does this. Name a release that the message lists, or have "
    "the Function say where it runs.",
)
INPUT = Rule(
    "step-input-invalid",
    Severity.ERROR,
    "A step hands a built-in function an input that it refuses.",
    "`render` and the controller end the pipeline at this step, whatever the composite resource "
    "says. `kanister-py functions describe` lists what a function takes. Only what stands in the "
    "step is judged, never what comes from a ConfigMap or a registry.",
)
RULES = (NOT_A_COMPOSITION, MISSPELT_FUNCTION, NOT_STOOD_FOR, INPUT)

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apiextensions.crossplane.io": ("Composition", "CompositionRevision"),
    "pkg.crossplane.io": ("Function", "FunctionRevision"),
}
_PREFIX: Final = "function-"


class Package(NamedTuple):
    """The package of a Function: which function of the registry it is, and its tag.

    `function` is empty for one of others. `stand_in` is what `render` puts in for that.
    """

    function: str
    tag: str
    stand_in: FunctionEntry | None = None


class Ask(NamedTuple):
    """A place where a version of a function of the registry is asked for.

    `version` may be a range, or empty for the stable one. `text` is what stands in the
    place. Where it is not `is_own`, the version stands elsewhere and is judged there.
    """

    spot: Spot
    version: str
    setting: str
    text: str = ""
    is_own: bool = True
    input: Mapping[str, Any] = {}


def is_pipeline(found: Found) -> bool:
    return found.kind in _KINDS["apiextensions.crossplane.io"]


def is_of_pipelines(found: Found) -> bool:
    """Say whether an object is a Composition or a Function, or a revision of either."""
    return found.kind in _KINDS.get(found.group, ())


def packages_of(
    objects: Iterable[Found], registry: Registry[FunctionEntry]
) -> Mapping[str, Package]:
    """Say of each Function and FunctionRevision, by its name, which package it is."""
    return {
        str(metadata_of(found.value).get("name") or ""): _package_of(found, registry)
        for found in objects
        if not is_pipeline(found)
    }


def _package_of(found: Found, registry: Registry[FunctionEntry]) -> Package:
    package, tag = _image_of(found)
    is_ours = annotations_of(found.value).get(RUNTIME) == Runtime.IN_PROCESS
    name = str(metadata_of(found.value).get("name") or "")
    function = own_function(registry, name, repository_of(package), is_ours=is_ours)
    other = None if function else _stood_for(found, registry)
    stand_in = other.entry if other is not None and not other.doubt(tag) else None
    return Package(function, tag, stand_in)


def _image_of(found: Found) -> tuple[str, str]:
    """Give the image of a package, and its tag."""
    package = str(spec_of(found.value).get(_key_of(found)) or "")
    return package, str(annotations_of(found.value).get(PACKAGE_TAG) or tag_of(package))


def _key_of(found: Found) -> str:
    return "package" if found.kind == "Function" else "image"


def _stood_for(found: Found, registry: Registry[FunctionEntry]) -> StandIn | None:
    """Find what `render` puts in for a package of others, unless that runs elsewhere."""
    runtime = annotations_of(found.value).get(RENDER_RUNTIME, Runtime.IN_PROCESS)
    if runtime != Runtime.IN_PROCESS:
        return None
    package, tag = _image_of(found)
    return stand_in_for(registry, repository_of(package), tag)


class _Step(NamedTuple):
    """One step of a pipeline, as it is written."""

    found: Found
    at: int
    data: Mapping[str, Any]

    @property
    def function(self) -> Any:
        return mapping_of(self.data.get("functionRef")).get("name")

    def spot(self, function: str, *path: str | int) -> Spot:
        whole = ("spec", "pipeline", self.at, *path)
        return Spot(self.found, whole, phase=str(self.data.get("step") or ""), function=function)


def _steps_of(found: Found) -> Iterator[_Step]:
    pipeline = spec_of(found.value).get("pipeline")
    for index, step in enumerate(pipeline if isinstance(pipeline, list) else ()):
        if isinstance(step, dict):
            yield _Step(found, index, step)


def asks_of(
    found: Found, packages: Mapping[str, Package], registry: Registry[FunctionEntry]
) -> Iterator[Ask]:
    """Find where an object asks for versions."""
    if is_pipeline(found):
        for step in _steps_of(found):
            ask = _ask_of(step, packages, registry)
            if ask is not None:
                yield ask
        return
    package = _package_of(found, registry)
    if package.function:
        key = _key_of(found)
        text = str(spec_of(found.value).get(key) or "")
        # A revision is made of its Function: there is nothing in it to change.
        spot = Spot(found, ("spec", key), function=package.function)
        yield Ask(spot, package.tag, "the tag of spec.package", text, found.kind == "Function")


def _ask_of(
    step: _Step, packages: Mapping[str, Package], registry: Registry[FunctionEntry]
) -> Ask | None:
    name, version = step.function, mapping_of(step.data.get("functionRef")).get("version")
    named = mapping_of(step.data.get("functionRevisionRef")).get("name")
    package = packages.get(str(name))
    if package is None:
        package = Package(named_here(registry, str(name).removeprefix(f"{OWNER}-")), "")
    if not package.function:
        return None
    spot = step.spot(package.function)
    given = mapping_of(step.data.get("input"))
    if isinstance(version, str) and version:
        where = spot.at("functionRef", "version")
        return Ask(where, version, "functionRef.version", version, input=given)
    by_revision = spot.at("functionRevisionRef", "name")
    if named in packages:
        setting = "functionRevisionRef to a revision of"
        return Ask(by_revision, packages[str(named)].tag, setting, str(named), False, given)
    if str(name) not in packages and (built_in := _built_in_version(str(named), str(name))):
        setting = "the version in functionRevisionRef.name"
        return Ask(by_revision, built_in, setting, str(named), input=given)
    where, is_own = spot.at("functionRef", "name"), not package.tag
    return Ask(where, package.tag, "functionRef.version", is_own=is_own, input=given)


def _built_in_version(revision: str, function: str) -> str:
    """Give the version that stands in the name of a built-in revision; empty if none does."""
    head, _, version = revision.rpartition(f"{function}-")
    try:
        return version if not head and parse_version(version) else ""
    except InvalidVersion:
        return ""


def check_pipeline(
    found: Found, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    """Say what is wrong with the form of an object, and what became of the versions it asks for."""
    asked = list(_check_versions(found, packages, context))
    yield from asked
    if context.is_strict and not is_pipeline(found):
        yield from _not_stood_for(found, context)
    if is_pipeline(found) and "Composition" in context.readers:
        # A version that cannot be read is reported once, by the rule that is about it.
        reported = {(NOT_A_COMPOSITION.id, each.path) for each in asked}
        form = check_form(found, "Composition", NOT_A_COMPOSITION, context)
        yield from (each for each in form if (each.rule, each.path) not in reported)
        yield from _misspelt_functions(found, packages, context)
        for step in _steps_of(found):
            yield from _check_input(step, packages, context)


def _check_input(
    step: _Step, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    """Have the code of a built-in function read the input of a step."""
    given = step.data.get("input")
    if "inputRef" in step.data or not isinstance(given, dict | None):
        return
    entry = _entry_of(step, packages, context)
    read = None if entry is None else getattr(context.code(entry), "refusal_of", None)
    refused = None if read is None else read(given)
    if entry is None or refused is None:
        return
    path = path_in_input(step.at, refused.path)
    phase = str(step.data.get("step") or "")
    spot = Spot(step.found, path, phase=phase, function=entry.function)
    meant = context.hints.did_you_mean(refused.word, refused.known) if refused.word else ""
    where = f"{refused.path}: " if refused.path else ""
    message = f"{where}{refused.message[:1].upper()}{refused.message[1:]}{meant}"
    yield spot.finding(INPUT, message, version=str(entry.version))


def _entry_of(
    step: _Step, packages: Mapping[str, Package], context: Context
) -> FunctionEntry | None:
    """Give the version that a step gets, if it is known to be one of the registry."""
    package = packages.get(str(step.function))
    if package is not None and package.stand_in is not None:
        return package.stand_in
    ask = _ask_of(step, packages, context.registry)
    choice = None if ask is None else _choice_for(ask, context)[0]
    return None if choice is None else choice.chosen


def _choice_for(ask: Ask, context: Context) -> tuple[Choice[FunctionEntry] | None, list[Finding]]:
    asked = Asked("" if ask.version in NO_TAGS else ask.version, ask.setting)
    return check_version(ask.spot, asked, context, FunctionKind.COMPOSITION)


def path_in_input(index: int, path: str) -> Path:
    """Say where in a Composition a path of the input of a step is."""
    try:
        steps = parse_field_path(path).steps
    except FieldPathError:
        steps = ()
    return ("spec", "pipeline", index, "input", *steps)


def _check_versions(
    found: Found, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    for ask in asks_of(found, packages, context.registry):
        is_reference = ask.spot.path[-2:] == ("functionRevisionRef", "name")
        if ask.is_own or is_reference or found.kind == "FunctionRevision":
            yield from _choice_for(ask, context)[1]


def _not_stood_for(found: Found, context: Context) -> Iterator[Finding]:
    if annotations_of(found.value).get(RUNTIME) == Runtime.IN_PROCESS:
        return  # its tag is our number
    package, tag = _image_of(found)
    other = _stood_for(found, context.registry)
    if other is not None and (doubt := other.doubt(tag)):
        spot = Spot(found, ("spec", _key_of(found)), function=other.entry.function)
        yield spot.finding(NOT_STOOD_FOR, f"No version stands in for {package}: {doubt}")


def _misspelt_functions(
    found: Found, packages: Mapping[str, Package], context: Context
) -> Iterator[Finding]:
    # All names begin alike: compared as they are, any two would be near.
    names = {
        each.function.removeprefix(_PREFIX): each.function
        for each in composition_families(context.registry)
    }
    for step in _steps_of(found):
        name = step.function
        if not isinstance(name, str) or not name or name in packages:
            continue
        bare = name.removeprefix(f"{OWNER}-")
        if bare in names.values():
            continue
        near = context.hints.nearest(bare.removeprefix(_PREFIX), [*names])
        if near:
            meant = did_you_mean([names[each] for each in near])
            message = f"No built-in function is called {name}{meant}"
            spot = step.spot(name, "functionRef", "name")
            yield spot.finding(MISSPELT_FUNCTION, message)
