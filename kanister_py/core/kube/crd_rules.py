"""CEL rules of custom resources (`x-kubernetes-validations`), transition rules included.

Rules are evaluated as in an API server, except that strings with a format (`date-time`,
`duration`) stay strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kanister_py.core.errors import Cause
from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.cel.expression import compile_cel
from kanister_py.core.kube.cel.parser import RESERVED
from kanister_py.core.kube.cel.values import Optional

RULES: Final = "x-kubernetes-validations"
_NOTHING: Final = object()
_OLD: Final = re.compile(r"\boldSelf\b")
_ESCAPES: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
_KEYWORDS: Final = RESERVED | {"true", "false", "null", "in"}


def unreadable_rules(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield the rules of a schema that are not valid CEL."""
    for index, rule in enumerate(schema.get(RULES) or ()):
        for key in ("rule", "messageExpression"):
            try:
                if rule.get(key):
                    compile_cel(rule[key])
            except CelError as error:
                yield Cause(f"{path}.{RULES}[{index}].{key}", f"Invalid value: {error.message}")
    for name, inside in (schema.get("properties") or {}).items():
        yield from unreadable_rules(inside, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from unreadable_rules(schema[key], f"{path}.{key}")


def broken_rules(value: Any, before: Any, schema: Mapping[str, Any]) -> list[Cause]:
    """Return the rules that an object breaks. `before` is the old object, None for a new one."""
    return [*_broken(value, _NOTHING if before is None else before, schema, "")]


def _broken(value: Any, old: Any, schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if value is None:
        return
    for rule in schema.get(RULES) or ():
        why = _why_broken(rule, value, old, schema)
        if why:
            place = path + str(rule.get("fieldPath") or "")
            shown = schema.get("type", "object")
            reason = rule.get("reason") or "FieldValueInvalid"
            yield Cause(place.lstrip(".") or "<nil>", f'Invalid value: "{shown}": {why}', reason)
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, inside in value.items():
            of = properties.get(key, additional)
            if isinstance(of, dict):
                was = old.get(key, _NOTHING) if isinstance(old, dict) else _NOTHING
                yield from _broken(inside, was, of, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        old_items = old if isinstance(old, list) else []
        olds = {keys: item for item in old_items if (keys := _keys_of(item, schema))}
        for index, item in enumerate(value):
            was = olds.get(_keys_of(item, schema), _NOTHING)
            yield from _broken(item, was, schema["items"], f"{path}[{index}]")


def _why_broken(rule: Mapping[str, Any], value: Any, old: Any, schema: Mapping[str, Any]) -> str:
    text = rule["rule"]
    is_new, is_about_change = old is _NOTHING, _OLD.search(text) is not None
    if is_about_change and is_new and not rule.get("optionalOldSelf"):
        return ""
    if not is_about_change and not is_new and value == old:
        # Ratcheting: invalid values from before the rule are accepted until they change.
        return ""
    has_escapes = "__" in f"{text}{rule.get('messageExpression')}"
    variables = {"self": _escaped(value, schema) if has_escapes else value}
    if not is_new:
        variables["oldSelf"] = _escaped(old, schema) if has_escapes else old
    if rule.get("optionalOldSelf"):
        variables["oldSelf"] = Optional(variables.get("oldSelf"), has_value=not is_new)
    try:
        if compile_cel(text).evaluate(variables) is True:
            return ""
        if rule.get("messageExpression"):
            return str(compile_cel(rule["messageExpression"]).evaluate(variables))
    except CelError as error:
        return error.message
    return str(rule.get("message") or f"failed rule: {text}")


def _keys_of(item: Any, schema: Mapping[str, Any]) -> str:
    """Return the key of an item in a list of type map, or an empty string for other lists."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(item, Mapping):
        return ""
    return str([item.get(key) for key in keys])


def _escaped(value: Any, schema: Mapping[str, Any]) -> Any:
    """Escape the names of fields that are not CEL identifiers, such as `__namespace__`."""
    if isinstance(value, Mapping):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        inner = additional if isinstance(additional, Mapping) else {}
        return {
            (_escaped_name(key) if key in properties else key): _escaped(
                inside, properties.get(key, inner)
            )
            for key, inside in value.items()
        }
    if isinstance(value, list):
        return [_escaped(item, schema.get("items") or {}) for item in value]
    return value


def _escaped_name(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return name
