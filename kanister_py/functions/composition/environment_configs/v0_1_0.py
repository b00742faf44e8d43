"""What does function-environment-configs v0.1.0 make of the environment?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kanister_py.core.objects.field_paths import FieldPathError, parse_field_path
from kanister_py.core.objects.parts import name_of, spec_of
from kanister_py.functions.composition.answering import (
    ANY,
    ENVIRONMENT_KEY,
    MATCH_LABELS,
    TEXT,
    WHOLE,
    Data,
    Refused,
    add_result,
    answer_to,
    composite_of,
    enough_of,
    matched_labels,
    read_input,
    required,
    set_context,
)
from kanister_py.ports.composition_function import CompositionFunction

if TYPE_CHECKING:
    from pydantic import BaseModel

_SHAPE = {
    "spec": {
        "defaultData": {"*": ANY},
        "environmentConfigs": [
            {
                "type": TEXT,
                "ref": {"name": TEXT},
                "selector": {
                    "mode": TEXT,
                    "minMatch": WHOLE,
                    "maxMatch": WHOLE,
                    "sortByFieldPath": TEXT,
                    "matchLabels": MATCH_LABELS,
                },
                "toFieldPath": TEXT,
            }
        ],
        "policy": {"resolution": TEXT},
    }
}


class EnvironmentConfigs(CompositionFunction):
    """Merge EnvironmentConfigs, chosen by name or by labels, into the environment.

    What is chosen later in the list wins over what is chosen earlier, all of it over
    the environment that is there already, and that over `defaultData`. Where nothing
    is to be chosen, nothing happens, `defaultData` included.
    """

    name = "function-environment-configs"
    gives_defaults: ClassVar = False
    """Whether `defaultData` counts where no EnvironmentConfigs are listed."""

    @classmethod
    def described_input(cls) -> type[BaseModel]:
        from kanister_py.functions.composition.environment_configs.input import Input

        return Input

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = answer_to(request)
        try:
            self._run(request, answer)
        except Refused as refused:
            add_result(answer, "FATAL", str(refused))
        return answer

    def _run(self, request: Mapping[str, Any], answer: Data) -> None:
        spec = spec_of(read_input(request, "v1beta1.Input", _SHAPE))
        sources, defaults = spec.get("environmentConfigs"), spec.get("defaultData", {})
        known = (request.get("context") or {}).get(ENVIRONMENT_KEY)
        environment = known if isinstance(known, dict) else {}
        if sources is None or (self.gives_defaults and not sources):
            if self.gives_defaults and defaults:
                _set_environment(answer, environment, {}, defaults)
            return
        answer["requirements"] = _requirements(sources, composite_of(request), environment)
        if not request.get("requiredResources"):
            return  # nobody has looked yet
        is_optional = spec.get("policy", {}).get("resolution", "Required") == "Optional"
        chosen = _merged_data(_selected(sources, request, is_optional=is_optional))
        _set_environment(answer, environment, chosen, defaults)


def _set_environment(answer: Data, environment: Data, chosen: Data, defaults: Data) -> None:
    data = _merged(defaults, _merged(environment, chosen))
    if not (_has_text(data, "apiVersion") or _has_text(data, "kind")):
        data = {**data, "apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment"}
    set_context(answer, ENVIRONMENT_KEY, data)


def _has_text(data: Data, key: str) -> bool:
    found = data.get(key)
    return isinstance(found, str) and bool(found)


def _key(at: int) -> str:
    return f"environment-config-{at}"


def _requirements(sources: list[Data], composite: Data, environment: Data) -> Data:
    selectors: dict[str, Data] = {}
    for at, source in enumerate(sources):
        selector: Data = {
            "apiVersion": "apiextensions.crossplane.io/v1beta1",
            "kind": "EnvironmentConfig",
        }
        try:
            if source.get("type", "Reference") == "Selector":
                wanted = source.get("selector", {}).get("matchLabels", [])
                labels, _ = matched_labels(wanted, composite, environment)
                if not labels:
                    continue
                selector["matchLabels"] = {"labels": labels}
            else:
                selector["matchName"] = _name_of(source, at)
        except Refused as refused:
            raise Refused(f"cannot build requirements: {refused}") from None
        selectors[_key(at)] = selector
    return {"resources": selectors} if selectors else {}


def _name_of(source: Data, at: int) -> str:
    name = source.get("ref", {}).get("name")
    if name is None:
        raise Refused(f"spec.environmentConfigs[{at}] is a Reference without ref.name")
    return str(name)


def _selected(
    sources: list[Data], request: Mapping[str, Any], *, is_optional: bool
) -> dict[str, list[Data]]:
    """Give what was chosen, by the path where its data goes."""
    chosen: dict[str, list[Data]] = {}
    for at, source in enumerate(sources):
        objects = required(request, _key(at))
        if objects is None:
            continue  # a selector without labels asked for nothing
        if source.get("type", "Reference") == "Selector":
            where = f'cannot process environment config "{_key(at)}" by selector'
        else:
            name = _name_of(source, at)
            where = f'cannot process environment config "{name}" by reference, "{_key(at)}"'
        try:
            taken = _taken(source, objects, is_optional=is_optional)
        except Refused as refused:
            raise Refused(f"cannot get selected environment configs: {where}: {refused}") from None
        chosen.setdefault(source.get("toFieldPath", ""), []).extend(taken)
    return chosen


def _taken(source: Data, objects: list[Data], *, is_optional: bool) -> list[Data]:
    count = len(objects)
    if source.get("type", "Reference") != "Selector":
        name = source["ref"]["name"]
        if not objects and not is_optional:
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
    return enough_of(objects, selector)


def _merged_data(chosen: Mapping[str, list[Data]]) -> Data:
    merged: Data = {}
    for path, configs in chosen.items():
        for config in configs:
            merged = _merged(merged, _data_of(config, path))
    return merged


def _data_of(config: Data, path: str) -> Data:
    name = name_of(config)
    if path:
        data: Data = {}
        try:
            parse_field_path(path).set(data, config.get("data"))
        except FieldPathError:
            raise Refused(
                "cannot merge environment data: "
                f'cannot get data from environment config {name} into path "{path}"'
            ) from None
        return data
    found = config.get("data")
    if not isinstance(found, dict):
        why = "data: no such field" if "data" not in config else "data: not an object"
        raise Refused(
            "cannot merge environment data: "
            f'cannot get data from environment config "{name}": {why}'
        )
    return found


def _merged(one: Data, other: Data) -> Data:
    """Lay one map over another, and their maps over each other; neither is changed."""
    merged = dict(one)
    for key, value in other.items():
        there = merged.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[key] = _merged(there, value)
        else:
            merged[key] = value
    return merged
