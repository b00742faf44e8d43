"""What do the functions that come with us share: reading an input strictly, and answering.

An answer begins as what the request desires, and shares its parts with the request:
whoever changes one makes a copy of it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kanister_py.core.objects.durations import SECOND, InvalidDuration, parse_duration
from kanister_py.core.objects.field_paths import FieldPathError, parse_field_path

Data = dict[str, Any]

ENVIRONMENT_KEY = "apiextensions.crossplane.io/environment"
EXTRA_RESOURCES_KEY = "apiextensions.crossplane.io/extra-resources"
DEFAULT_TTL = "60s"


class Refused(Exception):
    """What ends a call with a fatal result; its text is the message of that."""


def answer_to(request: Mapping[str, Any], ttl: str = DEFAULT_TTL) -> Data:
    """Begin an answer: what is desired and the context go on as they came."""
    tag = (request.get("meta") or {}).get("tag")
    answer: Data = {
        "meta": {"tag": tag, "ttl": ttl} if tag else {"ttl": ttl},
        "desired": request.get("desired") or {},
    }
    if request.get("context"):
        answer["context"] = request["context"]
    return answer


def add_result(answer: Data, severity: str, message: str) -> None:
    answer.setdefault("results", []).append(
        {"severity": f"SEVERITY_{severity}", "message": message, "target": "TARGET_COMPOSITE"}
    )


def set_context(answer: Data, key: str, value: Any) -> None:
    """Set a key of the context for the steps to come."""
    answer["context"] = {**answer.get("context", {}), key: value}


def ttl_of(text: str | None) -> str | None:
    """Read a duration as Go writes it, and give it as protobuf does; None: it cannot be read."""
    if not text:
        return None
    try:
        nanoseconds = parse_duration(text)
    except InvalidDuration:
        return None
    seconds, rest = divmod(abs(nanoseconds), SECOND)
    fraction = f".{rest:09}" if rest else ""
    while fraction.endswith("000"):  # three, six or nine digits
        fraction = fraction[:-3]
    return f"{'-' if nanoseconds < 0 else ''}{seconds}{fraction}s"


# The input

TEXT = "a string"
WHOLE = "a whole number"
ANY = "anything"
TEXTS = {"*": TEXT}
"""A map whose keys are nobody's business, and whose values are texts."""

ANYTHING_BY_NAME = {"*": ANY}
_LEAST_WHOLE, _MOST_WHOLE = -(2**63), 2**63 - 1

_HEAD = {"apiVersion": TEXT, "kind": TEXT, "metadata": ANY}


def read_input(request: Mapping[str, Any], go_type: str, shape: Mapping[str, Any]) -> Data:
    """Read what the step hands in; what nobody asks for is refused, nulls are left out.

    A shape is a map of shapes, a list with the shape of its elements, or one of the
    words above. The message is the original's as far as that is no matter of Go.
    """
    try:
        return shaped(request.get("input"), shape)
    except NotShaped as error:
        raise Refused(
            "cannot get Function input from *v1.RunFunctionRequest: cannot get function input "
            f"*{go_type} from *v1.RunFunctionRequest: cannot unmarshal JSON from *structpb.Struct "
            f"into *{go_type}: json: {error}"
        ) from None


class NotShaped(Exception):
    """An input has a member that nobody knows, or one of a wrong type; its text says where."""


def shaped(given: Any, shape: Mapping[str, Any]) -> Data:
    """Give an input of a shape without its nulls: to be null is to be absent."""
    found: Data = _read({} if given is None else given, {**_HEAD, **shape}, "")
    return found


def _read(value: Any, shape: Any, path: str) -> Any:
    if shape is ANY:
        return value
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            raise NotShaped(f"{path or 'the input'} must be an object")
        read = {}
        for key, each in value.items():
            where = f"{path}.{key}" if path else str(key)
            inner = shape.get(key, shape.get("*"))
            if inner is None:
                raise NotShaped(f'{path or "the input"}: unknown name "{key}"')
            # Among members by any name, null is a value like another.
            if each is not None or (inner is ANY and key not in shape):
                read[key] = _read(each, inner, where)
        return read
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise NotShaped(f"{path} must be an array")
        return [
            _read({} if each is None else each, shape[0], f"{path}[{at}]")
            for at, each in enumerate(value)
        ]
    is_fine = (
        isinstance(value, str)
        if shape is TEXT
        else isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == value // 1  # neither a fraction nor infinite
        and _LEAST_WHOLE <= value <= _MOST_WHOLE
    )
    if not is_fine:
        raise NotShaped(f"{path} must be {shape}")
    return value if shape is TEXT else int(value)


# Resources that were asked for


def required(request: Mapping[str, Any], name: str) -> list[Data] | None:
    """Give the objects under a name; None: they were not asked for."""
    found = (request.get("requiredResources") or {}).get(name)
    if found is None:
        return None
    return [each.get("resource") or {} for each in found.get("items") or ()]


def composite_of(request: Mapping[str, Any]) -> Data:
    """Give the observed composite resource."""
    observed = request.get("observed") or {}
    return (observed.get("composite") or {}).get("resource") or {}


MATCH_LABELS = [
    {
        "type": TEXT,
        "key": TEXT,
        "valueFromFieldPath": TEXT,
        "fromFieldPathPolicy": TEXT,
        "value": TEXT,
    }
]


def matched_labels(
    wanted: Sequence[Mapping[str, Any]], composite: Data, environment: Data | None = None
) -> tuple[dict[str, str], bool]:
    """Say which labels to look for, and whether some that are optional could not be told.

    Their values are looked up in the composite resource, or in the environment where
    there may be one and they say so.
    """
    labels: dict[str, str] = {}
    is_short = False
    for each in wanted:
        key = each.get("key", "")
        kind = each.get("type", "FromCompositeFieldPath")
        if kind == "Value":
            if "value" not in each:
                raise Refused(f'the label "{key}" has no value')
            labels[key] = each["value"]
            continue
        path = each.get("valueFromFieldPath")
        if path is None:
            raise Refused(f'the label "{key}" has no valueFromFieldPath')
        place = composite
        if environment is not None and kind == "FromEnvironmentFieldPath":
            place = environment
        try:
            labels[key] = text_at(place, path)
        except FieldPathError as error:
            if each.get("fromFieldPathPolicy", "Required") == "Optional":
                is_short = True
                continue
            raise Refused(f'cannot get value from field path "{path}": {error}') from None
    return labels, is_short


def text_at(obj: Data, path: str) -> str:
    """Give the text at a field path."""
    found = parse_field_path(path).get(obj)
    if not isinstance(found, str):
        raise FieldPathError(f"{path}: not a string")
    return found


_GO_TYPES: Mapping[type, str] = {
    bool: "bool",
    int: "float64",  # on the wire every number is one
    float: "float64",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def sorted_by_path(objects: list[Data], path: str) -> list[Data]:
    """Put objects in the order of what they have at a path; nothing is the least."""
    if not path:
        raise Refused("cannot sort by empty field path")
    values = []
    kind = ""
    for each in objects:
        try:
            value = parse_field_path(path).find(each)
        except FieldPathError as error:
            raise Refused(str(error)) from None
        values.append(value)
        if value is None:
            continue
        found = _GO_TYPES[type(value)]
        if kind and found != kind:
            raise Refused(f'cannot sort values of different types "{kind}" and "{found}"')
        kind = found
    if not kind or len(objects) < 2:
        return objects
    if kind not in ("string", "float64"):
        raise Refused(f'unsupported type "{kind}" for sorting')
    zero: Any = "" if kind == "string" else 0
    order = sorted(range(len(objects)), key=lambda at: zero if values[at] is None else values[at])
    return [objects[at] for at in order]


def enough_of(objects: list[Data], selector: Mapping[str, Any]) -> list[Data]:
    """Sort what a selector found, and take as many as it wants at the most."""
    ordered = sorted_by_path(objects, selector.get("sortByFieldPath", "metadata.name"))
    most = selector.get("maxMatch")
    return ordered if most is None else ordered[:most]
