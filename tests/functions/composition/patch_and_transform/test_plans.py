"""Plans of inputs are cached."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kanister_py.functions.composition.patch_and_transform.plans import plan_for, strict_plan_for


def an_input(size: Any = 1) -> dict[str, Any]:
    text = json.dumps({"resources": [{"name": "r", "base": {"kind": "Thing", "size": size}}]})
    read: dict[str, Any] = json.loads(text)  # a new object every time, as from a caller
    return read


def test_equal_input_uses_the_cached_plan() -> None:
    assert plan_for(an_input()) is plan_for(an_input())


def test_same_input_object_uses_the_cached_plan() -> None:
    raw_input = an_input("kept")
    plan_for(raw_input)
    assert plan_for(raw_input) is plan_for(raw_input)


def test_order_of_keys_does_not_matter_for_the_cache() -> None:
    reordered = {"resources": [dict(reversed(an_input("order")["resources"][0].items()))]}
    assert plan_for(an_input("order")) is plan_for(reordered)


def test_versions_have_separate_plans() -> None:
    assert plan_for(an_input()) is not strict_plan_for(an_input())


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_similar_inputs_have_different_plans(other: Any) -> None:
    one, another = plan_for(an_input(1)), plan_for(an_input(other))
    assert one.resources[0].base["size"] == 1
    assert type(one.resources[0].base["size"]) is int
    assert type(another.resources[0].base["size"]) is type(other)


def test_changed_input_gets_a_new_plan() -> None:
    raw_input = an_input()
    plan_for(raw_input)
    raw_input["resources"][0]["name"] = "s"
    assert plan_for(raw_input).resources[0].name == "s"
