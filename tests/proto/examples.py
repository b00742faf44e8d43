"""Example messages of composition functions, and their whole numbers as ints."""

from __future__ import annotations

from typing import Any

# All fields of the messages, with at least one value of each kind
REQUEST: dict[str, Any] = {
    "meta": {"tag": "t", "capabilities": ["CAPABILITY_CAPABILITIES", "CAPABILITY_CONDITIONS"]},
    "observed": {
        "composite": {
            "resource": {"spec": {"a": [1, -2.5, "x", True, False, None, {}, [], {"b": "ä😀"}]}},
            "connectionDetails": {"k": "AAH/"},
            "ready": "READY_FALSE",
        },
        "resources": {"r": {"resource": {"long": "x" * 20000}, "ready": "READY_TRUE"}},
    },
    "desired": {"resources": {"empty": {}}},
    "input": {"kind": "In", "n": 0},
    "context": {"apiextensions.crossplane.io/environment": {"k": "v"}},
    "extraResources": {"old": {"items": [{"resource": {"kind": "O"}}]}},
    "credentials": {"c": {"credentialData": {"data": {"user": "dXNlcg==", "word": ""}}}},
    "requiredResources": {"none": {}, "two": {"items": [{}, {"resource": {}}]}},
    "requiredSchemas": {"known": {"openapiV3": {"type": "object"}}, "unknown": {}},
}
RESPONSE: dict[str, Any] = {
    "meta": {"tag": "t", "ttl": "60s"},
    "desired": {"composite": {"resource": {"status": {"n": 3}}, "ready": "READY_TRUE"}},
    "results": [
        {"severity": "SEVERITY_FATAL", "message": "m", "reason": "", "target": "TARGET_COMPOSITE"},
        {"severity": "SEVERITY_NORMAL"},
    ],
    "context": {},
    "requirements": {
        "extraResources": {"x": {"apiVersion": "v1", "kind": "A", "matchName": ""}},
        "resources": {
            "labels": {"kind": "B", "matchLabels": {"labels": {"a": "b", "c": ""}}},
            "place": {"kind": "C", "namespace": ""},
        },
        "schemas": {"s": {"apiVersion": "v1", "kind": "D"}},
    },
    "conditions": [
        {"type": "T", "status": "STATUS_CONDITION_TRUE", "reason": "R", "message": ""},
        {"target": "TARGET_UNSPECIFIED"},
    ],
    "output": {"o": 1.5},
}
MESSAGES = [("RunFunctionRequest", REQUEST), ("RunFunctionResponse", RESPONSE)]


def whole_numbers_as_ints(value: Any) -> Any:
    """Convert whole_numbers_as_ints numbers to ints, as our decoder does."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers_as_ints(member) for key, member in value.items()}
    return [whole_numbers_as_ints(item) for item in value] if isinstance(value, list) else value
