"""Values of the chart: every value in the schema is used, and unknown values are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from kanister_py.ports.overview import ACTION_VERBS, SCHEDULE_VERBS
from tests.conftest import REPOSITORY

CHART = REPOSITORY / "deploy/chart"
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def names_in(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield every value of the schema, and check that others are refused."""
    if "properties" not in schema:
        yield at
        return
    assert schema["additionalProperties"] is False, at
    for name, property_schema in schema["properties"].items():
        yield from names_in(property_schema, f"{at}.{name}".lstrip("."))


def set_in(values: Any, names: frozenset[str], at: str = "") -> Iterator[str]:
    if at in names or not isinstance(values, dict):
        yield at
        return
    for name, default in values.items():
        yield from set_in(default, names, f"{at}.{name}".lstrip("."))


def of_the_base() -> list[dict[str, Any]]:
    """Return the objects of the Kustomize base, which has the default values."""
    rendered = (REPOSITORY / "deploy/kustomize/controller.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(rendered))


# A parent chart passes `global` to all of its charts, and `enabled` to those with a condition.
NAMES = frozenset(names_in(SCHEMA)) - {"global", "enabled"}


def test_every_value_is_used_by_a_template() -> None:
    templates = [path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir()]
    read = {name for text in templates for name in re.findall(r"\.Values\.([\w.]+)", text)}
    assert read == NAMES


def test_every_value_has_a_default() -> None:
    assert set(set_in(VALUES, NAMES)) == NAMES


def test_controller_has_the_rights_for_its_pages() -> None:
    allowed = {
        (resource, verb)
        for manifest in of_the_base()
        for rule in manifest.get("rules") or ()
        for resource in rule.get("resources") or ()
        for verb in rule.get("verbs") or ()
        if "resourceNames" not in rule
    }
    expected = {("actionsets", verb) for verb in ACTION_VERBS.values()}
    expected |= {("schedules", verb) for verb in SCHEDULE_VERBS.values() if verb}
    # Log lines of runs are read from the logs of the other replicas.
    assert expected | {("pods", "list"), ("pods/log", "get")} <= allowed
