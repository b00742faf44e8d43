from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import Field

from kanister_py.cli.lint import exit_code_of
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.executor.loading import load_function
from kanister_py.ports.function import Func
from kanister_py.ports.models import Args, Outputs
from kanister_py.wiring import registry_of

HEAD = "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\nactions:\n"


class MeasureArgs(Args):
    path: str = Field(description="Path to measure")
    depth: int = 1
    exclude: list[str] = Field(default_factory=list)


class MeasureOutputs(Outputs):
    size: str
    file_count: int = 0


class Measure(Func):
    """Measures a path."""

    name = "Measure"
    Args = MeasureArgs
    Outputs = MeasureOutputs

    def exec(self, ctx: Any, params: Any, args: Any) -> Mapping[str, Any]:
        return {"size": "1"}


class ShellArgs(Args):
    command: list[str] = Field(default_factory=list)


class Shell(Func):
    """Runs a command, with outputs that the Blueprint defines."""

    name = "Shell"
    Args = ShellArgs

    def exec(self, ctx: Any, params: Any, args: Any) -> None:
        return None


@pytest.fixture(scope="module")
def lint() -> Callable[[str], list[Finding]]:
    context = Context(registry_of(Measure, Shell), load=load_function)

    def lint_text(text: str) -> list[Finding]:
        report = lint_sources([Source("b.yaml", text)], context)
        return [finding for finding in report.findings if finding.rule != "template-engine"]

    return lint_text


Lint = Callable[[str], list[Finding]]


class TestArguments:
    @pytest.mark.parametrize(
        ("args", "rules"),
        [
            pytest.param("{path: x}", [], id="required arguments"),
            pytest.param("{path: x, depth: '3', exclude: a}", [], id="convertible types"),
            pytest.param("{path: x, depth: '{{ .Options.d }}'}", [], id="a template"),
            pytest.param("{path: 5}", [], id="a number for text"),
            pytest.param("{}", ["argument-missing"], id="nothing"),
            pytest.param("{path: x, Depth: 3}", ["argument-unknown"], id="other capitals"),
            pytest.param("{path: x, depth: deep}", ["argument-type"], id="text for a number"),
            pytest.param("{path: [x, y]}", ["argument-type"], id="a list for text"),
            pytest.param(
                "{pth: x, depth: {}}",
                ["argument-missing", "argument-type", "argument-unknown"],
                id="several",
            ),
            pytest.param("{'{{ .Time }}': x}", [], id="a name that is a template"),
        ],
    )
    def test_are_checked_against_the_model_of_the_function(
        self, lint: Lint, args: str, rules: list[str]
    ) -> None:
        text = f"{HEAD}  a:\n    phases:\n    - func: Measure\n      name: p\n      args: {args}\n"
        findings = lint(text)
        assert sorted(finding.rule for finding in findings) == rules
        assert exit_code_of(findings) == (1 if rules else 0)
        assert all(finding.line == 9 for finding in findings)

    def test_command_as_a_single_text_is_reported(self, lint: Lint) -> None:
        text = f"{HEAD}  a:\n    phases: [{{func: Shell, name: s, args: {{command: echo hi}}}}]\n"
        assert [finding.rule for finding in lint(text)] == ["command-as-text"]

    def test_of_a_defer_phase_are_checked(self, lint: Lint) -> None:
        text = (
            f"{HEAD}  a:\n    phases: [{{func: Shell, name: s}}]\n"
            "    deferPhase: {func: Measure}\n"
        )
        assert [finding.rule for finding in lint(text)] == ["argument-missing"]


def action(first: str = "", second: str = "", last: str = "", fields: str = "") -> str:
    return (
        f"{HEAD}  go:\n"
        f"{fields}"
        "    phases:\n"
        "    - func: Measure\n"
        "      name: one\n"
        "      objects: {keys: {kind: Secret, name: k, namespace: ns}}\n"
        f"      args: {{path: '{first}'}}\n"
        "    - func: Shell\n"
        "      name: two\n"
        f"      args: {{command: [echo, '{second}']}}\n"
        "    deferPhase:\n"
        "      func: Shell\n"
        "      name: end\n"
        f"      args: {{command: ['{last}']}}\n"
        "  other:\n"
        "    phases: [{func: Shell, name: elsewhere}]\n"
    )


class TestTemplates:
    @pytest.mark.parametrize(
        ("text", "rules", "line"),
        [
            pytest.param(action("{{ .Time"), ["template-invalid"], 10, id="never closed"),
            pytest.param(action("{{ .a-b }}"), ["template-invalid"], 10, id="a hyphen"),
            pytest.param(action("{{ nothing .Time }}"), ["template-invalid"], 10, id="no function"),
            pytest.param(action("{{ .Phase.x }}"), ["parameter-unknown"], 10, id="no parameter"),
            pytest.param(action("{{ .Options.x }}"), [], 0, id="an option"),
            pytest.param(action("{{ .Phases.one.Secrets.keys }}"), [], 0, id="an own secret"),
            pytest.param(
                action("{{ .Phases.one.Secrets.kys }}"),
                ["phase-object-unknown"],
                10,
                id="no object",
            ),
            pytest.param(action("{{ .Phases.one.Output.size }}"), ["phase-later"], 10, id="own"),
            pytest.param(action("{{ .Phases.two.Output.x }}"), ["phase-later"], 10, id="later"),
            pytest.param(action('{{ index .Phases "two" }}'), [], 0, id="later, by index"),
            pytest.param(action("", "{{ .Phases.one.Output.size }}"), [], 0, id="earlier"),
            pytest.param(action("", "{{ .Phases.one.Output.fileCount }}"), [], 0, id="camel case"),
            pytest.param(
                action("", "{{ .Phases.one.Output.sise }}"), ["output-unknown"], 13, id="no output"
            ),
            pytest.param(action("", "", "{{ .Phases.two.Output.any }}"), [], 0, id="undeclared"),
            pytest.param(action("", "{{ .Phases.elsewhere }}"), ["phase-unknown"], 13, id="other"),
            pytest.param(action("", "{{ .Phases.end }}"), ["phase-unknown"], 13, id="deferred"),
            pytest.param(action("", "{{ .Phases.ones }}"), ["phase-unknown"], 13, id="misspelt"),
            pytest.param(
                action("", "{{ .ArtifactsIn.dump.KeyValue.x }}"),
                ["dependency-not-declared"],
                13,
                id="an artifact",
            ),
            pytest.param(
                action(
                    "",
                    "{{ .ArtifactsIn.a }}{{ .Secrets.s }}{{ .ConfigMaps.c }}",
                    fields="    inputArtifactNames: [a]\n"
                    "    secretNames: [s]\n    configMapNames: [c]\n",
                ),
                [],
                0,
                id="declared",
            ),
            pytest.param(
                action(
                    fields="    outputArtifacts: {o: {keyValue: {k: '{{ .Secrets.s.Data }}'}}}\n"
                ),
                ["dependency-not-declared", "secret-in-artifact"],
                6,
                id="a secret in an artifact",
            ),
            pytest.param(
                action(
                    fields="    outputArtifacts: {o: {kopiaSnapshot: '{{ .DeferPhase.Output }}'}}\n"
                ),
                [],
                0,
                id="an artifact of the deferred phase",
            ),
            pytest.param(
                action("{{ .Options.x }}{{ .Options.y }}", fields="    options: {x: {}}\n"),
                ["option-undeclared"],
                11,
                id="an option that is not declared",
            ),
            pytest.param(
                action().replace("name: k,", "name: '{{ .Phases.two.Output.x }}',"),
                ["objects-read-phases"],
                9,
                id="objects that read phases",
            ),
        ],
    )
    def test_are_checked_against_the_available_values(
        self, lint: Lint, text: str, rules: list[str], line: int
    ) -> None:
        findings = lint(text)
        assert sorted(finding.rule for finding in findings) == rules
        assert all(finding.line == line for finding in findings)

    @pytest.mark.parametrize(
        ("text", "messages"),
        [
            pytest.param(
                "{{ range .StatefulSet.Pods }}{{ .Name }}{{ end }}",
                ['There is no "Name" in .StatefulSet.Pods[…], which is text'],
                id="the dot of a range",
            ),
            pytest.param(
                "{{ range $i, $p := .StatefulSet.Pods }}{{ $i.x }}{{ $p.Name }}{{ end }}",
                ['There is no "Name" in .StatefulSet.Pods[…], which is text'],
                id="its variables",
            ),
            pytest.param(
                "{{ (index .Deployment.Containers 0).Name }}",
                ['There is no "Name" in .Deployment.Containers[…], which is a list: '],
                id="an element",
            ),
            pytest.param(
                "{{ range $k, $v := .ArtifactsIn }}{{ $v.keyValue }}{{ end }}",
                ['There is no "keyValue" in .ArtifactsIn[…]; there are: KeyValue, KopiaSnapshot'],
                id="values of a map",
            ),
            pytest.param(
                "{{ range .Object.items }}{{ .x.y }}{{ end }}"
                "{{ range .Phases }}{{ .Output.x }}{{ end }}"
                "{{ range until 3 }}{{ .x }}{{ end }}"
                "{{ range .StatefulSet.Pods }}{{ . }}{{ $.Time }}{{ end }}",
                [],
                id="values of unknown type",
            ),
        ],
    )
    def test_are_followed_into_lists(self, lint: Lint, text: str, messages: list[str]) -> None:
        findings = lint(action("", text))
        assert len(findings) == len(messages)
        assert all(
            message in finding.message for message, finding in zip(messages, findings, strict=True)
        )

    def test_in_a_branch_are_warnings(self, lint: Lint) -> None:
        (finding,) = lint(action("{{ if .Options.x }}{{ .Phases.two.Output.y }}{{ end }}"))
        assert (finding.rule, finding.severity) == ("phase-later", "warning")

    @pytest.mark.parametrize(
        ("text", "severity"),
        [
            pytest.param("{{ .Namespace.Nme }}", "error", id="in Go"),
            pytest.param("{{ Namespace.Nme }}", "error", id="in Jinja2"),
            pytest.param("{{ Namespace.Nme | default(1) }}", "warning", id="with a default"),
        ],
    )
    def test_of_either_engine_must_read_existing_fields(
        self, lint: Lint, text: str, severity: str
    ) -> None:
        (finding,) = lint(action(text))
        assert (finding.rule, finding.severity) == ("field-unknown", severity)

    def test_in_a_block_scalar_are_reported_with_their_line(self, lint: Lint) -> None:
        text = (
            f"{HEAD}  go:\n    phases:\n    - func: Shell\n      name: p\n      args:\n"
            "        command:\n        - |\n          echo one\n          echo {{ .Nope }}\n"
        )
        (finding,) = lint(text)
        assert (finding.line, finding.path) == (13, "actions.go.phases[0].args.command[0]")
        assert finding.message.startswith("There is no .Nope; expected one of .StatefulSet, ")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(
                action("{{ .Time }}"), "An expression contains .Time; read as Go templates", id="Go"
            ),
            pytest.param(
                action("{{ Time | upper }}"), "Go cannot parse all templates", id="Jinja2"
            ),
            pytest.param(
                action("{{ 3 }}").replace(
                    "{name: b}",
                    "{name: b, annotations: {kanister-py.io/template-engine: jinja2}}",
                ),
                "selects it; read as Jinja2",
                id="as the annotation says",
            ),
        ],
    )
    def test_have_an_engine_that_is_reported(self, text: str, expected: str) -> None:
        context = Context(registry_of(Measure, Shell))
        report = lint_sources([Source("b.yaml", text)], context)
        (finding,) = [finding for finding in report.findings if finding.rule == "template-engine"]
        assert expected in finding.message

    def test_of_an_unknown_engine_are_an_error(self, lint: Lint) -> None:
        text = action("{{ x }}").replace(
            "{name: b}", "{name: b, annotations: {kanister-py.io/template-engine: perl}}"
        )
        assert [finding.rule for finding in lint(text)] == ["template-engine-unknown"]


@pytest.mark.parametrize(
    ("field", "count"),
    [
        ("timeout: 5m", 0),
        ("timeout: 5 minutes", 1),
        ("timeout: '30'", 1),
        ("retry: {limit: 1, backoff: 10s, maxBackoff: soon}", 1),
        ("timeout: -5s", 1),
        ("timeout: 0s", 1),
        ("retry: {limit: 1, backoff: -1s}", 1),
        ("retry: {limit: 1, backoff: 0s}", 0),
    ],
)
def test_invalid_durations_are_reported(lint: Lint, field: str, count: int) -> None:
    text = f"{HEAD}  a:\n    phases:\n    - func: Shell\n      name: p\n      {field}\n"
    assert [finding.rule for finding in lint(text)] == ["duration-invalid"] * count


@pytest.mark.parametrize(
    ("first", "deferred", "artifact", "rules"),
    [
        ("{{ .DeferPhase.Output.x }}", "", "", ["phase-later"]),
        ("", "{{ .DeferPhase.Output.x }}", "", ["phase-later"]),
        ('{{ index .DeferPhase.Output "x" }}', "", "", []),
        ("", "", "{{ .DeferPhase.Output.x }}", []),
    ],
    ids=["by a phase", "by itself", "tolerantly", "by an artifact"],
)
def test_output_of_the_defer_phase_that_is_read_too_early_is_reported(
    lint: Lint, first: str, deferred: str, artifact: str, rules: list[str]
) -> None:
    text = (
        f"{HEAD}  a:\n    outputArtifacts: {{d: {{keyValue: {{k: '{artifact}'}}}}}}\n    phases:\n"
        f"    - {{func: Shell, name: p, args: {{command: ['{first}']}}}}\n"
        f"    deferPhase: {{func: Shell, name: q, args: {{command: ['{deferred}']}}}}\n"
    )
    assert [finding.rule for finding in lint(text) if finding.rule == "phase-later"] == rules
