"""Generator of the CRD manifests: descriptions and fields come from the models.

    python -m tests.crds.generate

Everything else in a manifest is kept: names, columns, CEL rules, the status, and fields of the
originals without a model field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from kanister_py.core.actionsets.model import ActionSet
from kanister_py.core.blueprints.model import Blueprint
from kanister_py.core.blueprints.profiles import ProfileObject
from kanister_py.core.compositions.definitions import Definition
from kanister_py.core.compositions.manifest import CompositionObject
from kanister_py.core.revisions.manifest import FunctionObject, FunctionRevisionObject
from kanister_py.core.schedules.model import ScheduleObject
from kanister_py.core.yaml.documents import dump_yaml, parse_document

FOLDER: Final = Path(__file__).parents[2] / "kanister_py" / "crds"
MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "actionsets": ActionSet,
    "blueprints": Blueprint,
    "compositeresourcedefinitions": Definition,
    "compositionrevisions": CompositionObject,
    "compositions": CompositionObject,
    "functionrevisions": FunctionRevisionObject,
    "functions": FunctionObject,
    "profiles": ProfileObject,
    "schedules": ScheduleObject,
}

Schema = dict[str, Any]
_STANDARD: Final = {
    "apiVersion": "Version of the schema of this object.",
    "kind": "Kind of this object.",
}
_GIVEN: Final = frozenset({*_STANDARD, "metadata"})
"""Fields that every object has, whatever its model says of them."""


def manifest(plural: str) -> Schema:
    path = FOLDER / f"{plural}.yaml"
    read: Schema = parse_document(path.read_bytes(), path.name).value
    return read


def generated(plural: str) -> Schema:
    """Return a manifest with the fields and descriptions of its model."""
    merged = manifest(plural)
    for version in merged["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        model = MODELS.get(plural)
        if model is not None:
            expected = structural_schema(model)
            schema["description"] = expected["description"]
            for key, below in expected["properties"].items():
                if key not in _GIVEN:
                    schema["properties"][key] = _merged(schema["properties"].get(key), below)
        for key, text in _STANDARD.items():
            schema["properties"][key]["description"] = text
        # API servers do not allow a description of the metadata.
        schema["properties"]["metadata"].pop("description", None)
    return merged


def _merged(written: Schema | None, expected: Schema) -> Schema:
    """Merge the fields and descriptions of a model into the schema of a manifest."""
    if written is None:
        return expected
    merged = dict(written)
    if "description" in expected:
        merged["description"] = expected["description"]
    if "properties" in expected and "properties" in written:
        merged["properties"] = {
            **written["properties"],
            **{
                key: _merged(written["properties"].get(key), below)
                for key, below in expected["properties"].items()
            },
        }
    for key in ("items", "additionalProperties"):
        if isinstance(expected.get(key), dict) and isinstance(written.get(key), dict):
            merged[key] = _merged(written[key], expected[key])
    return merged


def undescribed(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the fields without a description."""
    for key, below in schema.get("properties", {}).items():
        if not below.get("description") and (*path, key) != ("metadata",):
            yield ".".join((*path, key))
        yield from undescribed(below, (*path, key))
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from undescribed(schema[key], path)


def disagreements(written: Schema, expected: Schema, path: str = "") -> Iterator[str]:
    """Yield the differences between a manifest and its model."""
    for key in ("type", "minimum", "maximum", "maxLength", "minItems", "maxItems"):
        if key in expected and written.get(key) != expected[key]:
            yield f"{path}: {key} {written.get(key)} of the manifest, {expected[key]} of the model"
    if "enum" in expected and {*written.get("enum", ())} - {""} != {*expected["enum"]}:
        yield f"{path}: enum {written.get('enum')} of the manifest, {expected['enum']} of the model"
    for key, below in expected.get("properties", {}).items():
        if path or key not in _GIVEN:
            yield from disagreements(written["properties"][key], below, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(expected.get(key), dict) and isinstance(written.get(key), dict):
            yield from disagreements(written[key], expected[key], f"{path}[]")


# Models as structural schemas


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model: no references, titles, nulls or defaults."""
    schema = model.model_json_schema()
    return _structural(schema, schema.get("$defs", {}))


def _structural(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        overrides = {key: value for key, value in schema.items() if key != "$ref"}
        return _structural({**target, **overrides}, definitions)
    if "anyOf" in schema:
        (one,) = [part for part in schema["anyOf"] if part.get("type") != "null"]
        overrides = {key: value for key, value in schema.items() if key != "anyOf"}
        return _structural({**one, **overrides}, definitions)
    result: Schema = {}
    for key in ("type", "description", "enum", "minimum", "maximum", "minLength", "maxLength"):
        # A field of several types has no type in a CRD, so its value is preserved.
        if key in schema and not isinstance(schema[key], list if key == "type" else ()):
            result[key] = schema[key]
    for key in ("pattern", "minItems", "maxItems", "required"):
        if key in schema:
            result[key] = schema[key]
    if "properties" in schema:
        result["properties"] = {
            key: _structural(below, definitions) for key, below in schema["properties"].items()
        }
    if "items" in schema:
        result["items"] = _structural(schema["items"], definitions)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) and additional:
        result["additionalProperties"] = _structural(additional, definitions)
    elif additional is True or additional == {} or "type" not in result:
        result["x-kubernetes-preserve-unknown-fields"] = True
    return result


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.yaml")):
        file.write_text(dump_yaml(generated(file.stem)), "utf-8")
