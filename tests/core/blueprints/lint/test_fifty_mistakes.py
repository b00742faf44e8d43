"""Fifty mistakes of authors: each finding names its place, what was found and what to do."""

from __future__ import annotations

import pytest

from kanister_py.core.actionsets.model import check_schema
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions

BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata:
  name: db
actions:
  backup:
    outputArtifacts:
      dump:
        keyValue:
          path: "{{ .Phases.dump.Output.path }}"
    phases:
    - func: ScaleWorkload
      name: stop
      args:
        replicas: 0
    - func: KubeTask
      name: dump
      objects:
        db:
          kind: Secret
          name: "{{ .StatefulSet.Name }}-login"
          namespace: "{{ .StatefulSet.Namespace }}"
      timeout: 10m
      retry:
        limit: 2
        backoff: 5s
      args:
        image: postgres
        namespace: "{{ .StatefulSet.Namespace }}"
        command:
        - sh
        - -c
        - |
          export PASSWORD={{ .Phases.dump.Secrets.db.Data.password | toString }}
          if true; then
            pg_dump --table {{ index .Options "table" }}
          fi
          kando output path {{ .Time }}
    deferPhase:
      func: ScaleWorkload
      name: start
      args:
        replicas: 1
  restore:
    inputArtifactNames: [dump]
    phases:
    - func: KubeTask
      name: load
      args:
        image: postgres
        command: [sh, -c, "kando location pull --path {{ .ArtifactsIn.dump.KeyValue.path }} -"]
---
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata:
  generateName: backup-
spec:
  actions:
  - name: backup
    blueprint: db
    object:
      kind: StatefulSet
      name: db
      namespace: shop
    options:
      table: users
"""

# Name, replaced text, new text, part of the message about the problem, part about the fix.
MISTAKES = [
    # Keys
    ("a key of an action", "    deferPhase:", "    defferPhase:", "defferPhase", "deferPhase?"),
    (
        "another",
        "    outputArtifacts:",
        "    outputArtefacts:",
        "outputArtefacts",
        "did you mean outputArtifacts",
    ),
    ("a key of a phase", "      retry:", "      retries:", "retries", "did you mean retry?"),
    ("another", "      timeout: 10m", "      timeOut: 10m", "timeOut", "did you mean timeout?"),
    ("another", "      objects:", "      object:", "'object'", "did you mean objects?"),
    ("a key of retries", "        limit: 2", "        limits: 2", "limits", "did you mean limit?"),
    ("a key of an artifact", "        keyValue:", "        keyValues:", "keyValues", "keyValue?"),
    ("a key of a reference", "          kind: Secret", "          knd: Secret", "knd", "kind?"),
    ("a key at the top", "actions:\n  backup", "action:\n  backup", "'action'", "actions?"),
    ("a key of an ActionSet", "    options:", "    option:", "'option'", "did you mean options?"),
    ("its spec", "spec:\n", "spec:\n  cancell: true\n", "cancell", "did you mean cancel?"),
    # Kinds and forms
    ("the kind", "kind: Blueprint", "kind: BluePrint", "BluePrint", "must be Blueprint"),
    ("the version", "v1alpha1\nkind: B", "v1\nkind: B", "cr.kanister.io/v1'", "/v1alpha1"),
    (
        "text for a list",
        "        command:\n        - sh\n",
        "        command:\n        - [sh]\n",
        "command",
        "expected text",
    ),
    (
        "a map for a list",
        "    inputArtifactNames: [dump]\n",
        "    inputArtifactNames: {dump: x}\n",
        "found a map",
        "Must be a list",
    ),
    ("a number for a name", "      name: stop", "      name: 7", "found 7", "put it in quotes"),
    (
        "a list for options",
        "    options:\n      table: users",
        "    options:\n    - users",
        "found a list",
        "Must be a map",
    ),
    ("a number as an option", "      table: users", "      table: 7", "found 7", "in quotes"),
    (
        "a key given twice",
        "      timeout: 10m",
        "      timeout: 10m\n      timeout: 5m",
        "repeated",
        "first on line",
    ),
    ("a limit below none", "        limit: 2", "        limit: -1", "found -1", "at least 0"),
    ("a time without a unit", "timeout: 10m", 'timeout: "10"', "'10' is not a duration", "unit"),
    ("a time in words", "backoff: 5s", "backoff: 5 seconds", "5 seconds", "is not a duration"),
    # Names
    (
        "no function",
        "    - func: ScaleWorkload\n      name: stop",
        "    - name: stop",
        "no function",
        "`func`",
    ),
    (
        "an unknown function",
        "    - func: ScaleWorkload",
        "    - func: ScaleWorkloads",
        "ScaleWorkloads",
        "did you mean ScaleWorkload",
    ),
    (
        "a function of pipelines",
        "    - func: ScaleWorkload",
        "    - func: function-auto-ready",
        "function-auto-ready",
        "of compositions",
    ),
    (
        "two phases of a name",
        "      name: dump",
        "      name: stop",
        "two phases called stop",
        "first on line",
    ),
    (
        "an unknown action",
        "  - name: backup\n",
        "  - name: bakup\n",
        "no action bakup",
        "did you mean backup?",
    ),
    # Versions
    (
        "a version too short",
        "      name: stop",
        "      name: stop\n      funcVersion: v1",
        "v1",
        "v1.0.0",
    ),
    (
        "no version",
        "      name: stop",
        "      name: stop\n      funcVersion: latest",
        "latest",
        "version",
    ),
    (
        "an unknown version",
        "      name: stop",
        "      name: stop\n      funcVersion: v9.0.0",
        "v9.0.0",
        "v0.1.0",
    ),
    (
        "an empty range",
        "      name: stop",
        '      name: stop\n      funcVersion: ">9"',
        ">9",
        "v0.1.0",
    ),
    # Arguments
    (
        "an unknown argument",
        "        replicas: 0",
        "        replicas: 0\n        waitForRedy: true",
        "waitForRedy",
        "did you mean waitForReady?",
    ),
    (
        "a missing argument",
        "      args:\n        image: postgres\n        name",
        "      args:\n        name",
        "missing: image",
        "image",
    ),
    (
        "a word for a number",
        "        replicas: 0",
        "        replicas: none",
        "found 'none'",
        "to a number",
    ),
    (
        "a kind that cannot be scaled",
        "        replicas: 0",
        "        replicas: 0\n        kind: statfulset",
        "not supported statfulset",
        "use StatefulSet",
    ),
    (
        "an operation that is none",
        "    - func: ScaleWorkload\n      name: stop\n      args:\n        replicas: 0",
        "    - func: KubeOps\n      name: stop\n      args:\n        operation: creat",
        "'creat'",
        "use create, delete, patch",
    ),
    (
        "a misspelt reason to try again",
        "        backoff: 5s",
        "        backoff: 5s\n        on: [ComandFailed]",
        "ComandFailed",
        "did you mean CommandFailed?",
    ),
    (
        "a command as a text",
        'command: [sh, -c, "kando location pull --path {{ .ArtifactsIn.dump.KeyValue.path }} -"]',
        "command: pg_dump db",
        "'pg_dump db' as a whole",
        "write a list of words",
    ),
    # Templates
    ("an unclosed end", "{{ .Time }}", "{{ .Time }", 'unexpected "}"', "close {{ with }}"),
    (
        "a missing end",
        "{{ .Phases.dump.Output.path }}",
        "{{ if .Time }}",
        "EOF",
        "lacks its {{ end }}",
    ),
    (
        "an end too many",
        "          fi\n",
        "          {{ end }}\n",
        "unexpected {{end}}",
        "no {{ if }}",
    ),
    ("an unknown function", "| toString", "| toStrin", "toStrin", "did you mean toString"),
    (
        "a hyphen",
        '{{ index .Options "table" }}',
        "{{ .Options.my-table }}",
        "'-'",
        'index .Options "a-b"',
    ),
    ("a comparison", "if true; then", '{{ if .Time == "x" }}{{ end }}', '"="', "{{ if eq .A .B }}"),
    ("a quote left open", '"table" }}', '"table }}', "unterminated", "end a text with the quote"),
    ("a name at the top", "{{ .Time }}", "{{ .Tme }}", ".Tme", "did you mean .Time?"),
    (
        "a field of a workload",
        '    namespace: "{{ .StatefulSet.Namespace }}"\n        command',
        '    namespace: "{{ .StatefulSet.Namspace }}"\n        command',
        "Namspace",
        "there are: Namespace",
    ),
    (
        "labels of a workload",
        "{{ .Time }}",
        "{{ .StatefulSet.Labels.app }}",
        "Labels",
        "there are: ",
    ),
    ("a field of a text", "{{ .Time }}", "{{ .Time.Year }}", '"Year" in .Time', "which is text"),
    ("a field of a Secret", "Secrets.db.Data.", "Secrets.db.data.", '"data"', "there are: Data"),
    ("an unknown object", ".Secrets.db.", ".Secrets.dbs.", "no object dbs", "did you mean db?"),
    (
        "an unknown phase",
        'path: "{{ .Phases.dump.',
        'path: "{{ .Phases.dmp.',
        "no phase dmp",
        "did you mean dump?",
    ),
    (
        "a phase of another action",
        "{{ .ArtifactsIn.dump.KeyValue.path }}",
        "{{ .Phases.dump.Output.path }}",
        "no phase dump",
        "belongs to the action backup",
    ),
    (
        "a later phase",
        "        replicas: 0",
        '        replicas: "{{ .Phases.dump.Output.n }}"',
        ".Phases.dump.Output.n",
        "the phase dump runs later",
    ),
    (
        "phases in references",
        'name: "{{ .StatefulSet.Name }}-login"',
        'name: "{{ .Phases.stop.Output.x }}"',
        ".Phases.stop.Output.x",
        "before any phase has run",
    ),
    (
        "an unknown language",
        "  name: db\n",
        "  name: db\n  annotations: {kanister-py.io/template-engine: perl}\n",
        "'perl'",
        "expected one of go, jinja2",
    ),
]


def context() -> Context:
    return Context(
        read_functions().registry,
        load=load_function,
        schema_checks={"ActionSet": check_schema},
    )


@pytest.mark.parametrize(
    ("before", "after", "problem", "fix"),
    [pytest.param(*row[1:], id=f"{at} {row[0]}") for at, row in enumerate(MISTAKES, 1)],
)
def test_mistake_is_reported_with_place_problem_and_fix(
    before: str, after: str, problem: str, fix: str
) -> None:
    at = BLUEPRINT.index(before)
    text = BLUEPRINT.replace(before, after, 1)
    matching = [
        finding
        for finding in lint_sources([Source("db.yaml", text)], context()).findings
        if finding.rule != "template-engine"
        and problem in finding.message
        and fix in finding.message
    ]
    assert matching
    first = BLUEPRINT.count("\n", 0, at) + 1
    assert matching[0].file == "db.yaml"
    assert first <= matching[0].line <= first + max(before.count("\n"), after.count("\n"))


def test_the_correct_blueprint_has_no_findings() -> None:
    report = lint_sources([Source("db.yaml", BLUEPRINT)], context())
    assert {finding.rule for finding in report.findings} == {"template-engine"}
    assert len(MISTAKES) >= 50
