"""Reports of tests in JUnit's form, for a CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kanister_py.core.kube.printable import printable


class Tested(NamedTuple):
    """Outcome of one case; without a failure it went well."""

    suite: str
    name: str
    seconds: float
    failures: Sequence[str] = ()


def junit_of(name: str, cases: Sequence[Tested]) -> str:
    from xml.sax.saxutils import escape, quoteattr

    failed = sum(bool(each.failures) for each in cases)
    seconds = sum(each.seconds for each in cases)
    counts = f'name={quoteattr(name)} tests="{len(cases)}" failures="{failed}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite {counts} errors="0" skipped="0" time="{seconds:.3f}">',
    ]
    for each in cases:
        of_suite = f"classname={quoteattr(each.suite)} " if each.suite else ""
        case = f'  <testcase {of_suite}name={quoteattr(each.name)} time="{each.seconds:.3f}"'
        if not each.failures:
            lines.append(f"{case}/>")
            continue
        text = escape("\n".join(each.failures))
        why = quoteattr(each.failures[0])
        lines.append(f"{case}><failure message={why}>{text}</failure></testcase>")
    # What a terminal would obey has no place in XML either.
    return printable("\n".join([*lines, "</testsuite>", ""]), keeps="\n")
