"""Rendering of the arguments, references and artifacts of a phase."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.errors import TemplateLimitExceeded
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.gotemplate.limits import Limits

GO = Renderer(Engine.GO)
JINJA = Renderer(Engine.JINJA2)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("{{ .Options.image }}", "busybox", id="text"),
        pytest.param("{{ 3 }}", "3", id="text that looks like a number stays text"),
        pytest.param("{{ `a: b` }}", "a: b", id="text that looks like YAML stays text"),
        pytest.param(3, 3, id="a number"),
        pytest.param(1.5, 1.5, id="a fraction"),
        pytest.param(True, True, id="a boolean"),
        pytest.param(None, None, id="a null"),
        pytest.param(["{{ .Options.image }}", 1, None], ["busybox", 1, None], id="a list"),
        pytest.param(
            {"{{ .Options.image }}": {"a": ["{{ .Time }}"]}},
            {"busybox": {"a": ["2024-05-06T07:08:09.123456789Z"]}},
            id="keys and values of a map",
        ),
    ],
)
def test_arguments_are_rendered_by_type(params: Params, written: Any, expected: Any) -> None:
    assert GO.args({"arg": written}, params) == {"arg": expected}


def test_failure_names_the_place_of_the_argument(params: Params) -> None:
    args = {"command": ["sh", {"a.b": "x\n{{ .Options.nope }}"}]}
    with pytest.raises(RenderFailed) as error:
        GO.args(args, params, ("actions", "go", "phases", 0, "args"))
    assert error.value.original == 'Failed to render template: "nope" not found'
    assert error.value.path == 'actions.go.phases[0].args.command[1]["a.b"]'
    assert error.value.line == 2


def test_failure_of_a_jinja_template_has_line_and_name(params: Params) -> None:
    with pytest.raises(RenderFailed) as error:
        JINJA.args({"image": "x\n{{ Options.nope }}"}, params)
    assert (error.value.path, error.value.line) == ("image", 2)
    assert error.value.cause.reason == "TemplateUndefined"
    assert error.value.message == (
        "image: Line 2: 'nope' is undefined in Options; there are: image, items"
    )


def test_jinja_template_has_no_traces_of_go(params: Params) -> None:
    args = {"a": "{% if Options.image %}{{ Options.image }}{% endif %}", "b": "{# x #}"}
    assert JINJA.args(args, params) == {"a": "busybox", "b": ""}
    assert GO.args({"b": "{# x #} ${#list}"}, params) == {"b": "{# x #} ${#list}"}


def test_rendered_reference_has_every_field(params: Params) -> None:
    objects = {"s": {"kind": "Secret", "name": "{{ .StatefulSet.Name }}-login"}}
    assert GO.references(objects, params) == {
        "s": {
            "apiVersion": "",
            "group": "",
            "resource": "",
            "kind": "Secret",
            "name": "demo-login",
            "namespace": "",
        }
    }


def test_failing_reference_is_named(params: Params) -> None:
    with pytest.raises(RenderFailed) as error:
        GO.references({"s": {"name": "{{ .Phases.x.Output }}"}}, params, ("objects",))
    assert error.value.message == (
        'objects.s.name: no "x" in .Phases; there are: dump; in Kanister\'s words: '
        'could not render object reference {s}: Failed to render template: "x" not found'
    )
    assert error.value.path == "objects.s.name"


def test_values_of_artifacts_are_rendered_and_keys_are_not(params: Params) -> None:
    artifacts: dict[str, dict[str, Any]] = {
        "dump": {"keyValue": {"{{ x }}": "{{ .Phases.dump.Output.path }}"}},
        "snap": {"kopiaSnapshot": "{{ .Phases.dump.Output.size }}"},
    }
    assert GO.artifacts(artifacts, params) == {
        "dump": {"keyValue": {"{{ x }}": "backups/2"}},
        "snap": {"kopiaSnapshot": "3"},
    }
    with pytest.raises(RenderFailed) as error:
        GO.artifacts({"a": {"keyValue": {"k": "{{ .Options.x }}"}}}, params, ("outputArtifacts",))
    assert error.value.path == "outputArtifacts.a.keyValue.k"


@pytest.mark.parametrize(
    ("condition", "is_wanted"),
    [
        pytest.param("{{ .Options.image }}", True, id="a text"),
        pytest.param("true", True, id="true"),
        pytest.param("False", True, id="a False in other capitals"),
        pytest.param("{{ eq .Options.image `busybox` }}", True, id="a comparison"),
        pytest.param("{{ eq .Options.image `x` }}", False, id="a comparison that fails"),
        pytest.param(" \n{{ index .Options `x` }}\t", False, id="nothing but blanks"),
        pytest.param("{{ 0 }}", False, id="zero"),
        pytest.param("{{ .Object.spec.paused }}", False, id="no value"),
    ],
)
def test_phase_runs_unless_its_condition_is_false(
    params: Params, condition: str, is_wanted: bool
) -> None:
    assert GO.is_wanted(condition, params) is is_wanted


@pytest.mark.parametrize(
    "template",
    [
        "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}",
        '{{ repeat 1000000000 "x" }}',
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        "{{ range until 100000 }}" + "x" * 1000 + "{{ end }}",
        '{{ $s := "x" }}{{ range until 64 }}{{ $s = printf "%s%s" $s $s }}{{ end }}',
        "{{ until 1000000000 }}",
    ],
)
def test_expensive_go_template_is_stopped(params: Params, template: str) -> None:
    with pytest.raises(RenderFailed) as error:
        GO.text(template, params)
    assert isinstance(error.value.cause, TemplateLimitExceeded)


def test_arguments_of_a_phase_share_one_limit(params: Params) -> None:
    template = "{{ range until 99 }}x{{ end }}"
    renderer = Renderer(Engine.GO, limits=Limits(steps=1000))
    assert renderer.args({"command": [template]}, params) == {"command": ["x" * 99]}
    with pytest.raises(RenderFailed) as error:
        renderer.args({"command": [template] * 20}, params)
    assert isinstance(error.value.cause, TemplateLimitExceeded)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text().filter(lambda text: "{" not in text),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text().filter(lambda text: "{" not in text), inner, max_size=3)
    ),
    max_leaves=8,
)


class TestTextWithoutTemplates:
    """A text without template syntax is unchanged in both engines."""

    @given(_JSON)
    def test_is_unchanged(self, value: Any) -> None:
        params = Params(ActionFacts(time=""))
        assert GO.value(value, params) == value
        assert JINJA.value(value, params) == value
