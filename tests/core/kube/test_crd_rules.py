"""CEL rules of custom resources, apart from any cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.kube.crd_rules import RULES, broken_rules, unreadable_rules


def schema(rule: str, **more: Any) -> dict[str, Any]:
    item = {"type": "object", RULES: [{"rule": "self.port >= oldSelf.port"}]}
    return {
        "type": "object",
        RULES: [{"rule": rule, **more}],
        "properties": {
            "namespace": {"type": "string"},
            "two-words": {"type": "string"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item,
            },
            "any": {"type": "object", "additionalProperties": item},
        },
    }


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("self.__namespace__ == 'a'", id="a reserved word"),
        pytest.param("self.two__dash__words == 'b'", id="a name with a dash"),
    ],
)
def test_field_names_that_cel_cannot_express_are_escaped(rule: str) -> None:
    assert broken_rules({"namespace": "a", "two-words": "b"}, None, schema(rule)) == []
    assert len(broken_rules({"namespace": "b", "two-words": "a"}, None, schema(rule))) == 1


def test_old_list_items_are_found_by_their_keys() -> None:
    before = {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 9}]}
    after = {
        "ports": [{"name": "b", "port": 9}, {"name": "c", "port": 0}, {"name": "a", "port": 0}]
    }
    (cause,) = broken_rules(after, before, schema("true"))
    assert cause.field == "ports[2]"


def test_old_map_values_are_found_by_their_names() -> None:
    before = {"any": {"x": {"port": 2}}}
    (cause,) = broken_rules({"any": {"x": {"port": 1}, "y": {"port": 0}}}, before, schema("true"))
    assert cause.field == "any.x"


def test_unchanged_invalid_value_is_accepted() -> None:
    strict = schema("self.namespace != 'old'")
    assert broken_rules({"namespace": "old"}, {"namespace": "old"}, strict) == []
    assert len(broken_rules({"namespace": "old", "any": {}}, {"namespace": "old"}, strict)) == 1


def test_rule_with_an_evaluation_error_refuses_the_object() -> None:
    (cause,) = broken_rules({}, None, schema("self.namespace == 'a'"))
    assert cause.field == "<nil>"


def test_invalid_rule_is_reported_with_its_path() -> None:
    (cause,) = unreadable_rules({"properties": {"spec": schema("self.")}}, "root")
    assert cause.field == f"root.properties[spec].{RULES}[0].rule"
