"""Find what would go wrong with blueprints, or surprise, before anybody runs them.

Looks at files, at folders with all *.yaml, *.yml and *.json below them, and at
stdin (-). A comment `# kanister-py: ignore=RULE` silences a rule on its line, or on
the line below. With --cluster it looks at the Blueprints of a cluster and at the ActionSets
that are under way there, and says since when they are there and when they last ran.

Exit codes: 0 fine; 2 deprecated versions found; 3 removed ones; 4 some without a
replacement; 1 other errors, files that cannot be read included. Of several, the
first of 1, 4, 3, 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from kanister_py.cli import exit_codes
from kanister_py.cli.connection import add_connection, is_connected
from kanister_py.cli.files import read_all
from kanister_py.cli.output import say, say_error, write_data
from kanister_py.cli.parser import CommandLineError, meant_among, repeated, switch
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

FORMATS = ("table", "json", "yaml", "github", "sarif")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a file, a folder, or - for stdin")
    there = parser.add_argument_group("on a cluster")
    switch(there, "--cluster", help="look at what is in use there")
    there.add_argument("-n", "--namespace", default="", help="default: that of the context")
    switch(there, "-A", "--all-namespaces")
    add_connection(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="table for people, github for annotations, sarif for code scanning (default: table)",
    )
    add_target_release(parser)
    switch(
        parser,
        "--only-removed",
        help="tell only of removed versions, and of files that cannot be read",
    )
    switch(
        parser,
        "--strict-versions",
        help="a version that nobody knows is an error, instead of falling back to v0.0.0, and a "
        "release of others that no built-in version stands for",
    )
    parser.add_argument(
        "--fail-on",
        choices=[str(each) for each in Severity],
        default=str(Severity.ERROR),
        help="the least that ends lint with 1 (default: error)",
    )
    switch(
        parser,
        "-v",
        "--verbose",
        help="say of every Blueprint in which language its templates are read",
    )
    repeated(
        parser,
        "--ignore",
        metavar="RULE",
        type=_known_rule,
        help="leave out what this rule finds; may be given several times",
    )
    parser.add_argument(
        "--explain",
        metavar="RULE",
        type=lambda text: text if text == "all" else _known_rule(text),
        help="say what a rule is about, or `all` for a list of them",
    )


def _known_rule(text: str) -> str:
    known = rules()
    if text in known:
        return text
    raise argparse.ArgumentTypeError(f"no rule {text!r}{meant_among(text, known)}")


def run(args: argparse.Namespace) -> int:
    """Judge every file, and give the exit code for what was found."""
    if args.explain:
        return _explain(args.explain, args.output)
    if not args.paths and not args.cluster:
        raise CommandLineError("Name files or folders, - for stdin, or --cluster")
    if is_connected(args) and not args.cluster:
        raise CommandLineError("--context and the like go with --cluster")
    report, files, is_beyond = _lint(args)
    findings = [
        each
        for each in report.findings
        if not args.only_removed or each.rule in (REMOVED.id, *_UNJUDGED)
    ]
    shown = findings
    if args.output not in ("json", "yaml") and not args.verbose:
        # A file in which all is well has no row.
        shown = [each for each in findings if each.rule != _LANGUAGE]
    if args.output == "table":
        _say_unreadable(shown)
    _write(shown, args.output)
    _say_summary(report, shown, files, is_cluster=args.cluster)
    if args.target_release:
        names = ", ".join(str(each) for each in args.target_release)
        say(f"{_fate_of(shown, is_beyond=is_beyond)} the upgrade to {names}")
    return exit_code_of(findings, Severity(args.fail_on))


def _lint(args: argparse.Namespace) -> tuple[Report, int, bool]:
    """Give the report, the number of files, and whether a release is beyond all plans."""
    from kanister_py.cli.installed import installed_functions
    from kanister_py.executor.loading import load_function

    functions = installed_functions()
    registry = functions.registry
    at = releases_at(args.target_release, registry)
    beyond = [*unplanned(args.target_release, registry)]
    for target, last in beyond:
        say(f"note: {target} is later than {last.bare}, the last release with known plans")
    inputs, texts, problems = read_all(args.paths)
    sources = [
        Source(each.name, texts[each.name], each.is_named) for each in inputs if each.name in texts
    ]
    context = Context(
        registry,
        at,
        args.strict_versions,
        load_function,
        {kind: _schema_check(module) for kind, module in _SCHEMA_MODULES.items()},
    )
    report = lint_sources(sources, context, args.ignore)
    unread = [finding_of(each, UNREADABLE) for each in problems]
    findings = in_order([*unread, *report.findings], [each.name for each in inputs])
    if args.cluster:
        from kanister_py.cli.lint_cluster import lint_cluster

        there = lint_cluster(args, context)
        findings += there.findings
        report = report._replace(
            blueprints=report.blueprints + there.blueprints,
            action_sets=report.action_sets + there.action_sets,
            compositions=report.compositions + there.compositions,
            schedules=report.schedules + there.schedules,
        )
    whole = report._replace(findings=tuple(findings))
    return whole, len(inputs), bool(beyond)


_SCHEMA_MODULES = {
    "ActionSet": "kanister_py.core.actionsets.model",
    "Composition": "kanister_py.core.compositions.model",
    "Schedule": "kanister_py.core.schedules.model",
}


def _schema_check(module: str) -> SchemaCheck:
    """Make a reader of objects of a kind; most files hold none, and do without its module."""

    def read(found: LocatedObject) -> tuple[list[UnknownKey], list[Problem]]:
        unknown, problems = import_module(module).check_schema(found)
        return unknown, problems

    return read


def _say_unreadable(findings: Sequence[Finding]) -> None:
    """Write files that cannot be read to stderr: for people they are errors, not findings."""
    problems = [
        Problem(each.file, each.line, each.column, each.path, each.message)
        for each in findings
        if each.rule == UNREADABLE.id
    ]
    if problems:
        say_error(InvalidDocument(problems))


def _write(findings: Sequence[Finding], form: str) -> None:
    from kanister_py.cli.findings import github_lines, sarif_of, table_lines

    if form == "github":
        write_data(None, "lines", lambda: github_lines(findings))
    elif form == "sarif":
        from importlib.metadata import version

        write_data(sarif_of(findings, rules(), version("kanister-py")), "json", list)
    elif form == "table":
        shown = [each for each in findings if each.rule != UNREADABLE.id]
        write_data(None, "lines", lambda: table_lines(shown))
    else:
        write_data({"findings": [each.as_dict() for each in findings]}, form, list)


def _say_summary(
    report: Report,
    findings: Sequence[Finding],
    files: int,
    *,
    is_cluster: bool,
) -> None:
    for file in report.empty_files:
        say(f"note: {file}: Nothing in it that lint is about")
    where = _count(files, "file") if files or not is_cluster else ""
    where = " and ".join(each for each in (where, "the cluster" if is_cluster else "") if each)
    kinds = [
        _count(report.blueprints, "Blueprint"),
        _count(report.action_sets, "ActionSet"),
        *([_count(report.schedules, "Schedule")] if report.schedules else []),
        *([_count(report.compositions, "Composition")] if report.compositions else []),
    ]
    looked = f"{', '.join(kinds[:-1])} and {kinds[-1]} in {where}"
    by_severity = {
        severity: sum(each.severity is severity for each in findings) for severity in Severity
    }
    found = ", ".join(
        _count(count, _NAMES[severity]) for severity, count in by_severity.items() if count
    )
    say(f"{looked}: {found or 'nothing found'}")


def _fate_of(findings: Sequence[Finding], *, is_beyond: bool) -> str:
    if any(each.severity is Severity.ERROR and each.rule not in _UNJUDGED for each in findings):
        return "Would not survive"
    if any(each.rule in _UNJUDGED for each in findings):
        return "Could not be judged for"
    return "Nothing known today stands against" if is_beyond else "Survives"


_LANGUAGE = "template-engine"
"""The rule that says in which language templates are read."""
_UNJUDGED = (UNREADABLE.id, NOT_A_BLUEPRINT.id, OVERLOOKED.id, NOT_GIVEN.id)
"""Rules that say that something could not be looked at."""

_NAMES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _explain(rule_id: str, form: str) -> int:
    known = rules()
    chosen = [*known.values()] if rule_id == "all" else [known[rule_id]]
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
    import textwrap

    lines = []
    for rule in chosen:
        lines += [f"{rule.id} ({rule.severity})", f"  {rule.summary}", ""]
        lines += textwrap.wrap(rule.explanation, 78, initial_indent="  ", subsequent_indent="  ")
        lines += [""]
    write_data(None, "lines", lambda: lines[:-1])
    return 0


def exit_code_of(findings: Sequence[Finding], fail_on: Severity = Severity.ERROR) -> int:
    """Choose the exit code of lint: 1 before 4 before 3 before 2.

    `fail_on` is the least severity for which it is 1.
    """
    ended = (REMOVED.id, DEPRECATED.id)
    # Which language templates are read in is no matter of good or bad.
    harmless = (*ended, _LANGUAGE)
    grave = [*Severity][: [*Severity].index(fail_on) + 1]
    if any(each.severity in grave and each.rule not in harmless for each in findings):
        return exit_codes.FAILED
    if any(each.rule in ended and not each.replacement for each in findings):
        return exit_codes.NO_REPLACEMENT
    if any(each.rule == REMOVED.id for each in findings):
        return exit_codes.REMOVED
    if any(each.rule == DEPRECATED.id for each in findings):
        return exit_codes.DEPRECATED
    return exit_codes.FINE
