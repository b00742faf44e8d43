"""Template functions of function-go-templating, in addition to sprig's."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from datetime import datetime
from typing import Any

from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.core.templates.param_types import KUBE_TIME, KubeTime
from kanister_py.functions.composition.answering import EXTRA_RESOURCES_KEY
from kanister_py.functions.composition.go_templating.yaml_reading import from_yaml
from kanister_py.functions.composition.go_templating.yaml_writing import to_yaml
from kanister_py.gotemplate.errors import ExecError
from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig import GO_TEMPLATING_FUNCTIONS
from kanister_py.gotemplate.sprig.chance import random_below
from kanister_py.gotemplate.times import from_datetime
from kanister_py.gotemplate.types import (
    ANY_MAP,
    ANY_SLICE,
    INT64,
    STRING,
    Field,
    GoType,
    named_type,
    struct_type,
)
from kanister_py.gotemplate.values import Int64, Struct, Value, wrap, zero

_MAP = "map[string]interface{}"

CONDITION = struct_type(
    "v1.Condition",
    Field("Type", named_type("v1.ConditionType", STRING), "type"),
    Field("Status", named_type("v1.ConditionStatus", STRING), "status"),
    Field("LastTransitionTime", KUBE_TIME, "lastTransitionTime"),
    Field("Reason", named_type("v1.ConditionReason", STRING), "reason"),
    Field("Message", STRING, "message,omitempty"),
    Field("ObservedGeneration", INT64, "observedGeneration,omitempty"),
)


@go_function("func(...string) string", context=True)
def random_choice(context: Context, *choices: str) -> str:
    if not choices:
        raise GoError("invalid argument to Intn")
    return choices[random_below(context, len(choices))]


@go_function("func(interface{}) (string, error)", context=True)
def to_yaml_text(context: Context, value: Value) -> str:
    text = to_yaml(value, context.spend)
    context.check_size(len(text))
    return text


@go_function("func(string) (interface{}, error)", context=True)
def from_yaml_text(context: Context, text: str) -> Value:
    context.spend(len(text) // 16)
    return from_yaml(text, context.spend)


@go_function(f"func(string, {_MAP}) interface{{}}")
def resource_condition(type_: str, resource: Any) -> Value:
    """Find a condition of a resource or of its message. A missing condition is Unknown."""
    conditions: Any = None
    for path in ("resource.status", "status"):
        try:
            status = parse_field_path(path).get(resource)
        except FieldPathError:
            continue
        if isinstance(status, dict):
            conditions = status.get("conditions")
            break
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == type_:
            return _condition(type_, condition)
    return _condition(type_, {"status": "Unknown"})


def _condition(type_: str, condition: dict[str, Any]) -> Struct:
    fields = CONDITION.fields
    filled: dict[str, Value] = {"Type": wrap(fields["Type"].type, type_)}
    for key in ("status", "reason", "message"):
        if isinstance(condition.get(key), str):
            name = key.capitalize()
            filled[name] = wrap(fields[name].type, condition[key])
    moment = condition.get("lastTransitionTime")
    if isinstance(moment, str):
        filled["LastTransitionTime"] = _moment(moment)
    generation = condition.get("observedGeneration")
    if isinstance(generation, int | float):
        filled["ObservedGeneration"] = Int64(generation)
    return Struct(CONDITION, filled)


def _moment(text: str) -> KubeTime:
    try:
        return KubeTime(from_datetime(datetime.fromisoformat(text)))
    except (ValueError, TypeError):
        return KubeTime()


def _as_json(value: Any) -> Any:
    """Copy a value through JSON like the original, so that every number becomes a double."""
    if isinstance(value, dict):
        return {key: _as_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_as_json(element) for element in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _at(request: Any, path: str, type_: GoType = ANY_MAP) -> Value:
    """Copy the map or list at a path; nil if there is none."""
    try:
        value = parse_field_path(path).get(request)
    except FieldPathError:
        value = None
    is_found = isinstance(value, dict if type_ is ANY_MAP else list)
    return _as_json(value) if is_found else zero(type_)


@go_function(f"func({_MAP}, string) map[string][]uint8")
def composed_connection_details(request: Any, name: str) -> Value:
    try:
        details = parse_field_path(f"observed.resources[{name}]connectionDetails").get(request)
    except FieldPathError:
        return None
    return _decoded(details)


@go_function(f"func({_MAP}, string) map[string][]uint8")
def credential_data(request: Any, name: str) -> Value:
    credentials = request.get("credentials")
    credential = credentials.get(name) if isinstance(credentials, dict) else None
    data = credential.get("credentialData") if isinstance(credential, dict) else None
    return _decoded(data.get("data") if isinstance(data, dict) else None)


def _decoded(data: Any) -> dict[str, bytes] | None:
    if not isinstance(data, dict):
        return None
    try:
        return {key: b64decode(text) for key, text in data.items()}
    except (NoBase64, TypeError, ValueError):
        return None


@go_function("func(string, interface{}) (string, error)", context=True)
def include(context: Context, name: str, data: Value) -> str:
    """Execute a definition of the same template, and return its output."""
    try:
        return context.include(name, data)
    except ExecError as error:
        raise GoError(error.message) from error


_MAP_OF = go_function(f"func({_MAP}, string) {_MAP}")
_LIST_OF = go_function(f"func({_MAP}, string) []interface{{}}")
FUNCTIONS = GO_TEMPLATING_FUNCTIONS.extended(
    {
        "randomChoice": random_choice,
        "toYaml": to_yaml_text,
        "fromYaml": from_yaml_text,
        "getResourceCondition": resource_condition,
        "setResourceNameAnnotation": go_function("func(string) string")(
            lambda name: f"gotemplating.fn.crossplane.io/composition-resource-name: {name}"
        ),
        "getComposedResource": _MAP_OF(
            lambda request, name: _at(request, f"observed.resources[{name}]resource")
        ),
        "getCompositeResource": go_function(f"func({_MAP}) {_MAP}")(
            lambda request: _at(request, "observed.composite.resource")
        ),
        "getComposedConnectionDetails": composed_connection_details,
        "getExtraResources": _LIST_OF(
            lambda request, name: _at(request, f"requiredResources[{name}].items", ANY_SLICE)
        ),
        "getExtraResourcesFromContext": _LIST_OF(
            lambda request, name: _at(
                request, f"context[{EXTRA_RESOURCES_KEY}][{name}].items", ANY_SLICE
            )
        ),
        "getCredentialData": credential_data,
        "include": include,
    }
)
