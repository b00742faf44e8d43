"""Input fields of function-patch-and-transform, and the defaults that v0.2.0 fills in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kanister_py.functions.composition.fields import ANY, MAP, REQUIRED, TEXT, WHOLE, Field, head

_COMBINE: Final = {
    "variables": Field(
        [{"fromFieldPath": Field(TEXT, "Where it stands", REQUIRED)}],
        "The values, in order",
        REQUIRED,
    ),
    "strategy": Field(TEXT, "How they become one", REQUIRED, "string"),
    "string": Field(
        {"fmt": Field(TEXT, "Format of Go's Sprintf, such as %s-%s", REQUIRED)},
        "With the strategy string",
    ),
}
_MATCH: Final = {
    "patterns": Field(
        [
            {
                "type": Field(TEXT, "How it is compared", REQUIRED, "literal regexp"),
                "literal": Field(TEXT, "The text itself"),
                "regexp": Field(TEXT, "Regular expression of RE2"),
                "result": Field(ANY, "What comes out, of any type"),
            }
        ],
        "The patterns, in order",
        [],
    ),
    "fallbackValue": Field(ANY, "What comes out if none fits"),
    "fallbackTo": Field(
        TEXT, "Whether that, or the input, comes out if none fits", "Value", "Value Input"
    ),
}
_MATH: Final = {
    "type": Field(TEXT, "Which one", REQUIRED, "Multiply ClampMin ClampMax"),
    "multiply": Field(WHOLE, "Factor of Multiply"),
    "clampMin": Field(WHOLE, "Least value of ClampMin"),
    "clampMax": Field(WHOLE, "Greatest value of ClampMax"),
}
_STRING: Final = {
    "type": Field(
        TEXT, "Which one", REQUIRED, "Format Convert TrimPrefix TrimSuffix Regexp Join Replace"
    ),
    "fmt": Field(TEXT, "Format of Go's Sprintf, with Format"),
    "convert": Field(
        TEXT,
        "With Convert",
        choices="ToUpper ToLower ToBase64 FromBase64 ToJson ToSha1 ToSha256 ToSha512 ToAdler32",
    ),
    "trim": Field(TEXT, "With TrimPrefix and TrimSuffix"),
    "regexp": Field(
        {
            "match": Field(TEXT, "Regular expression of RE2", REQUIRED),
            "group": Field(WHOLE, "Which group of it; 0 is all of it", 0),
        },
        "With Regexp",
    ),
    "join": Field({"separator": Field(TEXT, "What stands between them", REQUIRED)}, "With Join"),
    "replace": Field(
        {
            "search": Field(TEXT, "What is looked for", REQUIRED),
            "replace": Field(TEXT, "What comes in its place", REQUIRED),
        },
        "With Replace",
    ),
}
_CONVERT: Final = {
    "toType": Field(TEXT, "Which type", REQUIRED, "string int int64 bool float64 object array"),
    "format": Field(TEXT, "How a text is read", "none", "none quantity json"),
}
_TRANSFORM: Final = {
    "type": Field(TEXT, "Which kind", REQUIRED, "map match math string convert"),
    "map": Field({"*": ANY}, "What comes out for each text"),
    "match": Field(_MATCH, "With the type match"),
    "math": Field(_MATH, "With the type math"),
    "string": Field(_STRING, "With the type string"),
    "convert": Field(_CONVERT, "With the type convert"),
}
_POLICY: Final = {
    "fromFieldPath": Field(
        TEXT, "Whether the value must be there", "Optional", "Optional Required"
    ),
    "toFieldPath": Field(
        TEXT,
        "Replace, MergeObjects, MergeObjectsAppendArrays, ForceMergeObjects or "
        "ForceMergeObjectsAppendArrays; Replace if unset",
    ),
}
_PATCH: Final = {
    "type": Field(
        TEXT,
        "From or ToCompositeFieldPath, From or ToEnvironmentFieldPath, CombineFrom or "
        "CombineToComposite, CombineFrom or CombineToEnvironment, PatchSet",
        "FromCompositeFieldPath",
    ),
    "fromFieldPath": Field(TEXT, "Where the value stands"),
    "toFieldPath": Field(TEXT, "Where it goes; where it stands, if unset"),
    "combine": Field(_COMBINE, "With the types Combine…"),
    "transforms": Field([_TRANSFORM], "What is done to it on the way, in order"),
    "policy": Field(_POLICY, "Rules"),
}
_DETAIL: Final = {
    "name": Field(TEXT, "Its key", REQUIRED),
    "type": Field(
        TEXT, "Where it comes from", REQUIRED, "FromConnectionSecretKey FromFieldPath FromValue"
    ),
    "fromConnectionSecretKey": Field(TEXT, "Key of the Secret"),
    "fromFieldPath": Field(TEXT, "Field of the resource"),
    "value": Field(TEXT, "The value itself"),
}
_CHECK: Final = {
    "type": Field(
        TEXT,
        "Which kind",
        REQUIRED,
        "NonEmpty MatchString MatchInteger MatchTrue MatchFalse MatchCondition None",
    ),
    "fieldPath": Field(TEXT, "The field that is looked at"),
    "matchString": Field(TEXT, "With MatchString"),
    "matchInteger": Field(WHOLE, "With MatchInteger"),
    "matchCondition": Field(
        {
            "type": Field(TEXT, "Its type", REQUIRED),
            "status": Field(TEXT, "Its status, such as True", REQUIRED),
        },
        "With MatchCondition",
    ),
}
_RESOURCE: Final = {
    "name": Field(TEXT, "Its name in the composition", REQUIRED),
    "base": Field(MAP, "What it looks like; unset, an earlier step must have made it"),
    "patches": Field(
        [{**_PATCH, "patchSetName": Field(TEXT, "With the type PatchSet")}], "In order"
    ),
    "connectionDetails": Field([_DETAIL], "What it adds to those of the composite resource"),
    "readinessChecks": Field([_CHECK], "All must hold; unset, its condition Ready"),
}
FIELDS: Final = {
    **head("pt.fn.crossplane.io/v1beta1", "Resources"),
    "metadata": Field(ANY, "Not looked at"),
    "patchSets": Field(
        [
            {
                "name": Field(TEXT, "Name of the set", REQUIRED),
                "patches": Field([_PATCH], "In order", REQUIRED),
            }
        ],
        "Patches to be shared",
    ),
    "environment": Field(
        {"patches": Field([_PATCH], "Before those of resources")}, "Patches of the environment"
    ),
    "resources": Field([_RESOURCE], "What is composed"),
    "writeConnectionSecretToRef": Field(
        {
            "name": Field(TEXT, "Its name"),
            "namespace": Field(TEXT, "Its namespace"),
            "patches": Field([_PATCH], "Onto name and namespace"),
        },
        "Where the connection details go",
    ),
}

# What v0.2.0 reads otherwise

MENDED: Final = "isMended"
"""Marks a transform or a check that takes whole numbers for integers and joins as it says."""
_DEFAULTS: Final = {"math": "Multiply", "string": "Format"}


def mended(given: dict[str, Any]) -> dict[str, Any]:
    """Fill in what the published definition of the input says where it says nothing."""
    for patch in _patches_of(given):
        for transform in patch.get("transforms", ()):
            for key, default in _DEFAULTS.items():
                if key in transform:
                    transform[key].setdefault("type", default)
            for pattern in transform.get("match", {}).get("patterns", ()):
                pattern.setdefault("type", "literal")
            transform[MENDED] = True
    for resource in given.get("resources", ()):
        for check in resource.get("readinessChecks", ()):
            check[MENDED] = True
    return given


def _patches_of(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parents = (
        *given.get("patchSets", ()),
        given.get("environment", {}),
        *given.get("resources", ()),
        given.get("writeConnectionSecretToRef", {}),
    )
    for parent in parents:
        yield from parent.get("patches", ())
