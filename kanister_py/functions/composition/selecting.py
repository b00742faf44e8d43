"""Selectors of resources by name or labels, with values from the composite resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.functions.composition.answering import GO_TYPES, Data, Refused
from kanister_py.functions.composition.fields import REQUIRED, TEXT, WHOLE, Field

NO_LABELS: Final[Mapping[str, Any]] = {"matchLabels": {}}
"""Requirement of a selector for whose labels no values were found."""
TYPE: Final = Field(TEXT, "Selection by name or by labels", "Reference", "Reference Selector")
REFERENCE: Final = Field(
    {"name": Field(TEXT, "Name of the object", REQUIRED)},
    "Object to select, for the type Reference",
)
POLICY: Final = Field(
    {
        "resolution": Field(
            TEXT, "Whether a missing object fails the step", "Required", "Required Optional"
        )
    },
    "Policies that apply to all entries",
)


def selector_fields(value_path: str, *places: str) -> dict[str, Field]:
    """Return the fields of a selector by labels.

    `places` are the possible sources of a label's value, `value_path` is the description of
    the field path in them.
    """
    labels = {
        "type": Field(TEXT, "Source of the value", places[0], " ".join([*places, "Value"])),
        "key": Field(TEXT, "Key of the label", REQUIRED),
        "valueFromFieldPath": Field(TEXT, value_path),
        "fromFieldPathPolicy": Field(
            TEXT,
            "Whether the label is omitted if the field has no value",
            "Required",
            "Required Optional",
        ),
        "value": Field(TEXT, "Value of the label, for the type Value"),
    }
    return {
        "minMatch": Field(WHOLE, "Minimum number of matches; fewer fail the step"),
        "maxMatch": Field(WHOLE, "Maximum number of matches; further ones are ignored"),
        "sortByFieldPath": Field(
            TEXT, "Field path of the value that matches are sorted by", "metadata.name"
        ),
        "matchLabels": Field([labels], "Labels that an object must have", []),
    }


def is_selector(source: Mapping[str, Any]) -> bool:
    """Return True if objects are selected by labels, False if by name."""
    return bool(source.get("type", "Reference") == "Selector")


def is_optional(spec: Mapping[str, Any]) -> bool:
    """Return True if referenced objects may be missing."""
    return bool(spec.get("policy", {}).get("resolution", "Required") == "Optional")


def required(request: Mapping[str, Any], name: str) -> list[Data] | None:
    """Return the fetched objects of a name, or None if none were requested."""
    resources = (request.get("requiredResources") or {}).get(name)
    if resources is None:
        return None
    return [item.get("resource") or {} for item in resources.get("items") or ()]


def requirement_for(
    source: Mapping[str, Any], title: str, composite: Data, environment: Data | None = None
) -> tuple[Data, bool]:
    """Return the name or labels to select by, and whether optional labels have no value.

    The values of labels are looked up in the composite resource, or in the environment if
    there is one and the label requests it.
    """
    if not is_selector(source):
        name = source.get("ref", {}).get("name")
        if name is None:
            raise Refused(f"{title} is a Reference without ref.name")
        return {"matchName": name}, False
    labels: dict[str, str] = {}
    is_short = False
    for label in source.get("selector", {}).get("matchLabels", ()):
        key = label.get("key", "")
        kind = label.get("type", "FromCompositeFieldPath")
        if kind == "Value":
            if "value" not in label:
                raise Refused(f'the label "{key}" has no value')
            labels[key] = label["value"]
            continue
        path = label.get("valueFromFieldPath")
        if path is None:
            raise Refused(f'the label "{key}" has no valueFromFieldPath')
        place = composite
        if environment is not None and kind == "FromEnvironmentFieldPath":
            place = environment
        try:
            value = parse_field_path(path).get(place)
            if not isinstance(value, str):
                raise FieldPathError(f"{path}: not a string")
            labels[key] = value
        except FieldPathError as error:
            if label.get("fromFieldPathPolicy", "Required") == "Optional":
                is_short = True
                continue
            raise Refused(f'cannot get value from field path "{path}": {error}') from None
    return {"matchLabels": {"labels": labels} if labels else {}}, is_short


def check_minimum(objects: list[Data], selector: Mapping[str, Any]) -> list[Data]:
    """Sort the objects that a selector matched, and return at most `maxMatch` of them."""
    ordered = _sorted_by_path(objects, selector.get("sortByFieldPath", "metadata.name"))
    most = selector.get("maxMatch")
    return ordered if most is None else ordered[:most]


def _sorted_by_path(objects: list[Data], path: str) -> list[Data]:
    """Sort objects by their values at a path; missing values come first."""
    if not path:
        raise Refused("cannot sort by empty field path")
    values = []
    kind = ""
    for obj in objects:
        try:
            value = parse_field_path(path).find(obj)
        except FieldPathError as error:
            raise Refused(str(error)) from None
        values.append(value)
        kind_name = kind if value is None else GO_TYPES[type(value)]
        if kind and kind_name != kind:
            raise Refused(f'cannot sort values of different types "{kind}" and "{kind_name}"')
        kind = kind_name
    if not kind or len(objects) < 2:
        return objects
    if kind not in ("string", "float64"):
        raise Refused(f'unsupported type "{kind}" for sorting')
    zero: Any = "" if kind == "string" else 0
    order = sorted(range(len(objects)), key=lambda at: zero if values[at] is None else values[at])
    return [objects[at] for at in order]
