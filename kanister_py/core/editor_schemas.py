"""JSON Schemas of our documents for editors: completion, descriptions and misspelt keys.

The schema of Blueprints has the arguments of every version of every function. Values in a
Blueprint may be templates, and are decoded loosely, so that arguments of any scalar type are
accepted where one is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from kanister_py.core.actionsets.model import ActionSet
from kanister_py.core.blueprints.model import GROUP_VERSION, Blueprint
from kanister_py.core.blueprints.profiles import ProfileObject
from kanister_py.core.compositions.expectations import SuiteFile
from kanister_py.core.compositions.manifest import CompositionObject
from kanister_py.core.kube.objects import Metadata
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.revisions.manifest import (
    FunctionObject,
    FunctionRevisionObject,
    PackageMetadata,
)
from kanister_py.core.schedules.model import ScheduleObject
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version

Schema = dict[str, Any]
LoadCode = Callable[[FunctionEntry], Any]
"""Returns the class of a function's version, or None if it cannot be loaded."""


class Document(NamedTuple):
    """A kind of document: its model, and the apiVersions that it may have."""

    model: type[BaseModel]
    api_versions: tuple[str, ...]


_PACKAGES: Final = ("pkg.crossplane.io/v1", "pkg.crossplane.io/v1beta1")
KINDS: Final[Mapping[str, Document]] = {
    "Blueprint": Document(Blueprint, (GROUP_VERSION,)),
    "ActionSet": Document(ActionSet, (GROUP_VERSION,)),
    "Profile": Document(ProfileObject, (GROUP_VERSION,)),
    "Schedule": Document(ScheduleObject, ("kanister-py.io/v1alpha1",)),
    "Composition": Document(CompositionObject, ("apiextensions.crossplane.io/v1",)),
    "Function": Document(FunctionObject, _PACKAGES),
    "FunctionRevision": Document(FunctionRevisionObject, _PACKAGES),
    "RenderSuite": Document(SuiteFile, ("kanister-py.io/v1alpha1",)),
}

_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_SCALARS: Final = ["string", "number", "boolean", "null"]


def editor_schema(
    kind: str, registry: Registry[FunctionEntry], at: Mapping[str, Version], load: LoadCode
) -> Schema:
    """Build the schema of a kind of document.

    `at` names other releases of packages than the installed ones, by which the support of
    function versions is decided.
    """
    document = KINDS[kind]
    schema = document.model.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    definitions.pop("Metadata", None)
    _close(schema, document.model)
    for below in _models_in(document.model):
        if below.__name__ in definitions:
            _close(definitions[below.__name__], below)
    definitions["Metadata"] = {"type": "object", "description": "Standard metadata of an object."}
    definitions.pop("PackageMetadata", None)
    properties = schema["properties"]
    properties["metadata"] = {"$ref": "#/$defs/Metadata"}
    properties["apiVersion"] = {"enum": [*document.api_versions]}
    properties["kind"] = {"const": kind}
    schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    if kind == "Blueprint":
        _add_functions(definitions, registry, at, load)
    return {"$schema": _DIALECT, **schema, "title": kind}


def _models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models that a model contains, at any depth."""
    seen: set[type[BaseModel]] = set()
    pending: list[Any] = [field.annotation for field in model.model_fields.values()]
    while pending:
        annotation = pending.pop()
        pending += getattr(annotation, "__args__", ())
        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        if is_model and annotation not in seen:
            seen.add(annotation)
            pending += [field.annotation for field in annotation.model_fields.values()]
            yield annotation


def _close(schema: Schema, model: type[BaseModel]) -> None:
    """Forbid unknown keys in a schema. Keys in `other_keys` are allowed."""
    if model in (Metadata, PackageMetadata):
        return
    schema["additionalProperties"] = False
    for key in getattr(model, "other_keys", ()):
        schema["properties"].setdefault(key, {})
    if "status" not in schema["properties"] and "metadata" in schema["properties"]:
        schema["properties"]["status"] = {}


# Functions


def _add_functions(
    definitions: Schema,
    registry: Registry[FunctionEntry],
    at: Mapping[str, Version],
    load: LoadCode,
) -> None:
    names, rules = [], []
    for family in registry:
        entries = [entry for entry in family.candidates if entry.kind is FunctionKind.BLUEPRINT]
        if not entries:
            continue
        names.append(family.function)
        supported = [(entry, entry.support_at(at.get(entry.source.name))) for entry in entries]
        served = [
            (entry, support)
            for entry, support in supported
            if support not in (Support.REMOVED, Support.PLANNED)
        ]
        versions = [_version(entry, support) for entry, support in served]
        # Other text is allowed for ranges and versions of other releases, which lint checks.
        any_version = {"properties": {"funcVersion": {"anyOf": [*versions, {"type": "string"}]}}}
        rules.append(_rule(family.function, None, any_version))
        for entry, _support in served:
            arguments = _arguments(load(entry))
            if arguments is None:
                continue
            name = f"{entry.function}@{entry.version}"
            definitions[name] = arguments
            then = {"properties": {"args": {"$ref": f"#/$defs/{name}"}}}
            rules.append(_rule(entry.function, str(entry.version), then))
            if entry == family.default:
                rules.append(_rule(entry.function, "", then))
    phase = definitions["Phase"]
    phase["properties"]["func"]["examples"] = names
    phase["allOf"] = rules


def _rule(function: str, version: str | None, then: Schema) -> Schema:
    """Build the rule for a function: for one version, for no version (empty), or for any (None)."""
    condition: Schema = {"properties": {"func": {"const": function}}, "required": ["func"]}
    if version:
        condition["properties"]["funcVersion"] = {"const": version}
        condition["required"] = ["func", "funcVersion"]
    elif version == "":
        condition["not"] = {"required": ["funcVersion"]}
    return {"if": condition, "then": then}


def _version(entry: FunctionEntry, support: Support) -> Schema:
    schema: Schema = {"const": str(entry.version)}
    if support is Support.DEPRECATED:
        listing = entry.listing
        replacement = f"; use {listing.replacement}" if listing.replacement else ""
        schema |= {"deprecated": True, "description": f"Deprecated{replacement}."}
    elif entry.is_stable:
        schema["description"] = "The stable version."
    return schema


def _arguments(code: Any) -> Schema | None:
    model = getattr(code, "Args", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    schema: Schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    loose: Schema = _loosened(schema, inner)
    return {**loose, "description": (code.__doc__ or "").strip().partition("\n")[0]}


def _loosened(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return a schema of keys and descriptions, with any scalar for any value."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        # Recursive references are dropped.
        remaining = {key: below for key, below in definitions.items() if key != name}
        target = _loosened(definitions[name], remaining) if name in definitions else {}
        return {**target, **{key: schema[key] for key in ("description",) if key in schema}}
    loose_schema: Schema = {
        key: schema[key]
        for key in ("description", "deprecated", "enum", "default")
        if key in schema
    }
    if "enum" in loose_schema:
        loose_schema = {**loose_schema, "examples": loose_schema.pop("enum")}
    if "properties" in schema:
        loose_schema["properties"] = {
            key: _loosened(below, definitions) for key, below in schema["properties"].items()
        }
        loose_schema["additionalProperties"] = schema.get("additionalProperties", True) is not False
        if loose_schema["additionalProperties"] is False or "required" in schema:
            loose_schema["required"] = schema.get("required", [])
    elif schema.get("type") in ("string", "integer", "number", "boolean"):
        loose_schema["type"] = _SCALARS
    return loose_schema
