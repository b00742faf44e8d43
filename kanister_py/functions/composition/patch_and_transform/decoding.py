"""Is an input of the shape the function knows? Every member is known, every type is right."""

from __future__ import annotations

from typing import Any, Final

from kanister_py.functions.composition.answering import ANY, ANYTHING_BY_NAME, TEXT, WHOLE, shaped

_COMBINE: Final = {
    "variables": [{"fromFieldPath": TEXT}],
    "strategy": TEXT,
    "string": {"fmt": TEXT},
}
_TRANSFORM: Final = {
    "type": TEXT,
    "math": {"type": TEXT, "multiply": WHOLE, "clampMin": WHOLE, "clampMax": WHOLE},
    "map": ANYTHING_BY_NAME,
    "match": {
        "patterns": [{"type": TEXT, "literal": TEXT, "regexp": TEXT, "result": ANY}],
        "fallbackValue": ANY,
        "fallbackTo": TEXT,
    },
    "string": {
        "type": TEXT,
        "fmt": TEXT,
        "convert": TEXT,
        "trim": TEXT,
        "regexp": {"match": TEXT, "group": WHOLE},
        "join": {"separator": TEXT},
        "replace": {"search": TEXT, "replace": TEXT},
    },
    "convert": {"toType": TEXT, "format": TEXT},
}
_PATCH: Final = {
    "type": TEXT,
    "fromFieldPath": TEXT,
    "toFieldPath": TEXT,
    "combine": _COMBINE,
    "transforms": [_TRANSFORM],
    "policy": {"fromFieldPath": TEXT, "toFieldPath": TEXT},
}
_RESOURCE: Final = {
    "name": TEXT,
    "base": ANY,
    "patches": [{**_PATCH, "patchSetName": TEXT}],
    "connectionDetails": [
        {
            "name": TEXT,
            "type": TEXT,
            "fromConnectionSecretKey": TEXT,
            "fromFieldPath": TEXT,
            "value": TEXT,
        }
    ],
    "readinessChecks": [
        {
            "type": TEXT,
            "fieldPath": TEXT,
            "matchString": TEXT,
            "matchInteger": WHOLE,
            "matchCondition": {"type": TEXT, "status": TEXT},
        }
    ],
}
_RESOURCES: Final = {
    "patchSets": [{"name": TEXT, "patches": [_PATCH]}],
    "environment": {"patches": [_PATCH]},
    "resources": [_RESOURCE],
    "writeConnectionSecretToRef": {"name": TEXT, "namespace": TEXT, "patches": [_PATCH]},
}


def decode_input(given: Any) -> dict[str, Any]:
    """Give the input without its nulls; `NotShaped` says where it is of another shape."""
    return shaped(given, _RESOURCES)
