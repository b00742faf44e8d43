"""Output formats of lint findings, for people, CI and other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

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
    """Return a table of findings without empty columns."""
    if not findings:
        return []
    rows: list[Sequence[Cell]] = [
        (
            f"{finding.file}:{finding.line}" if finding.line else finding.file,
            Tint(str(finding.severity), _COLOURS[finding.severity]),
            finding.rule,
            finding.action,
            finding.phase,
            finding.function,
            finding.version,
            finding.replacement,
            finding.deprecated_in,
            finding.removed_in,
            finding.since.partition("T")[0],
            finding.last_run.partition("T")[0],
            " ".join(_message_of(finding).split()),
        )
        for finding in findings
    ]
    used = [index for index in range(len(_HEAD)) if any(row[index] for row in rows)]
    return table(
        [_HEAD[index] for index in used], [[row[index] or "-" for index in used] for row in rows]
    )


def _message_of(finding: Finding) -> str:
    """Return the message, prefixed with its path unless a function names the place."""
    if finding.function or not finding.path:
        return finding.message
    return f"{finding.path}: {finding.message}"


_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def github_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Write findings as workflow commands that create annotations on GitHub."""
    for finding in findings:
        properties = {} if finding.file == STDIN_NAME else {"file": finding.file}
        if finding.line:
            properties["line"] = str(finding.line)
            properties["col"] = str(finding.column)
        properties["title"] = finding.rule
        text = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{_GITHUB_LEVELS[finding.severity]} {text}::{_escaped(_message_of(finding))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


_GITLAB_LEVELS = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def gitlab_of(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as a Code Quality report of GitLab.

    Fingerprints leave out the line, so that a finding stays the same when text above it changes.
    """
    seen: Counter[str] = Counter()
    issues = []
    for finding in findings:
        identity = f"{finding.file}\n{finding.rule}\n{finding.path}\n{finding.message}"
        seen[identity] += 1
        fingerprint = sha256(f"{identity}\n{seen[identity]}".encode()).hexdigest()
        issues.append(
            {
                "description": _message_of(finding),
                "check_name": finding.rule,
                "fingerprint": fingerprint,
                "severity": _GITLAB_LEVELS[finding.severity],
                "location": {
                    "path": finding.file,
                    "lines": {"begin": max(finding.line, 1)},
                },
            }
        )
    return issues


_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(
    findings: Sequence[Finding], rules: Mapping[str, Rule], tool_version: str
) -> dict[str, Any]:
    """Return findings in SARIF 2.1.0, a format for results of static analysis."""
    used = sorted({finding.rule for finding in findings})
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
                        "rules": [_sarif_rule(rules[rule]) for rule in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(finding, index_of[finding.rule]) for finding in findings],
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
    path = PurePath("stdin" if file == STDIN_NAME else file)
    text = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    # Without the prefix, a colon in the first segment would be read as a scheme.
    return f"./{text}" if ":" in text.partition("/")[0] and not path.is_absolute() else text
