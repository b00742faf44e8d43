"""Reports of lint for CI systems, and the exit codes that pipelines use."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import CommandLine

BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: notify}
actions:
  tell:
    phases:
      - func: Notify
        name: one
        funcVersion: v0.1.0
        args: {to: me, text: hi}
"""
FINE = BLUEPRINT.replace("v0.1.0", "v0.2.0").replace("to:", "recipient:")
UNKNOWN = FINE.replace("func: Notify", "func: Notfiy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"old.yaml": BLUEPRINT, "fine.yaml": FINE, "wrong.yaml": UNKNOWN}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("level", "codes"),
    [
        pytest.param("", {"old.yaml": 2, "fine.yaml": 0, "wrong.yaml": 1}, id="by default"),
        pytest.param("error", {"old.yaml": 0, "fine.yaml": 0, "wrong.yaml": 1}, id="error"),
        pytest.param("warning", {"old.yaml": 1, "fine.yaml": 0, "wrong.yaml": 1}, id="warning"),
    ],
)
def test_fail_on_alone_decides_the_exit_code(
    kanister: CommandLine, folder: Path, level: str, codes: dict[str, int]
) -> None:
    flags = [f"--fail-on={level}"] if level else []
    assert codes == {name: kanister("lint", name, *flags, cwd=folder).code for name in codes}


def test_junit_report_has_a_case_for_each_file(kanister: CommandLine, folder: Path) -> None:
    done = kanister("lint", "old.yaml", "fine.yaml", "wrong.yaml", "-o", "junit", cwd=folder)
    assert done.code == 1
    cases = {
        case.get("name"): [failure.get("message") for failure in case]
        for case in ET.fromstring(done.out).iter("testcase")
    }
    assert list(cases) == ["old.yaml", "fine.yaml", "wrong.yaml"]
    assert cases["fine.yaml"] == []
    assert "version-deprecated" in str(cases["old.yaml"])
    assert "did you mean Notify?" in str(cases["wrong.yaml"])


def test_junit_report_passes_where_lint_does(kanister: CommandLine, folder: Path) -> None:
    done = kanister("lint", "old.yaml", "-o", "junit", "--fail-on=error", cwd=folder)
    assert done.code == 0
    assert [*ET.fromstring(done.out).iter("failure")] == []


def test_gitlab_report_names_place_and_rule(kanister: CommandLine, folder: Path) -> None:
    done = kanister("lint", "old.yaml", "-o", "gitlab", cwd=folder)
    assert done.code == 2
    (issue,) = json.loads(done.out)
    assert issue["check_name"] == "version-deprecated"
    assert issue["severity"] == "minor"
    assert issue["location"] == {"path": "old.yaml", "lines": {"begin": 9}}
    assert "v0.1.0 is deprecated" in issue["description"]


def test_gitlab_fingerprints_are_stable_and_unique(kanister: CommandLine, folder: Path) -> None:
    def fingerprints(text: str) -> list[str]:
        (folder / "old.yaml").write_text(text)
        done = kanister("lint", "old.yaml", "-o", "gitlab", cwd=folder)
        return [issue["fingerprint"] for issue in json.loads(done.out)]

    before = fingerprints(BLUEPRINT)
    assert fingerprints(f"# moved\n{BLUEPRINT}") == before
    twice = fingerprints(f"{BLUEPRINT}---\n{BLUEPRINT}")
    assert len(set(twice)) == len(twice) > 1


def test_report_without_findings_is_empty(kanister: CommandLine, folder: Path) -> None:
    assert json.loads(kanister("lint", "fine.yaml", "-o", "gitlab", cwd=folder).out) == []
