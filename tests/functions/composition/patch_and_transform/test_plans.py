"""Plans are kept for the next time that an input comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kanister_py.functions.composition.patch_and_transform.plans import plan_for, strict_plan_for


def an_input(size: Any = 1) -> dict[str, Any]:
    text = json.dumps({"resources": [{"name": "r", "base": {"kind": "Thing", "size": size}}]})
    read: dict[str, Any] = json.loads(text)  # each time anew, as it comes from a caller
    return read


def test_an_input_that_comes_again_is_not_read_again() -> None:
    assert plan_for(an_input()) is plan_for(an_input())


def test_an_input_that_is_kept_by_its_caller_is_not_read_every_time() -> None:
    raw_input = an_input("kept")
    plan_for(raw_input)
    assert plan_for(raw_input) is plan_for(raw_input)


def test_an_input_whose_keys_come_in_another_order_is_not_read_again() -> None:
    reordered = {"resources": [dict(reversed(an_input("order")["resources"][0].items()))]}
    assert plan_for(an_input("order")) is plan_for(reordered)


def test_versions_of_the_function_have_plans_of_their_own() -> None:
    assert plan_for(an_input()) is not strict_plan_for(an_input())


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_inputs_that_only_look_alike_are_told_apart(other: Any) -> None:
    one, another = plan_for(an_input(1)), plan_for(an_input(other))
    assert one.resources[0].base["size"] == 1
    assert type(one.resources[0].base["size"]) is int
    assert type(another.resources[0].base["size"]) is type(other)


def test_an_input_that_was_changed_in_place_is_another() -> None:
    raw_input = an_input()
    plan_for(raw_input)
    raw_input["resources"][0]["name"] = "s"
    assert plan_for(raw_input).resources[0].name == "s"
