"""Arithmetic on decimals, where the recorded answers have no case."""

from __future__ import annotations

import pytest

from kanister_py.gotemplate.sprig import GO_TEMPLATING_FUNCTIONS
from tests.gotemplate.oracle_record import render


@pytest.mark.parametrize(
    ("template", "want"),
    [
        ("{{ mulf -1.5 0 }} {{ mulf 0 -2 }} {{ mulf -0.0 5 }} {{ mulf -0.0 }}", "0 0 0 0"),
        ("{{ subf -0.0 0 }} {{ divf 0 -3 }} {{ addf -0.0 }}", "0 0 0"),
        ("{{ mulf -1e-200 1e-200 }}", "-0"),
    ],
    ids=["a product", "other operations", "a product that is too small"],
)
def test_a_decimal_zero_has_no_sign(template: str, want: str) -> None:
    assert render(template, "map", GO_TEMPLATING_FUNCTIONS) == want
