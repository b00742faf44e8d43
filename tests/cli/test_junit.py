"""Reports in JUnit's format."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from kanister_py.cli import junit
from tests.conftest import CommandLine


def test_report_escapes_control_characters() -> None:
    steers = "red \x1b[31m, bell \x07, half \ud800, end"
    report = junit.junit_of("s", [junit.TestResult(steers, steers, 0.1, (steers, "second\tline"))])
    case = ET.fromstring(report.encode())[0]
    assert case.get("name") == "red \\x1b[31m, bell \\x07, half \\ud800, end"
    assert case[0].text is not None
    assert case[0].text.splitlines() == [case.get("name"), "second\\tline"]


def test_a_report_of_suites_without_suites_is_refused(kanister: CommandLine) -> None:
    done = kanister("render", "xr.yaml", "composition.yaml", "--junit", "x.xml")
    assert done.code == 64
    assert "--assert" in done.err
