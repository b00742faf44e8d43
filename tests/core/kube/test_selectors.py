"""Label selectors in objects, valid and invalid."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.kube.selectors import InvalidSelector, label_selector_of


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param({}, "", id="an empty one selects all"),
        pytest.param({"matchLabels": {"b": "1", "a": "2"}}, "a=2,b=1", id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["2", "1"]}]},
            "a notin (1,2)",
            id="an expression",
        ),
    ],
)
def test_selector_is_parsed(selector: dict[str, Any], want: str) -> None:
    assert str(label_selector_of(selector)) == want


def expressed(**expression: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"], **expression}]}


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        pytest.param([], "it must be a map", id="a list"),
        pytest.param("a=b", "it must be a map", id="a text"),
        pytest.param({"matchLabels": ["a"]}, "matchLabels must be a map", id="labels in a list"),
        pytest.param({"matchExpressions": {"a": "b"}}, "must be a list", id="a map"),
        pytest.param({"matchExpressions": "a"}, "must be a list", id="expressions in a text"),
        pytest.param({"matchExpressions": ["a"]}, "must be maps", id="an expression in a text"),
        pytest.param(expressed(key=""), "key must be text", id="no key"),
        pytest.param(expressed(key=["a"]), "key must be text", id="a list of keys"),
        pytest.param(expressed(operator="Is"), "'Is' is not a valid", id="another operator"),
        pytest.param(expressed(operator=["In"]), "is not a valid", id="a list of operators"),
        pytest.param(expressed(values="b"), "values must be a list of text", id="a lone value"),
        pytest.param(expressed(values=5), "values must be a list of text", id="a number"),
        pytest.param(expressed(values=[1]), "values must be a list of text", id="numbers"),
        pytest.param(expressed(values=[["b"]]), "values must be a list of text", id="lists"),
        pytest.param(expressed(values=[]), "values must be set for operator In", id="no values"),
        pytest.param(
            expressed(operator="Exists"), "values must not be set for operator Exists", id="values"
        ),
    ],
)
def test_invalid_selector_is_reported(selector: Any, why: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        label_selector_of(selector)
    assert why in caught.value.why
