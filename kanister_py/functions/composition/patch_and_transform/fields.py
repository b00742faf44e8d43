"""Input fields of function-patch-and-transform, and the defaults that v0.2.0 fills in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kanister_py.functions.composition.fields import ANY, MAP, REQUIRED, TEXT, WHOLE, Field, head

_COMBINE: Final = {
    "variables": Field(
        [{"fromFieldPath": Field(TEXT, "Field path of the value", REQUIRED)}],
        "Values to combine, in order",
        REQUIRED,
    ),
    "strategy": Field(TEXT, "How the values are combined", REQUIRED, "string"),
    "string": Field(
        {"fmt": Field(TEXT, "Format string of Go's fmt.Sprintf, such as %s-%s", REQUIRED)},
        "Settings for the strategy string",
    ),
}
_MATCH: Final = {
    "patterns": Field(
        [
            {
                "type": Field(TEXT, "How the value is compared", REQUIRED, "literal regexp"),
                "literal": Field(TEXT, "Text to compare with, for the type literal"),
                "regexp": Field(TEXT, "RE2 regular expression, for the type regexp"),
                "result": Field(ANY, "Result for values that match, of any type"),
            }
        ],
        "Patterns, in order; the first match is used",
        [],
    ),
    "fallbackValue": Field(ANY, "Result if no pattern matches"),
    "fallbackTo": Field(
        TEXT,
        "Whether the result without a match is fallbackValue or the input",
        "Value",
        "Value Input",
    ),
}
_MATH: Final = {
    "type": Field(TEXT, "Operation", REQUIRED, "Multiply ClampMin ClampMax"),
    "multiply": Field(WHOLE, "Factor, for Multiply"),
    "clampMin": Field(WHOLE, "Minimum, for ClampMin"),
    "clampMax": Field(WHOLE, "Maximum, for ClampMax"),
}
_STRING: Final = {
    "type": Field(
        TEXT, "Operation", REQUIRED, "Format Convert TrimPrefix TrimSuffix Regexp Join Replace"
    ),
    "fmt": Field(TEXT, "Format string of Go's fmt.Sprintf, for Format"),
    "convert": Field(
        TEXT,
        "Conversion, for Convert",
        choices="ToUpper ToLower ToBase64 FromBase64 ToJson ToSha1 ToSha256 ToSha512 ToAdler32",
    ),
    "trim": Field(TEXT, "Prefix or suffix to remove, for TrimPrefix and TrimSuffix"),
    "regexp": Field(
        {
            "match": Field(TEXT, "RE2 regular expression", REQUIRED),
            "group": Field(WHOLE, "Group to return; 0 is the whole match", 0),
        },
        "Settings for Regexp",
    ),
    "join": Field(
        {"separator": Field(TEXT, "Separator between the elements", REQUIRED)}, "Settings for Join"
    ),
    "replace": Field(
        {
            "search": Field(TEXT, "Text to search for", REQUIRED),
            "replace": Field(TEXT, "Replacement", REQUIRED),
        },
        "Settings for Replace",
    ),
}
_CONVERT: Final = {
    "toType": Field(TEXT, "Target type", REQUIRED, "string int int64 bool float64 object array"),
    "format": Field(TEXT, "How a string is parsed", "none", "none quantity json"),
}
_TRANSFORM: Final = {
    "type": Field(TEXT, "Type of the transform", REQUIRED, "map match math string convert"),
    "map": Field({"*": ANY}, "Results, by input string"),
    "match": Field(_MATCH, "Settings for the type match"),
    "math": Field(_MATH, "Settings for the type math"),
    "string": Field(_STRING, "Settings for the type string"),
    "convert": Field(_CONVERT, "Settings for the type convert"),
}
_POLICY: Final = {
    "fromFieldPath": Field(TEXT, "Whether the value is required", "Optional", "Optional Required"),
    "toFieldPath": Field(
        TEXT,
        "Replace, MergeObjects, MergeObjectsAppendArrays, ForceMergeObjects or "
        "ForceMergeObjectsAppendArrays; by default Replace",
    ),
}
_PATCH: Final = {
    "type": Field(
        TEXT,
        "FromCompositeFieldPath, ToCompositeFieldPath, FromEnvironmentFieldPath, "
        "ToEnvironmentFieldPath, CombineFromComposite, CombineToComposite, "
        "CombineFromEnvironment, CombineToEnvironment or PatchSet",
        "FromCompositeFieldPath",
    ),
    "fromFieldPath": Field(TEXT, "Field path of the value in the source"),
    "toFieldPath": Field(TEXT, "Field path to write to; by default fromFieldPath"),
    "combine": Field(_COMBINE, "Settings for the types Combine…"),
    "transforms": Field([_TRANSFORM], "Transforms of the value, in order"),
    "policy": Field(_POLICY, "Policies of the patch"),
}
_DETAIL: Final = {
    "name": Field(TEXT, "Key of the connection detail", REQUIRED),
    "type": Field(
        TEXT, "Source of the value", REQUIRED, "FromConnectionSecretKey FromFieldPath FromValue"
    ),
    "fromConnectionSecretKey": Field(TEXT, "Key in the connection Secret of the resource"),
    "fromFieldPath": Field(TEXT, "Field path in the resource"),
    "value": Field(TEXT, "Value, for the type FromValue"),
}
_CHECK: Final = {
    "type": Field(
        TEXT,
        "Type of the check",
        REQUIRED,
        "NonEmpty MatchString MatchInteger MatchTrue MatchFalse MatchCondition None",
    ),
    "fieldPath": Field(TEXT, "Field path of the value to check"),
    "matchString": Field(TEXT, "Expected value, for MatchString"),
    "matchInteger": Field(WHOLE, "Expected value, for MatchInteger"),
    "matchCondition": Field(
        {
            "type": Field(TEXT, "Type of the condition", REQUIRED),
            "status": Field(TEXT, "Expected status, such as True", REQUIRED),
        },
        "Expected condition, for MatchCondition",
    ),
}
_RESOURCE: Final = {
    "name": Field(TEXT, "Name of the resource in the composition", REQUIRED),
    "base": Field(MAP, "Base manifest; if unset, an earlier step must compose the resource"),
    "patches": Field(
        [{**_PATCH, "patchSetName": Field(TEXT, "Name of the patch set, for the type PatchSet")}],
        "Patches, in order",
    ),
    "connectionDetails": Field([_DETAIL], "Connection details to add to the composite resource"),
    "readinessChecks": Field(
        [_CHECK], "Checks that must all pass; by default, the condition Ready must be True"
    ),
}
FIELDS: Final = {
    **head("pt.fn.crossplane.io/v1beta1", "Resources"),
    "metadata": Field(ANY, "Ignored"),
    "patchSets": Field(
        [
            {
                "name": Field(TEXT, "Name of the patch set", REQUIRED),
                "patches": Field([_PATCH], "Patches, in order", REQUIRED),
            }
        ],
        "Sets of patches that resources can share",
    ),
    "environment": Field(
        {"patches": Field([_PATCH], "Patches, applied before the patches of resources")},
        "Patches between composite resource and environment",
    ),
    "resources": Field([_RESOURCE], "Resources to compose"),
    "writeConnectionSecretToRef": Field(
        {
            "name": Field(TEXT, "Name of the Secret"),
            "namespace": Field(TEXT, "Namespace of the Secret"),
            "patches": Field([_PATCH], "Patches from the composite resource to name and namespace"),
        },
        "Secret to write the connection details to",
    ),
}

# Differences of v0.2.0

STRICT: Final = "isStrict"
"""Key that marks a transform or a check whose whole numbers are integers, as in v0.2.0."""
_DEFAULTS: Final = {"math": "Multiply", "string": "Format"}


def fill_defaults(function_input: dict[str, Any]) -> dict[str, Any]:
    """Fill in the defaults of the published definition, and mark transforms and checks."""
    for patch in _patches_of(function_input):
        for transform in patch.get("transforms", ()):
            for key, default in _DEFAULTS.items():
                if key in transform:
                    transform[key].setdefault("type", default)
            for pattern in transform.get("match", {}).get("patterns", ()):
                pattern.setdefault("type", "literal")
            transform[STRICT] = True
    for resource in function_input.get("resources", ()):
        for check in resource.get("readinessChecks", ()):
            check[STRICT] = True
    return function_input


def _patches_of(function_input: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parents = (
        *function_input.get("patchSets", ()),
        function_input.get("environment", {}),
        *function_input.get("resources", ()),
        function_input.get("writeConnectionSecretToRef", {}),
    )
    for parent in parents:
        yield from parent.get("patches", ())
