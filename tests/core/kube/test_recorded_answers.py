"""Durations, quantities, selectors, JSONPath and strategic patches answer as Kubernetes' own code.

`recorded_kubernetes.json` holds what Go's `time`, `k8s.io/apimachinery` and
`k8s.io/client-go` 0.34 answered to the same questions. Left out is what Go answers differently from
one call to the next (both adding to a list that is not there and deleting from it).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.durations import parse_duration
from kanister_py.core.kube.jsonpath import parse_jsonpath
from kanister_py.core.kube.merge_rules import merge_rules_of
from kanister_py.core.kube.patches import strategic_patched
from kanister_py.core.kube.quantities import parse_quantity
from kanister_py.core.kube.selectors import parse_label_selector
from kanister_py.gotemplate.durations import format_duration

RECORDED = json.loads((Path(__file__).parent / "recorded_kubernetes.json").read_text("utf-8"))
OBJECT = RECORDED["object"]


def duration(row: dict[str, Any]) -> Any:
    nanoseconds = parse_duration(row["text"])
    return [str(nanoseconds), format_duration(nanoseconds)]


def quantity(row: dict[str, Any]) -> Any:
    parsed = parse_quantity(row["text"])
    return [str(parsed), str(int(parsed))][: len(row.get("want", "  "))]


def selector(row: dict[str, Any]) -> Any:
    return parse_label_selector(row["text"]).matches(row["labels"])


def jsonpath(row: dict[str, Any]) -> Any:
    return parse_jsonpath(row["text"]).render(OBJECT, allow_missing=row["allowMissing"])


def strategic(row: dict[str, Any]) -> Any:
    rules = merge_rules_of(row["apiVersion"], row["kind"])
    assert rules is not None
    return strategic_patched(row["target"], row["patch"], rules)


ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "duration": duration,
    "quantity": quantity,
    "selector": selector,
    "jsonpath": jsonpath,
    "strategic": strategic,
}


def test_every_function_has_recorded_answers() -> None:
    assert {row["about"] for row in RECORDED["rows"]} == ANSWERS.keys()


@pytest.mark.parametrize("about", sorted(ANSWERS))
def test_answers_equal_the_recorded_ones(about: str) -> None:
    different = []
    for row in RECORDED["rows"]:
        if row["about"] != about:
            continue
        got: dict[str, Any]
        try:
            got = {"want": ANSWERS[about](row)}
        except UsageError as error:
            # A text error is compared where people see it: durations and JSONPath.
            got = {"error": error.message if isinstance(row.get("error"), str) else True}
        expected = {key: row[key] for key in ("want", "error") if key in row}
        if isinstance(expected.get("error"), str):
            expected["error"] = expected["error"].removeprefix("parse: ")
        if got != expected:
            different.append((row, got))
    assert different == []
