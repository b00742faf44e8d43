"""Test reports in JUnit's XML format, for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from kanister_py.core.kube.printable import printable


class TestResult(NamedTuple):
    """Result of one test case; it passed if there are no failures."""

    suite: str
    name: str
    seconds: float
    failures: Sequence[str] = ()


def junit_of(name: str, cases: Sequence[TestResult]) -> str:
    """Return the report of a test suite."""
    failed = sum(bool(case.failures) for case in cases)
    seconds = sum(case.seconds for case in cases)
    counts = f'name={quoteattr(name)} tests="{len(cases)}" failures="{failed}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite {counts} errors="0" skipped="0" time="{seconds:.3f}">',
    ]
    for case in cases:
        suite = f"classname={quoteattr(case.suite)} " if case.suite else ""
        element = f'  <testcase {suite}name={quoteattr(case.name)} time="{case.seconds:.3f}"'
        if not case.failures:
            lines.append(f"{element}/>")
            continue
        text = escape("\n".join(case.failures))
        message = quoteattr(case.failures[0])
        lines.append(f"{element}><failure message={message}>{text}</failure></testcase>")
    # XML does not allow control characters either.
    return printable("\n".join([*lines, "</testsuite>", ""]), keeps="\n")
