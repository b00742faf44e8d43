"""The values of the chart: all that can be set is read, and no other name is taken in silence."""

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
    """Name every value that can be set, and demand that no other can be."""
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
    """Give what the chart makes by default, as it stands in the base for Kustomize."""
    rendered = (REPOSITORY / "deploy/kustomize/controller.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(rendered))


# A parent chart hands `global` to all of its charts, read or not.
NAMES = frozenset(names_in(SCHEMA)) - {"global"}


def test_every_value_that_can_be_set_is_read_by_a_template_and_no_other_is() -> None:
    templates = [path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir()]
    read = {name for text in templates for name in re.findall(r"\.Values\.([\w.]+)", text)}
    assert read == NAMES


def test_every_value_has_a_default_that_people_see() -> None:
    assert set(set_in(VALUES, NAMES)) == NAMES


def test_the_controller_may_do_what_its_pages_offer_and_read_what_they_show() -> None:
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
    # Lines of runs of other replicas are read out of their logs.
    assert expected | {("pods", "list"), ("pods/log", "get")} <= allowed
