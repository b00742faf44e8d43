from __future__ import annotations

import pytest

from kanister_py.core.kube.durations import InvalidDuration, parse_duration


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 5_000 + "s", id="before the point"),
        pytest.param("1." + "9" * 5_000 + "x", id="behind the point, of no unit"),
        pytest.param("9223372037s", id="a little too long"),
    ],
)
def test_duration_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration):
        parse_duration(text)


def test_digits_below_a_nanosecond_are_ignored() -> None:
    assert parse_duration("0" * 5_000 + "1." + "3" * 5_000 + "s") == 1_333_333_333
