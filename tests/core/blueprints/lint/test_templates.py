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
    path: str = Field(description="What is measured")
    depth: int = 1
    exclude: list[str] = Field(default_factory=list)


class MeasureOutputs(Outputs):
    size: str
    file_count: int = 0


class Measure(Func):
    """Measures something."""

    name = "Measure"
    Args = MeasureArgs
    Outputs = MeasureOutputs

    def exec(self, ctx: Any, params: Any, args: Any) -> Mapping[str, Any]:
        return {"size": "1"}


class ShellArgs(Args):
    command: list[str] = Field(default_factory=list)


class Shell(Func):
    """Runs something, with outputs that only the blueprint knows."""

    name = "Shell"
    Args = ShellArgs

    def exec(self, ctx: Any, params: Any, args: Any) -> None:
        return None


@pytest.fixture(scope="module")
def lint() -> Callable[[str], list[Finding]]:
    context = Context(registry_of(Measure, Shell), load=load_function)

    def lint_text(text: str) -> list[Finding]:
        report = lint_sources([Source("b.yaml", text)], context)
        return [each for each in report.findings if each.rule != "template-engine"]

    return lint_text


Lint = Callable[[str], list[Finding]]


class TestArguments:
    @pytest.mark.parametrize(
        ("args", "rules"),
        [
            pytest.param("{path: x}", [], id="what is required"),
            pytest.param("{path: x, depth: '3', exclude: a}", [], id="loosely written"),
            pytest.param("{path: x, depth: '{{ .Options.d }}'}", [], id="a template"),
            pytest.param("{path: 5}", [], id="a number where text is wanted"),
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
    def test_are_held_against_what_the_function_takes(
        self, lint: Lint, args: str, rules: list[str]
    ) -> None:
        text = f"{HEAD}  a:\n    phases:\n    - func: Measure\n      name: p\n      args: {args}\n"
        findings = lint(text)
        assert sorted(each.rule for each in findings) == rules
        assert exit_code_of(findings) == (1 if rules else 0)
        assert all(each.line == 9 for each in findings)

    def test_that_are_a_command_are_no_single_text(self, lint: Lint) -> None:
        text = f"{HEAD}  a:\n    phases: [{{func: Shell, name: s, args: {{command: echo hi}}}}]\n"
        assert [each.rule for each in lint(text)] == ["command-as-text"]

    def test_are_looked_at_in_a_deferred_phase_too(self, lint: Lint) -> None:
        text = (
            f"{HEAD}  a:\n    phases: [{{func: Shell, name: s}}]\n"
            "    deferPhase: {func: Measure}\n"
        )
        assert [each.rule for each in lint(text)] == ["argument-missing"]


def action(first: str = "", second: str = "", last: str = "", rest: str = "") -> str:
    return (
        f"{HEAD}  go:\n"
        f"{rest}"
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
                    rest="    inputArtifactNames: [a]\n"
                    "    secretNames: [s]\n    configMapNames: [c]\n",
                ),
                [],
                0,
                id="declared",
            ),
            pytest.param(
                action(rest="    outputArtifacts: {o: {keyValue: {k: '{{ .Secrets.s.Data }}'}}}\n"),
                ["dependency-not-declared", "secret-in-artifact"],
                6,
                id="a secret that leaves",
            ),
            pytest.param(
                action(
                    rest="    outputArtifacts: {o: {kopiaSnapshot: '{{ .DeferPhase.Output }}'}}\n"
                ),
                [],
                0,
                id="an artifact of the deferred phase",
            ),
            pytest.param(
                action().replace("name: k,", "name: '{{ .Phases.two.Output.x }}',"),
                ["objects-read-phases"],
                9,
                id="objects that read phases",
            ),
        ],
    )
    def test_are_held_against_what_they_will_find(
        self, lint: Lint, text: str, rules: list[str], line: int
    ) -> None:
        findings = lint(text)
        assert sorted(each.rule for each in findings) == rules
        assert all(each.line == line for each in findings)

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
                id="what is in a map",
            ),
            pytest.param(
                "{{ range .Object.items }}{{ .x.y }}{{ end }}"
                "{{ range .Phases }}{{ .Output.x }}{{ end }}"
                "{{ range until 3 }}{{ .x }}{{ end }}"
                "{{ range .StatefulSet.Pods }}{{ . }}{{ $.Time }}{{ end }}",
                [],
                id="what may be there",
            ),
        ],
    )
    def test_are_followed_into_lists(self, lint: Lint, text: str, messages: list[str]) -> None:
        found = lint(action("", text))
        assert len(found) == len(messages)
        assert all(want in each.message for want, each in zip(messages, found, strict=True))

    def test_in_a_branch_are_only_warned_of(self, lint: Lint) -> None:
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
    def test_of_either_language_read_fields_that_can_exist(
        self, lint: Lint, text: str, severity: str
    ) -> None:
        (finding,) = lint(action(text))
        assert (finding.rule, finding.severity) == ("field-unknown", severity)

    def test_in_a_block_are_found_on_their_line(self, lint: Lint) -> None:
        text = (
            f"{HEAD}  go:\n    phases:\n    - func: Shell\n      name: p\n      args:\n"
            "        command:\n        - |\n          echo one\n          echo {{ .Nope }}\n"
        )
        (finding,) = lint(text)
        assert (finding.line, finding.path) == (13, "actions.go.phases[0].args.command[0]")
        assert finding.message.startswith("There is no .Nope; expected one of .StatefulSet, ")

    @pytest.mark.parametrize(
        ("text", "taken"),
        [
            pytest.param(
                action("{{ .Time }}"), "An expression reads .Time; read as Go templates", id="Go"
            ),
            pytest.param(action("{{ Time | upper }}"), "Go cannot read all of them", id="Jinja2"),
            pytest.param(
                action("{{ 3 }}").replace(
                    "{name: b}",
                    "{name: b, annotations: {kanister-py.io/template-engine: jinja2}}",
                ),
                "says so; read as Jinja2",
                id="as the annotation says",
            ),
        ],
    )
    def test_are_read_in_a_language_that_is_told(self, text: str, taken: str) -> None:
        context = Context(registry_of(Measure, Shell))
        report = lint_sources([Source("b.yaml", text)], context)
        (finding,) = [each for each in report.findings if each.rule == "template-engine"]
        assert taken in finding.message

    def test_of_a_language_that_nobody_reads_are_an_error(self, lint: Lint) -> None:
        text = action("{{ x }}").replace(
            "{name: b}", "{name: b, annotations: {kanister-py.io/template-engine: perl}}"
        )
        assert [each.rule for each in lint(text)] == ["template-engine-unknown"]


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
def test_times_that_cannot_be_read_or_meant_are_told(lint: Lint, field: str, count: int) -> None:
    text = f"{HEAD}  a:\n    phases:\n    - func: Shell\n      name: p\n      {field}\n"
    assert [each.rule for each in lint(text)] == ["duration-invalid"] * count


@pytest.mark.parametrize(
    ("first", "deferred", "kept", "rules"),
    [
        ("{{ .DeferPhase.Output.x }}", "", "", ["phase-later"]),
        ("", "{{ .DeferPhase.Output.x }}", "", ["phase-later"]),
        ('{{ index .DeferPhase.Output "x" }}', "", "", []),
        ("", "", "{{ .DeferPhase.Output.x }}", []),
    ],
    ids=["by a phase", "by itself", "tolerantly", "by an artifact"],
)
def test_an_output_of_the_defer_phase_that_is_read_too_early_is_told(
    lint: Lint, first: str, deferred: str, kept: str, rules: list[str]
) -> None:
    text = (
        f"{HEAD}  a:\n    outputArtifacts: {{d: {{keyValue: {{k: '{kept}'}}}}}}\n    phases:\n"
        f"    - {{func: Shell, name: p, args: {{command: ['{first}']}}}}\n"
        f"    deferPhase: {{func: Shell, name: q, args: {{command: ['{deferred}']}}}}\n"
    )
    assert [each.rule for each in lint(text) if each.rule == "phase-later"] == rules
