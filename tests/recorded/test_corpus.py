from __future__ import annotations

import os
from pathlib import Path

import pytest

from kanister_py.cli.lint import exit_code_of
from kanister_py.core.actionsets.model import check_schema
from kanister_py.core.blueprints.graph import dot_of, graph_of_blueprint, mermaid_of
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Severity
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.model import LocatedBlueprint, blueprints_in
from kanister_py.core.blueprints.upgrade import upgrade_sources
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.executor.loading import load_function
from kanister_py.runs import plan_blueprint
from kanister_py.wiring import read_functions

CORPUS = Path(os.environ.get("KANISTER_PY_RECORDED", ".")).parent / "corpus" / "blueprints"
FILES = sorted(CORPUS.rglob("*.yaml"))

# Correct findings about published blueprints; none of them is an error.
TRUE_FINDINGS = {
    "dependency-not-declared",
    "duplicate-phase-name-across-actions",
    "template-engine",
    # An identifier of the ActionSet that v0.0.0 puts into a shell command, as Kanister does.
    "argument-in-shell",
    "unknown-key",
    # Uses of functions with known traps.
    "version-trap",
}
# Published with an artifact whose key nothing reads, here or in Kanister.
WITH_UNKNOWN_KEY = "restore-actionset.yaml"
# An example with placeholders such as <secret-name>, which no API server takes as names.
WITH_PLACEHOLDERS = CORPUS / "etcd" / "etcd-in-cluster" / "k8s" / "backup-actionset.yaml"


def blueprints() -> list[LocatedBlueprint]:
    return [
        located for file in FILES for located in blueprints_in(parse_documents(file.read_bytes()))
    ]


def context() -> Context:
    return Context(
        read_functions().registry, load=load_function, schema_checks={"ActionSet": check_schema}
    )


def test_corpus_has_blueprints() -> None:
    assert len(blueprints()) >= 20


def test_unreplaced_placeholders_are_reported() -> None:
    report = lint_sources([Source("a.yaml", WITH_PLACEHOLDERS.read_bytes())], context())
    assert {(finding.rule, finding.line) for finding in report.findings} == {
        ("actionset-invalid", 17)
    }


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file != WITH_PLACEHOLDERS],
    ids=lambda file: str(file.relative_to(CORPUS)),
)
def test_published_blueprint_has_no_false_findings(file: Path) -> None:
    report = lint_sources([Source(str(file), file.read_bytes())], context())
    assert {finding.rule for finding in report.findings} <= TRUE_FINDINGS
    assert exit_code_of(report.findings) == 0, report.findings
    severities = {
        finding.severity for finding in report.findings if finding.rule != "argument-in-shell"
    }
    allowed = {Severity.INFO} | ({Severity.WARNING} if file.name == WITH_UNKNOWN_KEY else set())
    assert severities <= allowed


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CORPUS)))
def test_upgrade_does_not_change_published_blueprints(file: Path) -> None:
    (result,) = upgrade_sources([Source(str(file), file.read_bytes())], context())
    assert (result.changes, result.left) == ((), ())
    assert result.after.encode() == file.read_bytes()


@pytest.mark.parametrize("located", blueprints(), ids=lambda located: located.blueprint.name)
def test_actions_of_published_blueprints_can_be_planned_and_drawn(
    located: LocatedBlueprint,
) -> None:
    for action in located.blueprint.actions:
        plan = plan_blueprint(located, action)
        assert not plan.errors
        assert not any(phase.errors for phase in plan.phases), plan
        assert not plan.has_errors
    graph = graph_of_blueprint(located.blueprint)
    assert len(list(mermaid_of(graph))) > 4
    assert len(list(dot_of(graph))) > 3
