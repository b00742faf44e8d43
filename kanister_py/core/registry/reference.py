"""Reference of functions: versions, arguments, outputs, and differences between versions.

The results are JSON data for the command line, the HTTP API and the web page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kanister_py.core.registry.entries import (
    Family,
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Origin,
    Source,
)
from kanister_py.core.versions.deprecation import Listing, Support


def function_summary(family: Family[FunctionEntry]) -> dict[str, Any]:
    """Describe a function and its versions, newest first, without loading code."""
    first = family.candidates[0]
    stable = next((entry for entry in family if entry.is_stable), None)
    return {
        "name": family.function,
        "kind": str(first.kind),
        "source": first.source.name,
        "origin": str(first.origin),
        "release": first.source.release.bare,
        "stableVersion": str(stable.version) if stable else None,
        "defaultVersion": str(family.default.version) if family.default else None,
        "versions": [_version_summary(entry) for entry in family],
    }


def _version_summary(entry: FunctionEntry) -> dict[str, Any]:
    """Describe the support level of a version."""
    listing = entry.listing
    summary: dict[str, Any] = {
        "version": str(entry.version),
        "status": status_of(entry),
        "stable": entry.is_stable,
        "prerelease": entry.version.is_prerelease,
        **_window_of(listing, entry.source),
    }
    if listing.renamed_args:
        summary["renamedArgs"] = dict(listing.renamed_args)
    if listing.reads:
        summary["reads"] = [str(version_range) for version_range in listing.reads]
    if listing.message:
        summary["message"] = listing.message
    return summary


def _window_of(listing: Listing, source: Source) -> dict[str, str]:
    window = {}
    for key, release in listing.releases.items():
        window[key] = release.bare
        release_record = source.release_on(release)
        if release_record is not None and release_record.date is not None:
            window[f"{key}Date"] = release_record.date.isoformat()
    if listing.replacement is not None:
        window["replacement"] = str(listing.replacement)
    return window


def revision_summary(revision: FunctionRevision) -> dict[str, Any]:
    """Describe the origin, code and support level of a revision."""
    entry = revision.entry
    version = str(revision.version or "")
    # The tag may name a version that does not exist here.
    is_unknown = entry is None and revision.origin is not Origin.PACKAGE
    text = f"{entry.function} {entry.version}" if entry is not None else version
    return {
        "origin": str(revision.origin),
        "version": version or None,
        "runs": "" if is_unknown else text,
        "status": None if is_unknown else str(revision.support_at()),
        **_window_of(revision.listing, revision.source),
    }


def status_of(entry: FunctionEntry) -> str:
    """Return the status of a version: stable, served, deprecated, removed or planned."""
    support = entry.support_at()
    return "stable" if entry.is_stable and support is Support.SERVED else str(support)


def version_reference(entry: FunctionEntry, code: type[Any] | None) -> dict[str, Any]:
    """Describe a version. Arguments and outputs are included if `code` is not None."""
    reference = {
        "name": entry.function,
        "kind": str(entry.kind),
        "source": entry.source.name,
        "origin": str(entry.origin),
        **_version_summary(entry),
    }
    if code is None:
        return reference
    lines = (code.__doc__ or "").strip().splitlines()
    reference["description"] = "\n".join(line.strip() for line in lines)
    if entry.kind is FunctionKind.COMPOSITION:
        # Composition functions return a desired state, and have no named outputs.
        described = getattr(code, "described_input", lambda: getattr(code, "Input", None))
        return {**reference, "arguments": _fields_of(described(), nested=True), "outputs": []}
    if hasattr(code, "on_restart"):
        reference["onRestart"] = str(code.on_restart)
    outputs = getattr(code, "Outputs", None)
    config = getattr(outputs, "model_config", {}) if isinstance(outputs, type) else {}
    return {
        **reference,
        "arguments": _fields_of(getattr(code, "Args", None)),
        "outputs": _fields_of(outputs),
        "freeOutputs": config.get("extra") == "allow",
    }


def _fields_of(model: Any, *, nested: bool = False) -> list[dict[str, Any]]:
    """Describe the fields of a model. With `nested`, also inner fields:
    `resources[].patches[].type`.
    """
    if not hasattr(model, "model_json_schema"):
        return []
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    if nested:
        return list(_fields_inside(schema, definitions, "", {}))
    return [described for _, described in _described_fields(schema, definitions)]


def _fields_inside(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    prefix: str,
    first_names: dict[str, str],
) -> Iterable[dict[str, Any]]:
    for field, described in _described_fields(schema, definitions):
        name = f"{prefix}{described['name']}"
        suffix, model = _model_within(field)
        inner = definitions.get(model, {})
        if "properties" not in inner:
            yield {**described, "name": name}
            continue
        kind = _CONTAINERS[suffix]
        if model in first_names:
            # A model is described once, at its first use, because it may contain itself.
            yield {**described, "name": name, "type": f"{kind} as {first_names[model]}"}
            continue
        first_names[model] = f"{name}{suffix}"
        yield {**described, "name": name, "type": kind}
        yield from _fields_inside(inner, definitions, f"{name}{suffix}.", first_names)


_CONTAINERS = {"": "map", "[]": "list", ".*": "map"}


def _model_within(field: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path suffix and the name of the model of a field, its members or its values."""
    for schema in (field, *field.get("anyOf", ())):
        for suffix, inner in (
            ("", schema),
            ("[]", schema.get("items")),
            (".*", schema.get("additionalProperties")),
        ):
            if isinstance(inner, Mapping) and "$ref" in inner:
                return suffix, str(inner["$ref"]).rpartition("/")[2]
    return "", ""


def _described_fields(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterable[tuple[Mapping[str, Any], dict[str, Any]]]:
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        described: dict[str, Any] = {
            "name": name,
            "type": type_text(field, definitions),
            "required": name in required,
        }
        if "default" in field and field["default"] is not None:
            described["default"] = field["default"]
        described["description"] = field.get("description", "")
        yield field, described


_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
}


def type_text(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the name of a type for authors: `list of text`, `map of text`."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return type_text({"title": name, **definitions.get(name, {})}, definitions)
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds = [type_text(option, definitions) for option in schema[key]]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "nothing"))
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"list of {type_text(items, definitions)}" if items else "list"
    if kind == "object":
        if "properties" in schema:
            return "map with " + ", ".join(schema["properties"])
        values = schema.get("additionalProperties")
        has_type = isinstance(values, Mapping) and values
        return f"map of {type_text(values, definitions)}" if has_type else "map"  # type: ignore[arg-type]  # has_type checks for a Mapping
    return _TYPES.get(str(kind), "anything")


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], renamed: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """List the changes for a Blueprint that moves from one version to another.

    Both are results of `version_reference`. `renamed` maps old argument names to new ones; default:
    the names in the record of the old version, if the new version is its replacement. Breaking
    changes come first.
    """
    if renamed is None:
        renamed = old.get("renamedArgs", {}) if old.get("replacement") == new["version"] else {}
    changes = [
        *_argument_changes(_by_name(old, "arguments"), _by_name(new, "arguments"), renamed),
        *_output_changes(old, new),
    ]
    if old.get("onRestart") != new.get("onRestart"):
        changes.append(
            _change(
                "restart-changed",
                "onRestart",
                f"After a restart: {old.get('onRestart')} before, {new.get('onRestart')} now",
            )
        )
    ordered = sorted(
        changes, key=lambda change: (not change["breaking"], change["what"], change["name"])
    )
    # The `message` in the record of a version describes its changes of behaviour.
    if new.get("message") and new["message"] != old.get("message"):
        ordered.append(_change("behaviour", new["version"], str(new["message"])))
    return ordered


def _by_name(reference: Mapping[str, Any], part: str) -> dict[str, Mapping[str, Any]]:
    return {field["name"]: field for field in reference.get(part, ())}


def _change(what: str, name: str, message: str, *, breaking: bool = False) -> dict[str, Any]:
    return {"what": what, "name": name, "breaking": breaking, "message": message}


_breaking = partial(_change, breaking=True)


def _argument_changes(
    old: Mapping[str, Mapping[str, Any]],
    new: Mapping[str, Mapping[str, Any]],
    renamed: Mapping[str, str],
) -> Iterable[dict[str, Any]]:
    for name, argument in old.items():
        if name in new:
            yield from _argument_change(name, argument, new[name])
        elif renamed.get(name) in new:
            yield _breaking(
                "argument-renamed",
                name,
                f"Argument {name} is now {renamed[name]}; `kanister-py upgrade` renames it",
            )
            yield from _argument_change(renamed[name], argument, new[renamed[name]])
        else:
            yield _breaking("argument-removed", name, f"Argument {name} was removed")
    for name, argument in new.items():
        if name in old or name in renamed.values():
            continue
        if argument["required"]:
            yield _breaking("argument-required", name, f"Argument {name} is new and required")
        else:
            default = f"; its default is {_shown(argument)}" if "default" in argument else ""
            yield _change("argument-added", name, f"Argument {name} is new{default}")


def _argument_change(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterable[dict[str, Any]]:
    if old["type"] != new["type"]:
        yield _change(
            "type-changed",
            name,
            f"Argument {name} was {old['type']}, is {new['type']}",
            # Compatible if the new type accepts the old one as an alternative.
            breaking=old["type"] not in new["type"].partition(" of ")[0].split(" or "),
        )
    if new["required"] and not old["required"]:
        yield _breaking("argument-required", name, f"Argument {name} is now required")
    elif old["required"] and not new["required"]:
        yield _change("argument-optional", name, f"Argument {name} is optional now")
    elif old.get("default") != new.get("default"):
        yield _breaking(
            "default-changed",
            name,
            f"The default of argument {name} was {_shown(old)}, is {_shown(new)}",
        )


def _shown(argument: Mapping[str, Any]) -> str:
    return (
        json.dumps(argument["default"], ensure_ascii=False) if "default" in argument else "nothing"
    )


def _output_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    before, after = _by_name(old, "outputs"), _by_name(new, "outputs")
    for name, output in before.items():
        if name not in after:
            if not new.get("freeOutputs"):
                yield _breaking("output-removed", name, f"Output {name} was removed")
        elif output["type"] != after[name]["type"]:
            yield _breaking(
                "output-changed",
                name,
                f"Output {name} was {output['type']}, is {after[name]['type']}",
            )
    if old.get("freeOutputs") and not new.get("freeOutputs"):
        yield _breaking("outputs-closed", "outputs", "Only declared outputs are allowed")
    for name in after:
        if name not in before:
            yield _change("output-added", name, f"Output {name} is new")
