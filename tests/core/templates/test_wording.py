"""Messages for template errors."""

from __future__ import annotations

import pytest

from kanister_py.core.blueprints.model import only_blueprint
from kanister_py.core.blueprints.plan import renderer_of
from kanister_py.core.templates.engines import Engine, choose_engine
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.gotemplate.effects import NO_EFFECTS

GO = Renderer(Engine.GO)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param(
            "{{ .Phases.dump.Secrets.s.Data.kee }}",
            'no "kee" in .Phases.dump.Secrets.s.Data; there are: key',
            id="a key of a Secret",
        ),
        pytest.param(
            "{{ .Options.imge }}",
            'no "imge" in .Options; there are: image, items',
            id="the nearest first",
        ),
        pytest.param(
            "{{ .Options.table }}",
            'no "table" in .Options; there are: image, items',
            id="none is near",
        ),
        pytest.param(
            "{{ .Deployment.Name }}",
            '.Deployment is missing and has no "Name"; there are: ',
            id="another workload",
        ),
        pytest.param(
            "{{ .StatefulSet.Namspace }}",
            'no "Namspace" in .StatefulSet; there are: Namespace, Name, ',
            id="a field that nothing has",
        ),
        pytest.param(
            "{{ .Deployment.Namspace }}",
            'no "Namspace" in .Deployment; there are: Namespace, Name, ',
            id="a field that another workload would not have either",
        ),
        pytest.param(
            "{{ .Profile.Credential.Secret.Data.x }}",
            '.Profile.Credential.Secret is missing and has no "Data"',
            id="a credential of another type",
        ),
        pytest.param(
            "{{ .Time.Year }}", 'no "Year" in .Time, which is text', id="a field of a text"
        ),
        pytest.param(
            "{{ .Object.spec.ports.first }}",
            'no "first" in .Object.spec.ports, which is a list; {{ index … 0 }} returns the first',
            id="a field of a list",
        ),
        pytest.param(
            "{{ .Object.spec.paused.x }}",
            '.Object.spec.paused is missing and has no "x"',
            id="below a null",
        ),
        pytest.param(
            "{{ range .Object.spec.ports }}{{ .x }}{{ end }}",
            'no "x" in the value before it, which is a number',
            id="below the dot",
        ),
        pytest.param(
            "{{ (index .ArtifactsIn `dump`).KeyValues.path }}",
            'no "KeyValues" in it; there are: KeyValue, KopiaSnapshot',
            id="of what index gives",
        ),
        pytest.param(
            "{{ .Tme }}", "there is no .Tme; there are: Time, ArtifactsIn, ", id="a name at the top"
        ),
        pytest.param(
            "{{ index .StatefulSet.Pods 2 }}",
            "error calling index: reflect: slice index out of range, in <index .Stateful",
            id="a function that fails",
        ),
        pytest.param(
            "{{ .Options.a-b }}",
            'read a key with a hyphen with index: {{ index .Options "a-b" }}',
            id="a hyphen",
        ),
        pytest.param(
            "{{ .Options.image | b64encc }}",
            'there is no function "b64encc"; did you mean b64enc',
            id="a function",
        ),
        pytest.param(
            "{{ Options.image }}", "a parameter begins with a dot: .Options", id="a dot forgotten"
        ),
        pytest.param(
            "{{ .Options.image | default postgres }}",
            'there is no function "postgres"; did you mean mustRest; write text in quotes: "p',
            id="quotes forgotten",
        ),
        pytest.param(
            "{{ eq .Options.image 'x' }}", "write text in double quotes", id="single quotes"
        ),
        pytest.param(
            "{{ eq .Options.image 'xy' }}", "write text in double quotes", id="more of them"
        ),
        pytest.param(
            "{{{ .Options.image }}}", "an action begins with two braces", id="three braces"
        ),
        pytest.param("{{ if .Options.image }}x", "lacks its {{ end }}", id="an end"),
        pytest.param(
            "{{ if .Options.image == `x` }}y{{ end }}",
            "compare values with eq: {{ if eq .A .B }}",
            id="a comparison",
        ),
    ],
)
def test_message_names_the_problem_and_the_available_names(
    params: Params, template: str, message: str
) -> None:
    with pytest.raises(RenderFailed) as error:
        GO.text(template, params, ("image",))
    assert error.value.message.startswith("image: ")
    assert message in error.value.message
    assert error.value.message.endswith(error.value.original)


def test_message_lists_only_the_most_similar_of_many_names(params: Params) -> None:
    params.leave_phase("dump", {f"part{number}": "" for number in range(50_000)})
    with pytest.raises(RenderFailed) as error:
        GO.text("{{ .Phases.dump.Output.part }}", params)
    assert "and 49988 more" in error.value.message
    assert len(error.value.message) < 400


BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: db}
actions:
  backup:
    phases:
    - func: KubeTask
      name: dump
      args:
        command:
        - sh
        - "{{ .Options.tabel }}"
        - |
          set -e

          echo {{ .Options.tabel }}
    deferPhase:
      func: KubeTask
      args: {image: "{{ .Options.tabel }}"}
    outputArtifacts:
      dump: {keyValue: {path: "{{ .Options.tabel }}"}}
"""


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (("phases", 0, "args", "command", 1), "backup/dump args.command[1] (db.yaml:12)"),
        (("phases", 0, "args", "command", 2), "backup/dump args.command[2] (db.yaml:16)"),
        (("deferPhase", "args", "image"), "backup/deferPhase args.image (db.yaml:19)"),
        (
            ("outputArtifacts", "dump", "keyValue", "path"),
            "backup outputArtifacts.dump.keyValue.path (db.yaml:21)",
        ),
    ],
    ids=["an argument", "a line of a block", "the deferPhase", "an artifact"],
)
def test_message_has_file_and_line(params: Params, path: tuple[str | int, ...], where: str) -> None:
    located = only_blueprint(parse_documents(BLUEPRINT, "db.yaml"), "db.yaml")
    renderer = renderer_of(located.blueprint, "backup", NO_EFFECTS)
    node = located.manifest.document.node_at(("actions", "backup", *path))
    assert node is not None
    with pytest.raises(RenderFailed) as error:
        renderer.text(node.value, params, path)
    assert error.value.message.startswith(f'{where}: no "tabel" in .Options; there are: ')


def test_message_has_the_path_without_a_file(params: Params) -> None:
    located = only_blueprint(parse_documents(BLUEPRINT), "")
    renderer = renderer_of(located.blueprint, "backup", NO_EFFECTS).at(("phases", 0, "args"))
    with pytest.raises(RenderFailed) as error:
        renderer.text("{{ .Options.x }}", params, ("image",))
    assert error.value.message.startswith('backup/dump args.image: no "x" in .Options')


def unreadable(text: str, params: Params) -> str:
    """Return the explanation of a syntax error, with the engine that the text itself suggests."""
    choice = choose_engine({}, [text])
    renderer = Renderer(choice.engine, is_sure=choice.is_sure)
    with pytest.raises(RenderFailed) as error:
        renderer.text(text, params)
    return error.value.why


def test_message_explains_the_error_for_both_engines(params: Params) -> None:
    why = unreadable('{{ b64decc "x" }}', params)
    assert why.startswith('as a Go template: there is no function "b64decc"; did you mean b64dec')
    assert "; as Jinja2: " in why


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{% if Options.x %}{{ now", "Line 1: unexpected end", id="a Jinja2 statement"),
        pytest.param("{{ Options.x | default('a') ", "Line 1: unexpected end", id="a filter"),
        pytest.param(
            "{{ .Options.x ", "unclosed action; close {{ with }}", id="a field of the dot"
        ),
        pytest.param("{{ if true }}a", "unexpected EOF", id="a Go keyword"),
    ],
)
def test_only_the_engine_that_the_text_is_written_for_explains_the_error(
    params: Params, text: str, message: str
) -> None:
    why = unreadable(text, params)
    assert why.startswith(message)
    assert "as Jinja2" not in why
    assert "as a Go template" not in why


def test_annotation_decides_which_engine_explains(params: Params) -> None:
    with pytest.raises(RenderFailed) as error:
        Renderer(Engine.GO, is_sure=True).text('{{ b64decc "x" }}', params)
    assert "Jinja2" not in error.value.message
