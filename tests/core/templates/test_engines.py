"""Template engines: detection of Go and Jinja2."""

from __future__ import annotations

import pytest

from kanister_py.core.templates.engines import (
    ENGINE_ANNOTATION,
    Engine,
    UnknownTemplateEngine,
    choose_engine,
    is_template,
)


@pytest.mark.parametrize(
    ("templates", "engine", "why"),
    [
        pytest.param([], Engine.GO, "No text is a template", id="nothing"),
        pytest.param(["echo ${#list[@]} $x .y"], Engine.GO, "Go can parse all", id="a shell"),
        pytest.param(["{{ .Options.x }}"], Engine.GO, "contains .Options", id="a field"),
        pytest.param(["{{ toJson .Profile }}"], Engine.GO, "contains .Profile", id="an argument"),
        pytest.param(["{{- .Time -}}"], Engine.GO, "contains .Time", id="with trims"),
        pytest.param(["{{ $x }}"], Engine.GO, "contains $x", id="a variable"),
        pytest.param(["{{ (index .X 0).y }}"], Engine.GO, "contains .X", id="in brackets"),
        pytest.param(["{{ nope .X }}"], Engine.GO, "contains .X", id="Go with a typo is still Go"),
        pytest.param(
            ["{{ Options.x }}", "{{ .X }}"], Engine.GO, "contains .X", id="one settles it"
        ),
        pytest.param(["{{ now }}"], Engine.GO, "Go can parse all", id="a function"),
        pytest.param(["{{ range . }}{{ end }}"], Engine.GO, "Go can parse all", id="the dot alone"),
        pytest.param(["{{/* .X $y */}}"], Engine.GO, "Go can parse all", id="a comment"),
        pytest.param(["{{ Options.x }}"], Engine.JINJA2, "Go cannot parse", id="a name"),
        pytest.param(["{{ x[0].y }}"], Engine.JINJA2, "Go cannot parse", id="a field of an item"),
        pytest.param(["{{ f(1).y }}"], Engine.JINJA2, "Go cannot parse", id="a field of a result"),
        pytest.param(["{{ 'a .X $y' }}"], Engine.JINJA2, "Go cannot parse", id="in quotes"),
        pytest.param(['{{ x ~ ".X" }}'], Engine.JINJA2, "Go cannot parse", id="in double ones"),
        pytest.param(["{{ 'a'.upper() }}"], Engine.JINJA2, "Go cannot parse", id="a method"),
        pytest.param(["{{ x ~ 'a' }}"], Engine.JINJA2, "Go cannot parse", id="an operator"),
        pytest.param(["{{ now }}", "{{ x }}"], Engine.JINJA2, "Go cannot parse", id="one is not"),
    ],
)
def test_engine_is_detected_from_the_templates(
    templates: list[str], engine: Engine, why: str
) -> None:
    choice = choose_engine({}, templates)
    assert choice.engine is engine
    assert why in choice.why


@pytest.mark.parametrize(
    ("texts", "engine"),
    [
        pytest.param(['{{ b64decc "x" }}'], Engine.GO, id="an unknown function of Go"),
        pytest.param(["{{ if }}x{{ end }}"], Engine.GO, id="an if without a condition"),
        pytest.param(["{{ now }"], Engine.GO, id="a brace too few"),
        pytest.param(["{{ Options.x ", "{{ now }}"], Engine.JINJA2, id="a name of Jinja2, open"),
        pytest.param(["{% if x %}{{ x | }}"], Engine.JINJA2, id="a statement"),
        pytest.param(["{{ x | nope(1) }}"], Engine.JINJA2, id="a filter with arguments"),
    ],
)
def test_likelier_engine_is_chosen_if_neither_parses_all_templates(
    texts: list[str], engine: Engine
) -> None:
    choice = choose_engine({}, texts)
    assert (choice.engine, choice.is_sure) == (engine, False)


@pytest.mark.parametrize("engine", list(Engine))
def test_annotation_selects_the_engine(engine: Engine) -> None:
    choice = choose_engine({ENGINE_ANNOTATION: engine.value}, ["{{ .X }}", "{{ x.y }}"])
    assert choice.engine is engine
    assert ENGINE_ANNOTATION in choice.why


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(UnknownTemplateEngine) as error:
        choose_engine({ENGINE_ANNOTATION: "mustache"}, [])
    assert error.value.engine == "mustache"
    assert error.value.message.endswith("expected one of go, jinja2")


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        pytest.param("{{ x }}", None, True, id="an expression"),
        pytest.param("{% x %}", None, True, id="a statement"),
        pytest.param("{% x %}", Engine.GO, False, id="a statement means nothing to Go"),
        pytest.param("{x}", None, False, id="a brace"),
        pytest.param("", None, False, id="nothing"),
    ],
)
def test_text_without_template_syntax_is_not_a_template(
    text: str, engine: Engine | None, expected: bool
) -> None:
    assert is_template(text, engine) is expected
