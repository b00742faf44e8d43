"""Conditions on objects are Go templates in Blueprints of every engine."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py import Func, PhaseContext
from kanister_py.core.blueprints.lint.check import check_actions, lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.model import LocatedBlueprint, blueprints_in
from kanister_py.core.blueprints.reads import check_condition
from kanister_py.core.blueprints.texts import templates_of, texts_of
from kanister_py.core.templates.engines import Engine, choose_engine
from kanister_py.core.templates.errors import TemplateParseError
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions, registry_of

TEXT = """\
kind: Blueprint
metadata: {name: b}
actions:
  go:
    phases:
    - func: WaitV2
      name: a
      args:
        timeout: 1s
        conditions:
          anyOf:
          - condition: '%s'
            objectReference: {apiVersion: v1, resource: pods, name: "{{ Options['name'] }}"}
"""


def located(condition: str) -> LocatedBlueprint:
    return blueprints_in(parse_documents(TEXT % condition))[0]


def test_condition_does_not_decide_the_template_engine() -> None:
    blueprint = located("{{ eq .status.phase 1 }}").blueprint
    assert list(templates_of(blueprint)) == ["{{ Options['name'] }}"]
    assert choose_engine({}, templates_of(blueprint)).engine is Engine.JINJA2
    [condition] = [text for text in texts_of(blueprint.actions["go"]) if text.role == "condition"]
    assert condition.text == "{{ eq .status.phase 1 }}"


def template_findings(text: str, context: Context) -> list[Finding]:
    findings = check_actions(located(text), context)
    return [finding for finding in findings if finding.rule.startswith("template")]


def test_condition_reads_the_object_instead_of_the_parameters(context: Context) -> None:
    text = '{{ if and (exists . "status") (eq .status.phase "Up") }}true{{ end }}'
    assert [finding.rule for finding in template_findings(text, context)] == ["template-engine"]


def test_condition_with_a_syntax_error_is_reported(context: Context) -> None:
    errors = [finding for finding in template_findings("{{ if }}", context) if finding.line > 5]
    assert [finding.rule for finding in errors] == ["template-invalid"]


@pytest.mark.parametrize(
    "text", ["true", '{{ exists . "a" }}', "{{ base64decode .data.a | upper }}"]
)
def test_condition_may_call_functions_of_kubectl(text: str) -> None:
    check_condition(text, None)


def test_condition_may_not_call_unknown_functions() -> None:
    with pytest.raises(TemplateParseError, match='function "nothing" not defined'):
        check_condition("{{ nothing }}", None)


@pytest.mark.parametrize(
    ("func", "version", "condition", "is_fine"),
    [
        pytest.param("WaitV2", "v0.0.0", '{{ exists . "a" }}', True, id="kubectl's"),
        pytest.param("WaitV2", "v0.0.0", "{{ .a | upper }}", False, id="sprig too early"),
        pytest.param("WaitV2", "v0.1.0", "{{ .a | upper }}", True, id="sprig later"),
        pytest.param("WaitV2", "v0.1.0", "{{ base64decode .a }}", True, id="kubectl's later"),
        pytest.param("Wait", "v0.0.0", '{{ "a" | upper }}', True, id="sprig in Wait"),
        pytest.param("Wait", "v0.0.0", '{{ exists . "a" }}', False, id="kubectl's in Wait"),
    ],
)
def test_condition_is_checked_against_the_function_version(
    func: str, version: str, condition: str, is_fine: bool
) -> None:
    text = (TEXT % condition).replace("func: WaitV2", f"func: {func}\n      funcVersion: {version}")
    context = Context(read_functions().registry, load=load_function)
    report = lint_sources([Source("b.yaml", text)], context)
    assert ("template-invalid" not in {finding.rule for finding in report.findings}) is is_fine


def test_condition_is_checked_in_a_blueprint_without_templates() -> None:
    text = TEXT.replace("{{ Options['name'] }}", "x") % "{{ nofunc }}"
    registry = registry_of(type("WaitV2", (WaitForAnything,), {}))
    report = lint_sources([Source("b.yaml", text)], Context(registry))
    assert "template-invalid" in {finding.rule for finding in report.findings}


class WaitForAnything(Func):
    name = "WaitV2"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        return None
