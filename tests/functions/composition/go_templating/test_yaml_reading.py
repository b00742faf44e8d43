"""`fromYaml`, compared with recorded results of yaml.v3 (`e2e/oracles/run --record`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kanister_py.functions.composition.go_templating.functions import FUNCTIONS
from kanister_py.functions.composition.go_templating.yaml_reading import from_yaml
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.layouts import format_time
from kanister_py.gotemplate.printing import sprint
from kanister_py.gotemplate.times import Time
from kanister_py.gotemplate.values import GoMap, to_bytes, type_name
from tests.gotemplate.oracle_record import render

RECORD = Path(__file__).with_name("recorded_from_yaml.jsonl")
CASES = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").split("\n") if line]
# Ours accepts this escape of JSON, and so does the C code that Go's library was ported from.
DIFFERENT = ('a: "\\/"\n',)


def shown(value: Any) -> Any:
    if isinstance(value, GoMap):
        members = [(shown(key), shown(member)) for key, member in value.items()]
        lines = (json.dumps(pair, ensure_ascii=False, separators=(",", ":")) for pair in members)
        return {"$members": sorted(lines, key=lambda line: line.encode())}
    if isinstance(value, dict):
        return {key: shown(member) for key, member in value.items()}
    if isinstance(value, list):
        return [shown(element) for element in value]
    if isinstance(value, Time):
        return {"$time": format_time(value, "2006-01-02T15:04:05.999999999Z07:00")}
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return to_bytes(value).decode("utf-8", "replace")
    return {f"${type_name(value)}": sprint(value)}


def free(_: int) -> None:
    """Count nothing."""


@pytest.mark.parametrize("case", CASES, ids=[ascii(case["yaml"]) for case in CASES])
def test_yaml_is_parsed_like_go(case: dict[str, Any]) -> None:
    if case["yaml"] in DIFFERENT:
        assert from_yaml(case["yaml"], free) == {"a": "/"}
    elif "value" in case:
        assert shown(from_yaml(case["yaml"], free)) == case["value"]
    else:
        with pytest.raises(GoError) as caught:
            from_yaml(case["yaml"], free)
        own_words = r"unmarshal errors|cannot decode|unknown anchor|contains itself|map merge"
        if re.search(own_words, case["error"]):
            assert str(caught.value) == case["error"]


def test_aliases_count_towards_the_budget() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 10)
    )
    left = 100_000

    def spend(count: int) -> None:
        nonlocal left
        left -= count
        if left < 0:
            raise GoError("spent")

    with pytest.raises(GoError, match="spent"):
        from_yaml(text, spend)


def test_too_deeply_nested_yaml_is_rejected() -> None:
    with pytest.raises(GoError, match="nested deeper than 100 levels"):
        from_yaml("[" * 5000, free)


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(
            r'{{ fromYaml "x: a\n1.0: b\n1: c\ntrue: d" | toYaml }}',
            "true: d\n1: c\n1: b\nx: a\n",
            id="equal in Python",
        ),
        pytest.param(
            r'{{ $map := fromYaml "true: a\n1: b\n1.0: c" }}'
            "{{ len $map }}{{ index $map true }}{{ index $map 1 }}{{ index $map 1.0 }}",
            "3abc",
            id="looked up by their types",
        ),
        pytest.param(
            r'{{ range $k, $_ := fromYaml "true: a\n1: b" }}{{ typeOf $k }}={{ $k }} {{ end }}',
            "bool=true int=1 ",
            id="iterated with their types",
        ),
        pytest.param(
            r'{{ fromYaml "2020-01-02: a\n2020-01-02T03:04:05Z: b" | toYaml }}',
            "2020-01-02T00:00:00Z: a\n2020-01-02T03:04:05Z: b\n",
            id="dates",
        ),
        pytest.param('{{ fromYaml "2020-01-02: a" | toJson }}', "", id="dates have no JSON"),
        pytest.param('{{ fromYaml "1: a" | toJson }}', "", id="maps with any keys have no JSON"),
    ],
)
def test_keys_of_all_types_are_kept(template: str, want: str) -> None:
    assert render(template, "map", FUNCTIONS) == want
