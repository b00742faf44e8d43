from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kanister_py.core.templates.param_types import KubeTime
from kanister_py.functions.composition.go_templating.yaml_reading import from_yaml
from kanister_py.functions.composition.go_templating.yaml_writing import to_yaml
from kanister_py.gotemplate.durations import SECOND
from kanister_py.gotemplate.times import Duration, from_datetime


def spend(_work: int) -> None:
    """Count nothing."""


# Output of Go's library.
WRITTEN: list[tuple[Any, str]] = [
    (None, "null\n"),
    (True, "true\n"),
    (3, "3\n"),
    (1.0, "1\n"),
    (1e21, "1e+21\n"),
    ("text", "text\n"),
    ("", '""\n'),
    ("true", '"true"\n'),
    ("yes", '"yes"\n'),
    ("12", '"12"\n'),
    ("1.5", '"1.5"\n'),
    ("null", '"null"\n'),
    ("2024-01-01", '"2024-01-01"\n'),
    ("a: b", "'a: b'\n"),
    ("# a", "'# a'\n"),
    ("it's", "it's\n"),
    ("é", "é\n"),
    ({}, "{}\n"),
    ([], "[]\n"),
    ({"a": {}}, "a: {}\n"),
    ({"b": 1, "a10": 2, "a2": 3}, "a2: 3\na10: 2\nb: 1\n"),
    ({"a": {"b": {"c": 1}}}, "a:\n    b:\n        c: 1\n"),
    ({"a": [1, {"b": 1, "c": [2]}]}, "a:\n    - 1\n    - b: 1\n      c:\n        - 2\n"),
    ([[1, 2], [3]], "- - 1\n  - 2\n- - 3\n"),
    ({"a": "x\ny\n"}, "a: |\n    x\n    y\n"),
    ({"a": "x\ny"}, "a: |-\n    x\n    y\n"),
    ("if a\n\tb\n", "|\n    if a\n    \tb\n"),
    ("a\tb", '"a\\tb"\n'),
    ("☃", "☃\n"),
    ("😀", '"\\U0001F600"\n'),
    ("😀\n", '"\\U0001F600\\n"\n'),
    ("2024-01-01 at noon", "2024-01-01 at noon\n"),
    ("2024-01-01 12:00:00", '"2024-01-01 12:00:00"\n'),
    ("=", "=\n"),
    ({"": 1}, '"": 1\n'),
    ({"k" * 128: 1}, f"{'k' * 128}: 1\n"),
    ({"k" * 129: 1}, f"? {'k' * 129}\n: 1\n"),
    ({"DBNAME": 1, "DB_HOST": 2}, "DB_HOST: 2\nDBNAME: 1\n"),
    ({"aB": 1, "a_b": 2, "a-b": 3, "a.b": 4}, "a-b: 3\na.b: 4\na_b: 2\naB: 1\n"),
    ({"a1": 1, "a-": 2, "a0": 3}, "a-: 2\na0: 3\na1: 1\n"),
    ({"v1b": 1, "v1-": 2}, "v1b: 1\nv1-: 2\n"),
    ({"a02": 1, "a2": 2, "a1": 3}, "a1: 3\na2: 2\na02: 1\n"),
    ({"a100": 1, "a11": 2, "a": 3}, "a: 3\na11: 2\na100: 1\n"),
]


@pytest.mark.parametrize(("value", "want"), WRITTEN, ids=[repr(value) for value, _ in WRITTEN])
def test_values_are_written_like_the_original(value: Any, want: str) -> None:
    assert to_yaml(value, spend) == want


READ: list[tuple[str, Any]] = [
    ("", None),
    ("yes", "yes"),
    ("on: off", {"on": "off"}),
    ("true", True),
    ("0x1F", 31),
    ("0o17", 15),
    ("1e3", 1000.0),
    ("~", None),
    ("a: [1, 1.5, 'x']", {"a": [1, 1.5, "x"]}),
    ("18446744073709551616", 18446744073709551616.0),
]


@pytest.mark.parametrize(("text", "want"), READ, ids=[text for text, _ in READ])
def test_only_true_and_false_are_booleans(text: str, want: Any) -> None:
    read = from_yaml(text, spend)
    assert (read, type(read)) == (want, type(want))


@pytest.mark.parametrize("value", [value for value, _ in WRITTEN if not isinstance(value, float)])
def test_output_can_be_parsed(value: Any) -> None:
    assert from_yaml(to_yaml(value, spend), spend) == value


NOON = from_datetime(datetime(2024, 5, 6, 12, 0, 0, 250000, UTC))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param({"at": NOON}, "at: 2024-05-06T12:00:00.25Z\n", id="a moment"),
        pytest.param([KubeTime(NOON)], '- "2024-05-06T12:00:00.25Z"\n', id="a moment of an object"),
        pytest.param(KubeTime(), '"0001-01-01T00:00:00Z"\n', id="no moment"),
        pytest.param({"for": Duration(90 * SECOND)}, "for: 1m30s\n", id="a span of time"),
    ],
)
def test_times_are_written_in_rfc_3339(value: Any, want: str) -> None:
    assert to_yaml(value, spend) == want
