"""Find mistakes and deprecated or removed versions in blueprints before they run.

kanister-py lint blueprints/
kanister-py lint blueprint.yaml --target-release 0.4.0
kanister-py lint --cluster -A -o json
kanister-py lint --explain all

A PATH is a file, a folder with all *.yaml, *.yml and *.json below it, or - for stdin.
Compositions, Functions, ActionSets and Schedules are checked, too. A comment
`# kanister-py: ignore=RULE` disables a rule on its line or the next one. With --cluster, the
Blueprints and the ActionSets in progress of a cluster are checked; findings then show when the
object was created and when the phase last ran.

Exit codes: 0 none of the following; 1 errors, unreadable files included; 2 deprecated versions;
3 removed versions; 4 removed versions without a replacement. If several apply, the first of 1, 4,
3, 2.
--fail-on LEVEL decides alone: 1 for findings of that level or a higher one, else 0.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from kanister_py.cli import exit_codes
from kanister_py.cli.connection import add_connection, is_connected
from kanister_py.cli.files import read_all
from kanister_py.cli.findings import github_lines, gitlab_of, sarif_of, table_lines
from kanister_py.cli.installed import installed_functions
from kanister_py.cli.junit import TestResult, junit_of
from kanister_py.cli.output import say, say_error, write_data, write_text
from kanister_py.cli.parser import CommandLineError, repeated, suggestion_or_list, switch
from kanister_py.cli.releases import add_target_release, releases_at, unplanned
from kanister_py.core.blueprints.lint.action_sets import NOT_GIVEN
from kanister_py.core.blueprints.lint.check import Report, lint_sources, rules
from kanister_py.core.blueprints.lint.context import Context, SchemaCheck
from kanister_py.core.blueprints.lint.findings import Finding, Severity, finding_of, in_order
from kanister_py.core.blueprints.lint.reading import NOT_A_BLUEPRINT, OVERLOOKED, UNREADABLE, Source
from kanister_py.core.blueprints.lint.versions import DEPRECATED, REMOVED
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.models import UnknownKey
from kanister_py.executor.loading import load_function

FORMATS = ("table", "json", "yaml", "github", "gitlab", "sarif", "junit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a file, a folder, or - for stdin")
    cluster_group = parser.add_argument_group("objects of a cluster")
    switch(cluster_group, "--cluster", help="check the objects of a cluster")
    cluster_group.add_argument(
        "-n", "--namespace", default="", help="default: the namespace of the context"
    )
    switch(cluster_group, "-A", "--all-namespaces", help="check all namespaces")
    add_connection(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="table for people, github for annotations, gitlab for Code Quality reports, sarif for "
        "code scanning, junit for test reports (default: table)",
    )
    add_target_release(parser)
    switch(
        parser,
        "--only-removed",
        help="report only removed versions and unreadable files",
    )
    switch(
        parser,
        "--strict-versions",
        help="report an error for unknown versions, which otherwise fall back to v0.0.0, and for "
        "package releases that no built-in version replaces",
    )
    parser.add_argument(
        "--fail-on",
        choices=[str(severity) for severity in Severity],
        help="exit with 1 for findings of this severity or a higher one, and with 0 otherwise, "
        "instead of the exit codes above",
    )
    switch(
        parser,
        "-v",
        "--verbose",
        help="report the template language of each Blueprint",
    )
    repeated(
        parser,
        "--ignore",
        metavar="RULE",
        type=_known_rule,
        help="leave out the findings of this rule; may be repeated",
    )
    parser.add_argument(
        "--explain",
        metavar="RULE",
        type=lambda text: text if text == "all" else _known_rule(text),
        help="explain a rule, or `all` rules",
    )


def _known_rule(text: str) -> str:
    registered_rules = rules()
    if text in registered_rules:
        return text
    raise argparse.ArgumentTypeError(
        f"no rule {text!r}{suggestion_or_list(text, registered_rules)}"
    )


def run(args: argparse.Namespace) -> int:
    """Check the files and objects; return the exit code for the findings."""
    if args.explain:
        return _explain(args.explain, args.output)
    if not args.paths and not args.cluster:
        raise CommandLineError("Name files or folders, - for stdin, or --cluster")
    if is_connected(args) and not args.cluster:
        raise CommandLineError("--context, --kubeconfig and --in-cluster need --cluster")
    report, files, is_unplanned = _lint(args)
    fail_on = Severity(args.fail_on) if args.fail_on else None
    findings = [
        finding
        for finding in report.findings
        if not args.only_removed or finding.rule in (REMOVED.id, *_UNCHECKED)
    ]
    shown = findings
    if args.output not in ("json", "yaml") and not args.verbose:
        # A file without problems has no row.
        shown = [finding for finding in findings if finding.rule != _LANGUAGE]
    if args.output == "table":
        _say_unreadable(shown)
    if args.output == "junit":
        write_text(_junit_of(findings, files, fail_on))
    else:
        _write(shown, args.output)
    _say_summary(report, shown, len(files), is_cluster=args.cluster)
    if args.target_release:
        names = ", ".join(str(release) for release in args.target_release)
        say(_verdict_on_upgrade(shown, names, is_unplanned=is_unplanned))
    return exit_code_of(findings, fail_on)


def _lint(args: argparse.Namespace) -> tuple[Report, list[str], bool]:
    """Return the report, the names of the files, and whether a release has no known plans."""
    functions = installed_functions()
    registry = functions.registry
    at = releases_at(args.target_release, registry)
    without_plans = [*unplanned(args.target_release, registry)]
    for target, last in without_plans:
        say(f"note: {target} is later than {last.bare}, the last release with known plans")
    inputs, texts, problems = read_all(args.paths)
    sources = [
        Source(input_.name, texts[input_.name], input_.is_named)
        for input_ in inputs
        if input_.name in texts
    ]
    context = Context(
        registry,
        at,
        args.strict_versions,
        load_function,
        {kind: _schema_check(module) for kind, module in _SCHEMA_MODULES.items()},
        _crd_of,
    )
    report = lint_sources(sources, context, args.ignore)
    unread = [finding_of(problem, UNREADABLE) for problem in problems]
    findings = in_order([*unread, *report.findings], [input_.name for input_ in inputs])
    if args.cluster:
        from kanister_py.cli.lint_cluster import lint_cluster

        cluster_findings = lint_cluster(args, context)
        findings += cluster_findings.findings
        report = report._replace(
            blueprints=report.blueprints + cluster_findings.blueprints,
            action_sets=report.action_sets + cluster_findings.action_sets,
            compositions=report.compositions + cluster_findings.compositions,
            schedules=report.schedules + cluster_findings.schedules,
        )
    full_report = report._replace(findings=tuple(findings))
    return full_report, [input_.name for input_ in inputs], bool(without_plans)


def _crd_of(definition: LocatedObject) -> Mapping[str, Any]:
    """Return the CRD of a definition of composite resources; a CRD is returned unchanged."""
    from kanister_py.core.compositions.composite_crds import crd_of
    from kanister_py.core.compositions.definitions import DEFINITION_KIND, read_definition

    if definition.kind != DEFINITION_KIND:
        return definition.value
    parsed, _ = read_definition(definition.value)
    return crd_of(parsed)


_SCHEMA_MODULES = {
    "ActionSet": "kanister_py.core.actionsets.model",
    "Composition": "kanister_py.core.compositions.model",
    "Schedule": "kanister_py.core.schedules.model",
}


def _schema_check(module: str) -> SchemaCheck:
    """Return a check that imports its module when the first object of its kind is found."""

    def read(obj: LocatedObject) -> tuple[list[UnknownKey], list[Problem]]:
        unknown, problems = import_module(module).check_schema(obj)
        return unknown, problems

    return read


def _say_unreadable(findings: Sequence[Finding]) -> None:
    """Write unreadable files to stderr: in a table they are errors, not findings."""
    problems = [
        Problem(finding.file, finding.line, finding.column, finding.path, finding.message)
        for finding in findings
        if finding.rule == UNREADABLE.id
    ]
    if problems:
        say_error(InvalidDocument(problems))


def _write(findings: Sequence[Finding], form: str) -> None:
    if form == "github":
        write_data(None, "lines", lambda: github_lines(findings))
    elif form == "gitlab":
        write_data(gitlab_of(findings), "json", list)
    elif form == "sarif":
        write_data(sarif_of(findings, rules(), version("kanister-py")), "json", list)
    elif form == "table":
        shown = [finding for finding in findings if finding.rule != UNREADABLE.id]
        write_data(None, "lines", lambda: table_lines(shown))
    else:
        write_data({"findings": [finding.as_dict() for finding in findings]}, form, list)


def _junit_of(findings: Sequence[Finding], files: Sequence[str], fail_on: Severity | None) -> str:
    """Return a report with one test case for each file; findings that fail lint fail it."""
    failures: dict[str, list[str]] = {file: [] for file in files}
    for finding in findings:
        if exit_code_of([finding], fail_on):
            place = f"{finding.file}:{finding.line}" if finding.line else finding.file
            failures.setdefault(finding.file, []).append(
                f"{place}: {finding.rule}: {finding.message}"
            )
    cases = [TestResult("lint", file, 0.0, messages) for file, messages in failures.items()]
    return junit_of("kanister-py lint", cases)


def _say_summary(
    report: Report,
    findings: Sequence[Finding],
    files: int,
    *,
    is_cluster: bool,
) -> None:
    for file in report.empty_files:
        say(f"note: {file}: Contains no object that lint checks")
    places = [_count(files, "file")] if files or not is_cluster else []
    places += ["the cluster"] if is_cluster else []
    kinds = [
        _count(report.blueprints, "Blueprint"),
        _count(report.action_sets, "ActionSet"),
        *([_count(report.schedules, "Schedule")] if report.schedules else []),
        *([_count(report.compositions, "Composition")] if report.compositions else []),
    ]
    checked = f"{', '.join(kinds[:-1])} and {kinds[-1]} in {' and '.join(places)}"
    by_severity = {
        severity: sum(finding.severity is severity for finding in findings) for severity in Severity
    }
    counts = ", ".join(
        _count(count, _NAMES[severity]) for severity, count in by_severity.items() if count
    )
    say(f"{checked}: {counts or 'nothing found'}")


def _verdict_on_upgrade(findings: Sequence[Finding], release: str, *, is_unplanned: bool) -> str:
    if any(
        finding.severity is Severity.ERROR and finding.rule not in _UNCHECKED
        for finding in findings
    ):
        return f"Not ready for the upgrade to {release}"
    if any(finding.rule in _UNCHECKED for finding in findings):
        return f"Unknown whether ready for the upgrade to {release}"
    if is_unplanned:
        return f"Nothing known prevents the upgrade to {release}"
    return f"Ready for the upgrade to {release}"


_LANGUAGE = "template-engine"
"""The rule that reports the template language of a Blueprint."""
_UNCHECKED = (UNREADABLE.id, NOT_A_BLUEPRINT.id, OVERLOOKED.id, NOT_GIVEN.id)
"""Rules that report something that could not be checked."""

_NAMES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _explain(rule_id: str, form: str) -> int:
    rules_by_id = rules()
    chosen = [*rules_by_id.values()] if rule_id == "all" else [rules_by_id[rule_id]]
    data = [
        {
            "rule": rule.id,
            "severity": str(rule.severity),
            "summary": rule.summary,
            "explanation": rule.explanation,
        }
        for rule in chosen
    ]
    if form in ("json", "yaml"):
        write_data(data if rule_id == "all" else data[0], form, list)
        return 0
    lines = []
    for rule in chosen:
        lines += [f"{rule.id} ({rule.severity})", f"  {rule.summary}", ""]
        lines += textwrap.wrap(rule.explanation, 78, initial_indent="  ", subsequent_indent="  ")
        lines += [""]
    write_data(None, "lines", lambda: lines[:-1])
    return 0


def exit_code_of(findings: Sequence[Finding], fail_on: Severity | None = None) -> int:
    """Return the exit code of lint: 1 before 4 before 3 before 2.

    `fail_on` replaces these rules: findings of this severity or a higher one are 1, others 0.
    """
    # The template language is information, not a problem.
    problems = [finding for finding in findings if finding.rule != _LANGUAGE]
    if fail_on is not None:
        failing = [*Severity][: [*Severity].index(fail_on) + 1]
        is_failure = any(finding.severity in failing for finding in problems)
        return exit_codes.FAILED if is_failure else exit_codes.FINE
    versions = (REMOVED.id, DEPRECATED.id)
    if any(
        finding.severity is Severity.ERROR and finding.rule not in versions for finding in problems
    ):
        return exit_codes.FAILED
    if any(finding.rule in versions and not finding.replacement for finding in findings):
        return exit_codes.NO_REPLACEMENT
    if any(finding.rule == REMOVED.id for finding in findings):
        return exit_codes.REMOVED
    if any(finding.rule == DEPRECATED.id for finding in findings):
        return exit_codes.DEPRECATED
    return exit_codes.FINE
