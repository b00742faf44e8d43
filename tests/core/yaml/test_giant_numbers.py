"""Giant numbers in text: parsing never raises Python's own errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.jsonpath import parse_jsonpath
from kanister_py.core.kube.patches import json_patched
from kanister_py.core.kube.quantities import parse_quantity, parse_size
from kanister_py.core.kube.selectors import parse_label_selector

DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda: parse_jsonpath(f"{{.a[{DIGITS}]}}"), id="an index of a JSONPath"),
        pytest.param(lambda: parse_jsonpath(r"{'\x'}"), id="a sign of a JSONPath without digits"),
        pytest.param(lambda: parse_quantity(DIGITS), id="a quantity"),
        pytest.param(lambda: parse_quantity(f"1e{DIGITS}"), id="the exponent of a quantity"),
        pytest.param(
            lambda: json_patched([1], [{"op": "remove", "path": f"/{DIGITS}"}]),
            id="an index in a JSON patch",
        ),
        pytest.param(
            lambda: json_patched([1], [{"op": "remove", "path": 7}]),
            id="a number in place of a path in a JSON patch",
        ),
    ],
)
def test_giant_number_is_a_usage_error(read: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        read()


def test_giant_label_value_does_not_match_a_bound() -> None:
    for selector in ("a>5", "a<5"):
        assert not parse_label_selector(selector).matches({"a": DIGITS})


def test_size_with_a_large_exponent_is_parsed() -> None:
    assert parse_size("1e900") == 10**900
