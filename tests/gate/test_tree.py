"""The repository is complete, and independent of any one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from kanister_py.core.versions.catalogue import parse_catalogue
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.functions.builtin import BUILTIN_FUNCTIONS, installed_release
from kanister_py.wiring import build_functions, check_everything
from tests.versions_record import changes_refused

pytestmark = pytest.mark.gate


def tracked_files(repository: Path) -> list[Path]:
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout: there is no list of files to look at")
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    files = [repository / name for name in done.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def release(repository: Path) -> Version:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return parse_version(project["version"])


def test_version_record_contains_this_release(repository: Path) -> None:
    text = (repository / "versions.yaml").read_text()
    catalogue = parse_catalogue(text, "versions.yaml", release(repository))
    assert release(repository) in [entry.version for entry in catalogue.releases]
    assert installed_release() == release(repository), "run pip install -e ."


def test_every_served_version_has_matching_code(repository: Path) -> None:
    text = (repository / "versions.yaml").read_text()
    catalogue = parse_catalogue(text, "versions.yaml", release(repository))
    check_everything(build_functions(catalogue, BUILTIN_FUNCTIONS, plugins=()))


def test_version_record_keeps_promises_of_past_releases(repository: Path) -> None:
    """Each release stores its record in `released`, so that every clone can compare with it."""
    now = release(repository)
    new = parse_catalogue((repository / "versions.yaml").read_text(), "versions.yaml", now)
    past = [entry.version for entry in new.releases if entry.version < now]
    for version in past:
        file = repository / f"tests/gate/released/versions-{version.bare}.yaml"
        old = parse_catalogue(file.read_text(), file.name, version)
        assert changes_refused(old, new) == []
    assert past, "0.1.0 was released"


def test_changelog_lists_every_deprecation(repository: Path) -> None:
    changes = (repository / "CHANGELOG.md").read_text()
    catalogue = parse_catalogue(
        (repository / "versions.yaml").read_text(), "versions.yaml", release(repository)
    )
    missing = [
        f"{name} {version}"
        for name in catalogue.functions
        for version, listing in catalogue.listed(name).items()
        if listing.deprecated_in is not None and f"{name} {version}" not in changes
    ]
    assert missing == []


def test_the_changelog_has_a_heading_for_this_release(repository: Path) -> None:
    headings = re.findall(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert release(repository).bare in headings


# Written in parts, so that this file does not contain the strings itself.
FORBIDDEN = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "proxy.golang" + ".org",
    "sum.golang" + ".org",
    "registry.npmjs" + ".org",
    "deb.debian" + ".org",
    "static.crates" + ".io",
    "repo.maven" + ".apache",
    "/work" + "/main",
    "/work" + "/shared",
    "../" + "shared",
    "/root" + "/",
]


def test_no_file_names_a_package_registry_or_a_path_of_some_machine(repository: Path) -> None:
    offences = []
    for file in tracked_files(repository):
        text = file.read_text(encoding="utf-8", errors="ignore")
        # The CI script looks for recorded answers next to the clone.
        allowed = ".." if file.parts[-2:] == (".ci", "run") else "\0"
        offences += [
            f"{file.relative_to(repository)}: {pattern}"
            for pattern in FORBIDDEN
            if pattern in text and not pattern.startswith(allowed)
        ]
    assert offences == []


TOP = {
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-hooks.yaml",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "blueprints",
    "deploy",
    "docs",
    "e2e",
    "kanister_py",
    "pyproject.toml",
    "tests",
    "versions.yaml",
}


def test_top_folder_has_only_customary_files(repository: Path) -> None:
    names = {file.relative_to(repository).parts[0] for file in tracked_files(repository)}
    assert names - TOP == set()


def test_overview_of_the_code_names_every_folder(repository: Path) -> None:
    pages = (repository / "docs" / "how-it-is-built.md").read_text()
    folders = {path.parent.name for path in (repository / "kanister_py").glob("*/__init__.py")}
    core = {path.parent.name for path in (repository / "kanister_py/core").glob("*/__init__.py")}
    assert sorted(folder for folder in folders | core if f"{folder}/" not in pages) == []


MOST_LINES, MOST_METHODS = 600, 25


@cache
def modules(repository: Path, folder: str = "kanister_py") -> dict[str, ast.Module]:
    files = sorted((repository / folder).rglob("*.py"))
    return {str(file.relative_to(repository)): ast.parse(file.read_bytes()) for file in files}


def test_modules_and_classes_are_within_their_limits(repository: Path) -> None:
    offences = []
    for name, tree in modules(repository).items():
        lines = (repository / name).read_text(encoding="utf-8").count("\n")
        offences += [f"{name}: {lines} lines"] if lines > MOST_LINES else []
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(member, ast.FunctionDef) for member in node.body)
                offences += [f"{name}: {node.name}, {methods}"] if methods > MOST_METHODS else []
    assert offences == []


def test_decisions_have_all_parts_and_are_listed(repository: Path) -> None:
    folder = repository / "docs" / "decisions"
    listed = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (folder / "README.md").read_text())
    pages = sorted(folder.glob("0*.md"))
    assert listed == [page.name for page in pages]
    parts = ("Context", "Decision", "Consequences", "How to check")
    incomplete = [
        f"{page.name}: {part}"
        for page in pages
        for part in parts
        if not re.search(rf"^(## {part}$|\*\*{part}\.\*\*)", page.read_text(), re.MULTILINE)
    ]
    assert incomplete == []
