from __future__ import annotations

import pytest

from kanister_py.core.blueprints.model import blueprints_in, objects_in, only_blueprint
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.yaml.documents import parse_documents

COMPLETE = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata:
  name: whole
  annotations: {team: blue}
actions:
  backup:
    kind: StatefulSet
    configMapNames: [location]
    secretNames: [keys]
    inputArtifactNames: [before]
    outputArtifacts:
      dump:
        keyValue: {path: "{{ .Phases.dump.Output.path }}"}
        kopiaSnapshot: "{{ .Phases.dump.Output.snapshot }}"
    phases:
    - func: KubeTask
      name: dump
      funcVersion: v0.0.0
      if: '{{ .Options.really }}'
      timeout: 5m
      retry: {limit: 3, backoff: 10s, factor: 1.5, maxBackoff: 1m, on: [StreamLost]}
      objects:
        secret: {kind: Secret, name: s, namespace: ns}
      args: {image: alpine, command: [sh, -c, exit 0], odd: null}
    deferPhase:
      func: ScaleWorkload
"""


class TestABlueprint:
    def test_is_read_with_all_its_fields(self) -> None:
        (located,) = blueprints_in(parse_documents(COMPLETE))
        action = located.blueprint.actions["backup"]
        ((path, phase), (last_path, last)) = action.every_phase()
        assert located.blueprint.name == "whole"
        assert located.blueprint.metadata.annotations == {"team": "blue"}
        assert action.output_artifacts["dump"].key_value == {
            "path": "{{ .Phases.dump.Output.path }}"
        }
        assert (path, phase.func, phase.func_version) == (("phases", 0), "KubeTask", "v0.0.0")
        assert (phase.if_, phase.timeout) == ("{{ .Options.really }}", "5m")
        assert phase.retry is not None
        assert (phase.retry.limit, phase.retry.max_backoff) == (3, "1m")
        assert phase.retry.on == ("StreamLost",)
        assert phase.objects["secret"].kind == "Secret"
        assert phase.args == {"image": "alpine", "command": ["sh", "-c", "exit 0"], "odd": None}
        assert (last_path, last.func, last.name) == (("deferPhase",), "ScaleWorkload", "")

    @pytest.mark.parametrize(("written", "read"), [("false", "false"), ("0", "0"), ("yes", "true")])
    def test_may_have_a_condition_of_another_type(self, written: str, read: str) -> None:
        text = COMPLETE.replace("'{{ .Options.really }}'", written)
        (located,) = blueprints_in(parse_documents(text))
        assert located.blueprint.actions["backup"].phases[0].if_ == read

    def test_treats_null_as_omitted(self) -> None:
        text = (
            "kind: Blueprint\nmetadata:\nactions:\n  a:\n    kind:\n    phases:\n"
            "    - func: F\n      name:\n      args:\n"
        )
        (located,) = blueprints_in(parse_documents(text))
        assert located.blueprint.actions["a"].phases[0].args == {}

    def test_records_unknown_keys(self) -> None:
        (located,) = blueprints_in(parse_documents("kind: Blueprint\nspec: {a: 1}\n"))
        assert [key.path for key in located.unknown_keys] == [("spec",)]

    def test_is_refused_with_all_its_problems(self) -> None:
        text = (
            "kind: Blueprint\n"
            "actions:\n"
            "  one: [1]\n"
            "  two:\n"
            "    phases:\n"
            "    - func: 5\n"
            "      args: [a]\n"
            "      retry: {limit: -1}\n"
            "    outputArtifacts:\n"
            "      x: {keyValue: {size: 5}}\n"
            "---\n"
            "kind: Blueprint\n"
            "actions: none\n"
        )
        with pytest.raises(InvalidDocument) as refused:
            blueprints_in(parse_documents(text, "bad.yaml"))
        problems = [(problem.line, problem.path) for problem in refused.value.problems]
        assert problems == [
            (3, "actions.one"),
            (6, "actions.two.phases[0].func"),
            (7, "actions.two.phases[0].args"),
            (8, "actions.two.phases[0].retry.limit"),
            (10, "actions.two.outputArtifacts.x.keyValue.size"),
            (13, "actions"),
        ]
        assert "Must be a map, found a list" in refused.value.problems[0].message


class TestBlueprintsAreFound:
    def test_among_other_objects_and_inside_lists(self) -> None:
        text = (
            "kind: ConfigMap\n---\n"
            "apiVersion: v1\nkind: List\nitems:\n"
            "- {apiVersion: cr.kanister.io/v1alpha1, kind: Blueprint, metadata: {name: inner}}\n"
            "- {apiVersion: v1, kind: Secret}\n"
            "- {apiVersion: v1, kind: List, items: [{kind: Blueprint, metadata: {name: deep}}]}\n"
            "---\n[1, 2]\n---\nkind: Blueprint\nmetadata: {name: last}\n"
        )
        blueprints = blueprints_in(parse_documents(text))
        assert [located.blueprint.name for located in blueprints] == ["inner", "deep", "last"]
        assert blueprints[1].manifest.path == ("items", 2, "items", 0)
        assert blueprints[0].manifest.place_of(["metadata"]).line == 6

    def test_but_not_those_of_other_groups(self) -> None:
        text = "apiVersion: example.org/v1\nkind: Blueprint\n---\napiVersion: 5\nkind: Blueprint\n"
        assert list(objects_in(parse_documents(text))) == []

    def test_by_name_if_a_file_has_several(self) -> None:
        documents = parse_documents(
            "kind: Blueprint\nmetadata: {name: a}\n---\n"
            "kind: Blueprint\nmetadata: {name: b}\nactions: {x: {}}\n"
        )
        assert only_blueprint(documents, "f", "b").blueprint.name == "b"
        with pytest.raises(InvalidDocument, match="several Blueprints: a, b"):
            only_blueprint(documents, "f")
        with pytest.raises(InvalidDocument, match="no Blueprint called c; found a, b"):
            only_blueprint(documents, "f", "c")

    def test_or_the_error_lists_the_kinds_in_the_file(self) -> None:
        with pytest.raises(InvalidDocument, match="has no Blueprint; found Secret"):
            only_blueprint(parse_documents("kind: Secret\n"), "f")


def test_misspelt_api_version_is_reported_with_the_correct_one() -> None:
    with pytest.raises(InvalidDocument) as refused:
        blueprints_in(parse_documents(COMPLETE.replace("v1alpha1", "v1aplha1")))
    (problem,) = refused.value.problems
    assert (problem.path, problem.line) == ("apiVersion", 1)
    assert problem.message.startswith("Must be cr.kanister.io/v1alpha1")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("cr.kanister.io", "cr.kanster.io", "a Blueprint of 'cr.kanster.io/v1alpha1'"),
        (
            "actions:",
            "action:",
            "The Blueprint has no actions; did you mean `actions` instead of `action`?",
        ),
        ("funcVersion: v0.0.0", "funcVersion: 0.1", "write v0.1.0 or the range ~0.1"),
        ("timeout: 5m", "timeout: 30", "write 30s"),
        ("timeout: 5m", "timeout: -30", "found -30"),
        ("maxBackoff: 1m", "maxBackoff: 1.5", "write 1.5s"),
    ],
)
def test_mistake_is_reported_with_its_fix(before: str, after: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        only_blueprint(parse_documents(COMPLETE.replace(before, after), "b.yaml"), "b.yaml")
    (problem,) = refused.value.problems
    assert message in problem.message
    assert problem.file == "b.yaml"


DECLARES = """\
kind: Blueprint
metadata: {name: b, annotations: {kanister-py.io/options: '%s'}}
actions:
  go:
    options: {%s}
    phases: [{func: KubeTask}]
  back:
    phases: [{func: KubeTask}]
"""


@pytest.mark.parametrize(
    ("declared", "path", "message"),
    [
        ("a: {default: 3}", "a.default", "Must be text, found 3; put it in quotes"),
        ("a: {type: integer, default: x}", "a.default", "Must be an integer, found 'x'"),
        ("a: {type: int}", "a.type", "Must be 'string', 'integer', 'number' or 'boolean'"),
        ("a: {enum: [b, c], default: d}", "a.default", "Must be one of b, c, found 'd'"),
        ("a: {type: number, enum: ['1', x]}", "a.enum[1]", "Must be a number, found 'x'"),
        ("a: {required: true, default: b}", "a.default", "the option is required"),
        ("a: null", "a", "Must be a map, such as {}, found null"),
    ],
)
def test_invalid_declarations_of_options_are_refused(
    declared: str, path: str, message: str
) -> None:
    with pytest.raises(InvalidDocument) as refused:
        blueprints_in(parse_documents(DECLARES % ("{}", declared)))
    (problem,) = refused.value.problems
    assert problem.path == f"actions.go.options.{path}"
    assert message in problem.message


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("", "Found nothing in it"),
        ("[back]", "Must be a map of actions, found a list"),
        ("{bakc: {}}", "There is no action bakc; did you mean back?"),
        ("{back: {a: {tpye: integer}}}", "back.a: Unknown key 'tpye'; did you mean type?"),
        ("{back: {a: {default: 3}}}", "back.a.default: Must be text, found 3"),
        ("{back: {a: null}}", "back.a: Must be a map, such as {}, found null"),
        ("{back: [", "expected"),
    ],
)
def test_invalid_declarations_in_the_annotation_are_refused(annotation: str, message: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        blueprints_in(parse_documents(DECLARES % (annotation, "")))
    (problem,) = refused.value.problems
    assert problem.path == 'metadata.annotations["kanister-py.io/options"]'
    assert message in problem.message


def test_the_field_takes_precedence_over_the_annotation() -> None:
    text = DECLARES % ("{go: {a: {}, b: {}}, back: {c: {}}}", "a: {}")
    (located,) = blueprints_in(parse_documents(text))
    options = {name: [*action.options] for name, action in located.blueprint.actions.items()}
    assert options == {"go": ["a"], "back": ["c"]}
