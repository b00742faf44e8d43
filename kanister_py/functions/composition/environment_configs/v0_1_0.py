"""function-environment-configs v0.1.0: EnvironmentConfigs merged into the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.kube.copies import merged_maps
from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.core.kube.parts import name_of, spec_of
from kanister_py.functions.composition.answering import (
    ENVIRONMENT_KEY,
    AnsweringFunction,
    Data,
    Refused,
    composite_of,
    map_at,
    set_context,
)
from kanister_py.functions.composition.fields import ANY, TEXT, Field, head
from kanister_py.functions.composition.selecting import (
    NO_LABELS,
    POLICY,
    REFERENCE,
    TYPE,
    check_minimum,
    is_optional,
    is_selector,
    required,
    requirement_for,
    selector_fields,
)

_SELECTOR = {
    "mode": Field(
        TEXT,
        "Whether the selector must match exactly one object or any number",
        "Single",
        "Single Multiple",
    ),
    **selector_fields(
        "Field path of the observed composite resource, or of the environment",
        "FromCompositeFieldPath",
        "FromEnvironmentFieldPath",
    ),
}
_SOURCE = {
    "type": TYPE,
    "ref": REFERENCE,
    "selector": Field(_SELECTOR, "Selector, for the type Selector"),
    "toFieldPath": Field(
        TEXT, "Field path in the environment to write the data to; by default the root"
    ),
}
_SPEC = {
    "defaultData": Field({"*": ANY}, "Data with the lowest precedence"),
    "environmentConfigs": Field(
        [_SOURCE], "EnvironmentConfigs to merge; later ones take precedence"
    ),
    "policy": POLICY,
}


class EnvironmentConfigs(AnsweringFunction):
    """Merges EnvironmentConfigs, selected by name or by labels, into the environment.

    Later entries of the list take precedence over earlier ones. All of them take precedence
    over the existing environment, which takes precedence over `defaultData`. Without
    `environmentConfigs`, nothing is changed, and `defaultData` is ignored.
    """

    name = "function-environment-configs"
    go_type = "v1beta1.Input"
    fields: ClassVar = {
        **head("environmentconfigs.fn.crossplane.io/v1beta1", "Input"),
        "spec": Field(_SPEC, "Specification"),
    }
    gives_defaults: ClassVar = False
    """Whether `defaultData` is merged if no EnvironmentConfigs are listed."""

    def answer(self, request: Mapping[str, Any], function_input: Data, answer: Data) -> None:
        spec = spec_of(function_input)
        sources, defaults = spec.get("environmentConfigs"), spec.get("defaultData", {})
        value = (request.get("context") or {}).get(ENVIRONMENT_KEY)
        environment = value if isinstance(value, dict) else {}
        if sources is None or (self.gives_defaults and not sources):
            if self.gives_defaults and defaults:
                _set_environment(answer, environment, {}, defaults)
            return
        answer["requirements"] = _requirements(sources, composite_of(request), environment)
        if not request.get("requiredResources"):
            return  # not fetched yet
        chosen = _merged_data(_selected(sources, request, may_lack=is_optional(spec)))
        _set_environment(answer, environment, chosen, defaults)


def _set_environment(answer: Data, environment: Data, chosen: Data, defaults: Data) -> None:
    data = merged_maps(defaults, merged_maps(environment, chosen))
    if not (_has_text(data, "apiVersion") or _has_text(data, "kind")):
        data = {**data, "apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment"}
    set_context(answer, ENVIRONMENT_KEY, data)


def _has_text(data: Data, key: str) -> bool:
    value = data.get(key)
    return isinstance(value, str) and bool(value)


def _key(at: int) -> str:
    return f"environment-config-{at}"


def _requirements(sources: list[Data], composite: Data, environment: Data) -> Data:
    selectors: dict[str, Data] = {}
    kind = {"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig"}
    for at, source in enumerate(sources):
        try:
            requirement, _ = requirement_for(
                source, f"spec.environmentConfigs[{at}]", composite, environment
            )
        except Refused as refused:
            raise Refused(f"cannot build requirements: {refused}") from None
        if requirement != NO_LABELS:
            selectors[_key(at)] = {**kind, **requirement}
    return {"resources": selectors} if selectors else {}


def _selected(
    sources: list[Data], request: Mapping[str, Any], *, may_lack: bool
) -> dict[str, list[Data]]:
    """Return the selected objects, grouped by the path that their data is written to."""
    chosen: dict[str, list[Data]] = {}
    for at, source in enumerate(sources):
        objects = required(request, _key(at))
        if objects is None:
            continue  # a selector without labels requests nothing
        if is_selector(source):
            where = f'cannot process environment config "{_key(at)}" by selector'
        else:
            name = source["ref"]["name"]
            where = f'cannot process environment config "{name}" by reference, "{_key(at)}"'
        try:
            selected = _taken(source, objects, may_lack=may_lack)
        except Refused as refused:
            raise Refused(f"cannot get selected environment configs: {where}: {refused}") from None
        chosen.setdefault(source.get("toFieldPath", ""), []).extend(selected)
    return chosen


def _taken(source: Data, objects: list[Data], *, may_lack: bool) -> list[Data]:
    count = len(objects)
    if not is_selector(source):
        name = source["ref"]["name"]
        if not objects and not may_lack:
            raise Refused(f'Required environment config "{name}" not found')
        if count > 1:
            raise Refused(f'expected exactly one required resource "{name}", got {count}')
        return objects
    selector = source.get("selector", {})
    mode = selector.get("mode", "Single")
    if mode == "Single":
        if count != 1:
            raise Refused(f"expected exactly one required resource, got {count}")
        return objects
    if mode != "Multiple":
        raise Refused(f'unknown selector mode "{mode}"')
    least = selector.get("minMatch")
    if least is not None and count < least:
        raise Refused(f"expected at least {least} required resources, got {count}")
    return check_minimum(objects, selector)


def _merged_data(chosen: Mapping[str, list[Data]]) -> Data:
    merged: Data = {}
    for path, configs in chosen.items():
        for config in configs:
            merged = merged_maps(merged, _data_of(config, path))
    return merged


def _data_of(config: Data, path: str) -> Data:
    name = name_of(config)
    failed = "cannot merge environment data: cannot get data from environment config"
    if path:
        data: Data = {}
        try:
            parse_field_path(path).set(data, config.get("data"))
        except FieldPathError:
            raise Refused(f'{failed} {name} into path "{path}"') from None
        return data
    return map_at(config, "data", f'{failed} "{name}": ')
