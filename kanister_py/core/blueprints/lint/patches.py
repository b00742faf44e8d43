"""Lint rule for patches: field paths that the schema of an XR or composed resource lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.kube.field_paths import (
    WILDCARD,
    FieldPathError,
    Step,
    parse_field_path,
    write_steps,
)
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import mapping_of, spec_of
from kanister_py.core.yaml.documents import Path

UNKNOWN_FIELD = Rule(
    "patch-field-unknown",
    Severity.ERROR,
    "A patch reads or writes a field that the schema lacks.",
    "An API server refuses or drops unknown fields, so the patch has no effect. Schemas come from "
    "the CompositeResourceDefinitions and CustomResourceDefinitions among the given files.",
)
RULES = (UNKNOWN_FIELD,)

_INPUT_GROUP: Final = "pt.fn.crossplane.io"
_FROM_COMPOSITE: Final = ("FromCompositeFieldPath", "CombineFromComposite")
_TO_COMPOSITE: Final = ("ToCompositeFieldPath", "CombineToComposite")
_TO_ENVIRONMENT: Final = ("ToEnvironmentFieldPath", "CombineToEnvironment")
_FROM_ENVIRONMENT: Final = ("FromEnvironmentFieldPath", "CombineFromEnvironment")

Kind = tuple[str, str]
"""API version and kind."""
Schemas = Mapping[Kind, Mapping[str, Any]]


def schemas_of(definitions: Iterable[LocatedObject], context: Context) -> Schemas:
    """Map the kinds of CRDs and CompositeResourceDefinitions to their schemas."""
    schemas: dict[Kind, Mapping[str, Any]] = {}
    for definition in definitions:
        spec = spec_of({} if context.crd_of is None else context.crd_of(definition))
        kind = str(mapping_of(spec.get("names")).get("kind"))
        for version in spec.get("versions") or ():
            schema = mapping_of(mapping_of(version.get("schema")).get("openAPIV3Schema"))
            schemas[f"{spec.get('group')}/{version.get('name')}", kind] = schema
    return schemas


class _Patch(NamedTuple):
    """Patch of a resource, with the schemas of both sides as far as they are known."""

    data: Mapping[str, Any]
    path: Path
    composite: Mapping[str, Any]
    composed: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.data.get("type") or _FROM_COMPOSITE[0])

    @property
    def source(self) -> Mapping[str, Any]:
        if self.type in _FROM_COMPOSITE:
            return self.composite
        return self.composed if self.type in (*_TO_COMPOSITE, *_TO_ENVIRONMENT) else {}

    @property
    def target(self) -> Mapping[str, Any]:
        if self.type in _TO_COMPOSITE:
            return self.composite
        return self.composed if self.type in (*_FROM_COMPOSITE, *_FROM_ENVIRONMENT) else {}

    def field_paths(self) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
        """Yield the field paths of a patch: their places, texts and schemas."""
        path, source, target = self.data.get("fromFieldPath"), self.source, self.target
        if isinstance(path, str):
            yield (*self.path, "fromFieldPath"), path, source
        variables = mapping_of(self.data.get("combine")).get("variables")
        for index, variable in enumerate(variables if isinstance(variables, list) else ()):
            inside = mapping_of(variable).get("fromFieldPath")
            if isinstance(inside, str):
                place = (*self.path, "combine", "variables", index, "fromFieldPath")
                yield place, inside, source
        target_path = self.data.get("toFieldPath")
        if isinstance(target_path, str):
            yield (*self.path, "toFieldPath"), target_path, target
        elif isinstance(path, str):
            yield (*self.path, "fromFieldPath"), path, target


def check_patches(
    composition: LocatedObject, schemas: Schemas, context: Context
) -> Iterator[Finding]:
    """Check the patches of a Composition against the schemas of the given definitions."""
    spec = spec_of(composition.value)
    reference = mapping_of(spec.get("compositeTypeRef"))
    xr_kind = (str(reference.get("apiVersion")), str(reference.get("kind")))
    composite = schemas.get(xr_kind, {})
    pipeline = spec.get("pipeline")
    for index, step in enumerate(pipeline if isinstance(pipeline, list) else ()):
        function_input = mapping_of(mapping_of(step).get("input"))
        if not str(function_input.get("apiVersion")).startswith(f"{_INPUT_GROUP}/"):
            continue
        path: Path = ("spec", "pipeline", index, "input")
        phase = str(mapping_of(step).get("step") or "")
        for patch in _patches_of(function_input, path, composite, schemas):
            for place, text, schema in patch.field_paths():
                message = _problem_of(text, schema, context)
                if message:
                    spot = Spot(composition, place, phase=phase)
                    yield spot.finding(UNKNOWN_FIELD, message)


def _patches_of(
    function_input: Mapping[str, Any], path: Path, composite: Mapping[str, Any], schemas: Schemas
) -> Iterator[_Patch]:
    for key in ("resources", "patchSets"):
        entries = function_input.get(key)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            base = mapping_of(mapping_of(entry).get("base"))
            kind = (str(base.get("apiVersion")), str(base.get("kind")))
            patches = mapping_of(entry).get("patches")
            for number, patch in enumerate(patches if isinstance(patches, list) else ()):
                if isinstance(patch, dict):
                    place = (*path, key, index, "patches", number)
                    yield _Patch(patch, place, composite, schemas.get(kind, {}))


def _problem_of(text: str, schema: Mapping[str, Any], context: Context) -> str:
    try:
        steps = parse_field_path(text).steps
    except FieldPathError:
        return ""  # the rule for inputs reports it
    if not schema or steps[:1] in (("metadata",), ("apiVersion",), ("kind",)):
        return ""
    for position, step in enumerate(steps):
        known_fields = _fields_of(schema)
        inner = _schema_below(schema, step)
        if inner is None and known_fields is not None:
            parent = write_steps(steps[:position]) or "the object"
            hint = context.hints.did_you_mean(str(step), known_fields)
            return f"The schema of {parent} has no field {step}{hint}"
        if not inner:
            return ""
        schema = inner
    return ""


def _fields_of(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the fields of an object, or None if its schema accepts any."""
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get(
        "additionalProperties"
    )
    properties = mapping_of(schema.get("properties"))
    return None if is_open or not properties else [*properties]


def _schema_below(schema: Mapping[str, Any], step: Step) -> Mapping[str, Any] | None:
    if isinstance(step, int) or (step == WILDCARD and "items" in schema):
        return mapping_of(schema.get("items"))
    properties = mapping_of(schema.get("properties"))
    if step in properties:
        return mapping_of(properties[step])
    if step == WILDCARD:
        return {}
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, Mapping) else None
