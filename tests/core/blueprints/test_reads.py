from __future__ import annotations

import pytest

from kanister_py.core.blueprints.reads import COMMON_NAMES, UNCALLED_NAMES, reads_of
from kanister_py.core.templates.engines import Engine, blueprint_functions
from kanister_py.core.templates.errors import TemplateError


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("no template", [], id="plain text"),
        pytest.param("{{ .Phases.a.Output.x }}", [".Phases.a.Output.x"], id="a field"),
        pytest.param(
            '{{ index .Phases.a.Secrets.s.Data "k" | toString }}',
            [".Phases.a.Secrets.s.Data.k[1]"],
            id="an index",
        ),
        pytest.param(
            '{{ (index .Phases "a").Output.x }}', [".Phases.a[1]", ".Phases.a.Output.x"], id="both"
        ),
        pytest.param(
            "{{ $x := .Phases.b }}{{ $x.Output.y }}{{ $.Options.z }}",
            [".Phases.b", ".Phases.b.Output.y", ".Options.z"],
            id="variables",
        ),
        pytest.param(
            "{{ $x := .Phases.b }}{{ $x = .Time }}{{ $x.Output }}",
            [".Phases.b", ".Time"],
            id="a variable that changes",
        ),
        pytest.param(
            "{{ with .Profile }}{{ .Location }}{{ else }}{{ .Time }}{{ end }}",
            [".Profile", ".Profile.Location?", ".Time?"],
            id="with",
        ),
        pytest.param(
            "{{ range $i, $p := .StatefulSet.Pods }}{{ $p.x }}{{ .y }}{{ $.Time }}{{ end }}",
            [".StatefulSet.Pods", ".Time?"],
            id="range",
        ),
        pytest.param(
            "{{ if and .Options .Time }}{{ .PVC.Name }}{{ end }}",
            [".Options", ".Time?", ".PVC.Name?"],
            id="an operand that is not always evaluated",
        ),
        pytest.param('{{ define "d" }}{{ .Time }}{{ end }}', [], id="a definition"),
        pytest.param("{{ (index .Object.spec 0).y }}", [".Object.spec"], id="an element"),
        pytest.param("{{ add 1 2 }}{{ genCA .Time 3 }}", [".Time"], id="an uncommon function"),
    ],
)
def test_reads_of_a_go_template(text: str, read: list[str]) -> None:
    reads = [
        f"{read}{f'[{read.indexed}]' if read.indexed else ''}{'' if read.is_certain else '?'}"
        for read in reads_of(text, Engine.GO)
    ]
    assert reads == read


def test_reads_of_a_jinja_template() -> None:
    text = "{{ Phases.a.Output['x'] }}\n{% for p in StatefulSet.Pods %}{{ p.z }}{% endfor %}"
    assert [(str(read), read.line) for read in reads_of(text, Engine.JINJA2)] == [
        (".Phases.a.Output.x", 1),
        (".StatefulSet.Pods", 2),
    ]


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        pytest.param("a {{ Options.x }}", True, id="printed"),
        pytest.param("{{ Options.x | upper }}", True, id="through a filter"),
        pytest.param("{{ Options.x ~ 'a' }}", True, id="an operand"),
        pytest.param("{{ Options.x or 'a' }}", True, id="the first of two"),
        pytest.param("{{ 'a' or Options.x }}", False, id="the second of two"),
        pytest.param("{{ Options.x | default('a') | upper }}", False, id="with a default"),
        pytest.param("{{ Options.x is defined }}", False, id="in a test"),
        pytest.param("{{ 'a' if Time else Options.x }}", False, id="in a condition"),
        pytest.param("{% if Time %}{{ Options.x }}{% endif %}", False, id="in a branch"),
        pytest.param("{% set Options = {} %}{{ Options.x }}", False, id="of a variable"),
    ],
)
def test_read_is_certain_if_jinja_always_evaluates_it(text: str, is_certain: bool) -> None:
    reads = [read for read in reads_of(text, Engine.JINJA2) if read.names == ("Options", "x")]
    assert [read.is_certain for read in reads] == [is_certain]


@pytest.mark.parametrize("engine", Engine)
def test_template_with_a_syntax_error_is_refused(engine: Engine) -> None:
    with pytest.raises(TemplateError):
        reads_of("{{ a b", engine)


def test_read_has_its_line_in_the_text() -> None:
    (read,) = reads_of("one\ntwo {{ .Time }}\n", Engine.GO)
    assert read.line == 2


def test_the_common_names_are_functions() -> None:
    assert all(name in blueprint_functions() for name in COMMON_NAMES)
    assert not any(name in blueprint_functions() for name in UNCALLED_NAMES)
