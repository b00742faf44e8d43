"""Findings of lint for people, for CI and for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kanister_py.cli.files import STDIN_NAME
from kanister_py.cli.output import Cell, Line, Tint, table
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_HEAD = (
    "PLACE",
    "SEVERITY",
    "RULE",
    "ACTION",
    "PHASE",
    "FUNCTION",
    "VERSION",
    "REPLACEMENT",
    "DEPRECATED IN",
    "REMOVED IN",
    "SINCE",
    "LAST RUN",
    "MESSAGE",
)


def table_lines(findings: Sequence[Finding]) -> list[Line]:
    """Set findings in columns; those that nobody fills are left out."""
    if not findings:
        return []
    rows: list[Sequence[Cell]] = [
        (
            f"{each.file}:{each.line}" if each.line else each.file,
            Tint(str(each.severity), _COLOURS[each.severity]),
            each.rule,
            each.action,
            each.phase,
            each.function,
            each.version,
            each.replacement,
            each.deprecated_in,
            each.removed_in,
            each.since.partition("T")[0],
            each.last_run.partition("T")[0],
            " ".join(_message_of(each).split()),
        )
        for each in findings
    ]
    used = [index for index in range(len(_HEAD)) if any(row[index] for row in rows)]
    return table(
        [_HEAD[index] for index in used], [[row[index] or "-" for index in used] for row in rows]
    )


def _message_of(finding: Finding) -> str:
    """Give the message, with its path in front where no function says the place."""
    if finding.function or not finding.path:
        return finding.message
    return f"{finding.path}: {finding.message}"


_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def github_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Write findings as the commands that make annotations on GitHub."""
    for each in findings:
        properties = {} if each.file == STDIN_NAME else {"file": each.file}
        if each.line:
            properties["line"] = str(each.line)
            properties["col"] = str(each.column)
        properties["title"] = each.rule
        written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{_GITHUB_LEVELS[each.severity]} {written}::{_escaped(_message_of(each))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(
    findings: Sequence[Finding], rules: Mapping[str, Rule], tool_version: str
) -> dict[str, Any]:
    """Write findings in SARIF 2.1.0, for programs that show or keep results of analyses."""
    used = sorted({each.rule for each in findings})
    index_of = {rule: index for index, rule in enumerate(used)}
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kanister-py lint",
                        "semanticVersion": tool_version,
                        "rules": [_sarif_rule(rules[each]) for each in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(each, index_of[each.rule]) for each in findings],
            }
        ],
    }


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": f"{rule.summary} {rule.explanation}"},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
    }


_FACTS = ("action", "phase", "function", "version", "replacement", "deprecatedIn", "removedIn")


def _sarif_result(finding: Finding, rule_index: int) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line:
        physical["region"] = {
            "startLine": finding.line,
            "startColumn": max(finding.column, 1),
        }
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    facts = finding.as_dict()
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": _message_of(finding)},
        "locations": [location],
        "properties": {key: facts[key] for key in _FACTS if facts[key]},
    }


def _uri(file: str) -> str:
    from pathlib import PurePath
    from urllib.parse import quote

    path = PurePath("stdin" if file == STDIN_NAME else file)
    text = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    # A relative reference whose first part has a colon would read as a scheme.
    return f"./{text}" if ":" in text.partition("/")[0] and not path.is_absolute() else text
