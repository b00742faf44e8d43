"""Templates with unbounded growth are stopped, for every function."""

from __future__ import annotations

import pytest

from kanister_py.gotemplate.errors import GoTemplateError, LimitExceeded
from kanister_py.gotemplate.limits import Budget, Limits
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS
from kanister_py.gotemplate.template import compile_template
from tests.gotemplate.oracle_data import effects_at
from tests.gotemplate.oracle_record import render

DOUBLED = "{{ $x := dict }}{{ range until 60 }}{{ $x = dict `a` $x `b` $x }}{{ end }}"
LONG = "{{ $s := repeat 1000000 `ab` }}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ repeat 1000000000000 `a` }}",
        "{{ until 1000000000000 | len }}",
        "{{ untilStep 0 1000000000000 1 | len }}",
        "{{ seq 1000000000000 }}",
        "{{ randAlpha 1000000000000 }}",
        "{{ randBytes 1000000000000 }}",
        "{{ indent 1000000000000 `a` }}",
        LONG + "{{ replace `a` $s $s }}",
        LONG + "{{ regexReplaceAll `a` $s $s }}",
        LONG + "{{ join $s (splitList `` $s) }}",
        LONG + "{{ wrapWith 1 $s $s }}",
        DOUBLED + "{{ toJson $x }}",
        DOUBLED + "{{ toPrettyJson $x }}",
        DOUBLED + "{{ deepCopy $x | len }}",
        DOUBLED + "{{ quote $x }}",
        DOUBLED + "{{ toString $x | len }}",
        DOUBLED + "{{ deepEqual $x (deepCopy $x) }}",
        "{{ $l := list 1 }}{{ range until 60 }}{{ $l = concat $l $l }}{{ end }}{{ len $l }}",
        "{{ $s := `ab` }}{{ range until 60 }}{{ $s = print $s $s }}{{ end }}{{ len $s }}",
    ],
)
def test_an_exploding_template_is_stopped(template: str) -> None:
    compiled = compile_template(template, BLUEPRINT_FUNCTIONS)
    with pytest.raises(LimitExceeded):
        compiled.execute(None, effects_at(""), Limits(steps=100_000, size=4_000_000))


IN_SUM = [
    pytest.param("{{ range until 400 }}{{ $y := repeat 16000000 `a` }}{{ end }}", id="made often"),
    pytest.param(
        "{{ $l := list }}{{ range until 400 }}{{ $l = append $l (repeat 99999 `a`) }}{{ end }}",
        id="kept alive",
    ),
    pytest.param(LONG + "{{ range until 400 }}{{ $y := upper $s }}{{ end }}", id="read often"),
    pytest.param(
        LONG + "{{ range until 9999 }}{{ if eq $s `y` $s }}{{ end }}{{ end }}", id="compared often"
    ),
    pytest.param(
        "{{ $s := repeat 9999 `a` }}{{ $l := list }}"
        "{{ range until 99 }}{{ $l = append $l (print $s .) }}{{ end }}"
        "{{ range until 5 }}{{ $l = concat $l $l }}{{ end }}{{ sortAlpha $l | len }}",
        id="sorted",
    ),
    pytest.param(LONG + "{{ snakecase $s }}", id="processed character by character"),
    pytest.param(LONG + "{{ regexReplaceAll `a` $s `b` }}", id="matched often"),
    pytest.param(
        "{{ range until 999 }}{{ range until 999 }}{{ . }}{{ end }}{{ end }}",
        id="loops in loops",
    ),
]


@pytest.mark.parametrize("template", IN_SUM)
def test_the_total_work_of_a_template_is_bounded(template: str) -> None:
    compiled = compile_template(template, BLUEPRINT_FUNCTIONS)
    with pytest.raises(LimitExceeded, match="too many steps"):
        compiled.execute(None, effects_at(""), Limits(steps=100_000))


def test_templates_with_a_shared_budget_are_bounded_together() -> None:
    compiled = compile_template("{{ range until 100 }}x{{ end }}", BLUEPRINT_FUNCTIONS)
    budget = Budget(Limits(steps=500))
    compiled.execute(None, effects_at(""), budget=budget)
    compiled.execute(None, effects_at(""), budget=budget)
    with pytest.raises(LimitExceeded):
        compiled.execute(None, effects_at(""), budget=budget)


@pytest.mark.parametrize("call", ["deepCopy $d", "deepEqual $d $e", "merge $d $e", "mustToJson $d"])
def test_a_dictionary_that_contains_itself_is_an_error(call: str) -> None:
    template = (
        "{{ $d := dict }}{{ $_ := set $d `self` $d }}"
        "{{ $e := dict }}{{ $_ := set $e `self` $e }}{{ " + call + " | toJson }}"
    )
    with pytest.raises(GoTemplateError):
        render(template, "map", BLUEPRINT_FUNCTIONS)


def test_a_backtracking_regular_expression_ends() -> None:
    template = "{{ regexMatch `^(a+)+$` (print (repeat 100000 `a`) `!`) }}"
    assert render(template, "map", BLUEPRINT_FUNCTIONS) == "false"
