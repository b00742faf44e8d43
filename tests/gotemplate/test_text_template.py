"""Output and errors equal the recorded ones of Go's text/template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.errors import ExecError, KeyMissing, LimitExceeded, ParseError
from kanister_py.gotemplate.functions import FunctionTable, go_function
from kanister_py.gotemplate.limits import UNLIMITED, Context, Limits
from kanister_py.gotemplate.template import MissingKey, compile_template
from kanister_py.gotemplate.times import UTC, fixed_zone
from tests.gotemplate.template_data import FUNCTIONS, MOMENT, template_data

ROWS: list[dict[str, str]] = json.loads(
    Path(__file__).with_name("text_template.json").read_text(encoding="utf-8")
)


def render(template: str, data: Any = None, missing_key: MissingKey = "error") -> str:
    return compile_template(template, FUNCTIONS, missing_key=missing_key).execute(data)


def _rows(kind: str) -> list[Any]:
    return [
        pytest.param(row["template"], row[kind], id=f"{row['group']}, {row['case']}")
        for row in ROWS
        if kind in row
    ]


@pytest.mark.parametrize(("template", "want"), _rows("output"))
def test_output_equals_gos(template: str, want: str) -> None:
    assert render(template, template_data()) == want


@pytest.mark.parametrize(("template", "want"), _rows("error"))
def test_error_messages_equal_gos(template: str, want: str) -> None:
    with pytest.raises((ParseError, ExecError)) as caught:
        render(template, template_data())
    assert str(caught.value) == want


def test_an_error_has_its_place_and_key() -> None:
    with pytest.raises(KeyMissing) as caught:
        render("a\n  {{ .Options.nope }}", template_data())
    error = caught.value
    assert (error.line, error.column, error.key) == (2, 13, "nope")
    assert (error.context, error.name) == (".Options.nope", "config")


def test_a_parse_error_has_its_line() -> None:
    with pytest.raises(ParseError) as caught:
        render("a\n\n{{ nope }}")
    assert caught.value.line == 3


class TestMissingKey:
    """Results of the option `missingkey` for different values."""

    @pytest.mark.parametrize(
        ("mode", "template", "want"),
        [
            pytest.param("default", "{{.Options.nope}}", "<no value>", id="default, of texts"),
            pytest.param("invalid", "{{.Object.nope}}", "<no value>", id="invalid, of anything"),
            pytest.param("default", "{{.Object.a.b.c}}", "<no value>", id="default, far below"),
            pytest.param("zero", "{{.Options.nope}}|", "|", id="zero, of texts"),
            pytest.param("zero", "{{.Object.nope}}", "<no value>", id="zero, of anything"),
            pytest.param("zero", "{{.Arts.nope.ID}}|", "|", id="zero, of structs"),
        ],
    )
    def test_result_depends_on_the_mode(self, mode: MissingKey, template: str, want: str) -> None:
        assert render(template, template_data(), mode) == want

    def test_a_field_of_a_missing_value_is_an_error(self) -> None:
        with pytest.raises(ExecError) as caught:
            render("{{.Object.nope.x}}", template_data(), "zero")
        assert caught.value.why == "nil pointer evaluating interface {}.x"


class TestFunctions:
    """Tables of functions."""

    def test_a_function_may_have_the_name_of_a_builtin(self) -> None:
        table = FunctionTable({"len": go_function("func(interface{}) string")(lambda _: "mine")})
        assert compile_template("{{ len 1 }}{{ 1 | len }}", table).execute(None) == "minemine"

    def test_a_function_may_be_called_break_or_continue(self) -> None:
        table = FunctionTable({"break": go_function("func() string")(lambda: "kit kat")})
        assert compile_template("{{ break }}", table).execute(None) == "kit kat"

    def test_a_result_gets_the_type_of_the_signature(self) -> None:
        table = FunctionTable(
            {
                "count": go_function("func() int64")(lambda: 5),
                "names": go_function("func() []string")(lambda: ["a"]),
                "pairs": go_function("func() map[string]int")(lambda: {"a": 1}),
            }
        )
        text = '{{ printf "%T %T %T" count names pairs }}'
        assert compile_template(text, table).execute(None) == "int64 []string map[string]int"

    def test_a_function_has_a_clock_only_if_one_is_passed(self) -> None:
        @go_function("func() (time.Time, error)", context=True)
        def now(context: Context) -> object:
            return context.effects.now()

        template = compile_template("{{ now.Year }}", FunctionTable({"now": now}))
        assert template.execute(None, Effects(now=lambda: MOMENT)) == "2024"
        with pytest.raises(ExecError) as caught:
            template.execute(None)
        assert caught.value.why == "error calling now: templates have no clock here"

    def test_the_local_zone_is_the_zone_of_the_effects(self) -> None:
        template = compile_template("{{ .T.Local.Hour }}")
        assert template.execute(template_data(), Effects(zone=fixed_zone("CET", 3600))) == "14"
        assert template.execute(template_data(), Effects(zone=UTC)) == "13"


class TestBytes:
    """Strings are bytes in Go, so they may contain parts of a character."""

    def test_a_part_of_a_character_is_kept_as_bytes(self) -> None:
        assert render('{{ slice "é" 0 1 }}') == "\udcc3"

    def test_two_parts_of_a_character_are_joined(self) -> None:
        assert render('{{ slice "é" 0 1 }}{{ slice "é" 1 2 }}') == "é"


class TestLimits:
    """Hostile templates are stopped early, with the exceeded limit."""

    @pytest.mark.parametrize(
        ("template", "limit"),
        [
            pytest.param("{{range 1000000000}}{{end}}", "steps", id="a long loop"),
            pytest.param(
                "{{range 10000}}{{range 10000}}{{range 10000}}{{end}}{{end}}{{end}}",
                "steps",
                id="loops in loops",
            ),
            pytest.param(
                '{{define "a"}}{{template "a"}}{{end}}{{template "a"}}',
                "depth",
                id="a template that invokes itself",
            ),
            pytest.param(
                '{{define "a"}}{{template "b"}}{{template "b"}}{{end}}'
                '{{define "b"}}{{template "c"}}{{template "c"}}{{end}}'
                '{{define "c"}}{{range 99999}}{{end}}{{template "a"}}{{end}}{{template "a"}}',
                "steps",
                id="templates that multiply",
            ),
            pytest.param(
                '{{$x := "0123456789"}}{{range 99}}{{$x = print $x $x}}{{end}}',
                "steps",
                id="a text that doubles",
            ),
            pytest.param(
                '{{$x := "0123456789"}}{{range 99}}{{$x = printf "%s%s" $x $x}}{{end}}',
                "steps",
                id="a format that doubles",
            ),
            pytest.param(
                "{{range 999999}}0123456789012345678901234567890123456789{{end}}",
                "steps",
                id="a long output",
            ),
            pytest.param(
                '{{$x := printf "%900000d" 1}}{{range 999}}{{$x}}{{end}}',
                "size",
                id="an output of long texts",
            ),
            pytest.param(
                '{{printf "%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d'
                '%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d" '
                "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1}}",
                "steps",
                id="wide numbers",
            ),
        ],
    )
    def test_an_exploding_template_is_stopped(self, template: str, limit: str) -> None:
        with pytest.raises(LimitExceeded) as caught:
            render(template)
        assert caught.value.limit == limit

    def test_printing_nested_lists_is_bounded(self) -> None:
        pair = go_function("func(...interface{}) []interface{}")(lambda *values: list(values))
        text = '{{$x := pair "a"}}{{range 99}}{{$x = pair $x $x}}{{end}}{{$x}}'
        with pytest.raises(LimitExceeded) as caught:
            compile_template(text, FunctionTable({"pair": pair})).execute(None)
        assert caught.value.limit == "steps"

    def test_a_list_that_contains_itself_is_an_error(self) -> None:
        pair = go_function("func(...interface{}) []interface{}")(lambda *values: list(values))
        text = '{{$x := pair "a"}}{{range 9999}}{{$x = pair $x}}{{end}}{{$x}}'
        template = compile_template(text, FunctionTable({"pair": pair}))
        with pytest.raises(LimitExceeded) as caught:
            template.execute(None, limits=UNLIMITED)
        assert caught.value.limit == "depth"

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("{{" + "(" * 10_000 + "1" + ")" * 10_000 + "}}", id="parentheses"),
            pytest.param("{{if 1}}" * 10_000 + "{{end}}" * 10_000, id="conditions"),
            pytest.param("{{range 1}}" * 10_000 + "{{end}}" * 10_000, id="loops"),
            pytest.param('{{block "a" .}}' * 10_000 + "{{end}}" * 10_000, id="blocks"),
        ],
    )
    def test_ten_thousand_nested_levels_are_a_parse_error(self, text: str) -> None:
        with pytest.raises(ParseError) as caught:
            render(text)
        assert "depth exceeded" in str(caught.value)

    def test_many_else_ifs_do_not_count_as_nesting(self) -> None:
        row = "".join(f"{{{{else if eq . {number}}}}}{number}" for number in range(400))
        assert render("{{if eq . -1}}x" + row + "{{end}}", 399) == "399"

    def test_limits_can_be_set(self) -> None:
        template = compile_template("{{range 100}}ab{{end}}")
        assert len(template.execute(None, limits=Limits(size=200))) == 200
        with pytest.raises(LimitExceeded):
            template.execute(None, limits=Limits(size=199))
        with pytest.raises(LimitExceeded):
            template.execute(None, limits=Limits(steps=100))


class TestCache:
    """Cache of parsed templates."""

    def test_an_equal_text_is_parsed_once(self) -> None:
        text = "{{ .a }}"
        assert compile_template(text) is compile_template(text)

    def test_another_table_of_functions_is_parsed_separately(self) -> None:
        text = "{{ len .a }}"
        mine = FunctionTable({"len": go_function("func(interface{}) string")(lambda _: "mine")})
        assert compile_template(text).execute({"a": "xy"}) == "2"
        assert compile_template(text, mine).execute({"a": "xy"}) == "mine"

    def test_another_mode_is_parsed_separately(self) -> None:
        text = "{{ .nope }}"
        assert compile_template(text, missing_key="default").execute({}) == "<no value>"
        with pytest.raises(KeyMissing):
            compile_template(text).execute({})


@given(st.text().filter(lambda text: "{{" not in text))
def test_a_text_without_actions_renders_unchanged(text: str) -> None:
    assert render(text) == text


@given(st.text(alphabet="{}()|.$\"`' ax:=,1-\n/*éif end", max_size=40))
def test_any_text_has_a_deterministic_result(text: str) -> None:
    assert _outcome(text) == _outcome(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=8,
    )
)
def test_all_values_can_be_printed_with_all_verbs(value: Any) -> None:
    shown = render('{{ printf "%v|%+v|%#v|%T|%d|%s|%q|%x|%t" . . . . . . . . . }}', value)
    assert shown.count("|") >= 8
    render("{{ . }}{{ print . }}{{ html . }}{{ js . }}{{ urlquery . }}", value)


@given(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    st.sampled_from("svdq"),
)
def test_formats_with_and_without_argument_indexes_print_equally(value: Any, verb: str) -> None:
    assert render(f'{{{{ printf "<%{verb}>" . }}}}', value) == render(
        f'{{{{ printf "<%[1]{verb}>" . }}}}', value
    )


def _outcome(text: str) -> str:
    try:
        return render("{{" + text, {"a": {"x": [1]}})
    except (ParseError, ExecError, LimitExceeded) as error:
        return f"{type(error).__name__} {error}"
