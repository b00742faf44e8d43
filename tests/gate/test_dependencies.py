"""Dependencies: each is used, and none has a known vulnerability."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from semver import Version

pytestmark = pytest.mark.gate

# Data without modules.
IDLE = {"tzdata"}

FLOORS = {
    "cryptography": "44.0.1",
    "jinja2": "3.1.6",
    "protobuf": "5.29.5",
    "starlette": "0.49.1",
    "urllib3": "2.6.3",
}


def declared(repository: Path) -> dict[str, str]:
    """Requirements of the package with their ranges."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(requirement for name in extras if name != "dev" for requirement in extras[name]),
    ]
    matches = (re.match(r"([\w.-]+)(.*)", requirement) for requirement in requirements)
    return {match.group(1).lower(): match.group(2) for match in matches if match}


def imported(repository: Path) -> set[str]:
    """Return the distributions that the code imports anywhere."""
    names: set[str] = set()
    for file in (repository / "kanister_py").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    tops = {name.partition(".")[0] for name in names}
    # Distributions that share a namespace package, such as google's, differ in deeper modules.
    spelled = {name.replace(".", "-") for name in names} | tops
    distributions = packages_distributions()
    installed_names = {
        distribution.lower() for top in tops for distribution in distributions.get(top, [])
    }
    return installed_names | {spelling.lower().replace("_", "-") for spelling in spelled}


def test_every_dependency_is_imported_somewhere(repository: Path) -> None:
    idle = set(declared(repository)) - imported(repository) - IDLE
    assert idle == set()


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_no_release_with_a_known_vulnerability_is_allowed(repository: Path, name: str) -> None:
    lowest = re.search(r">=([\d.]+)", declared(repository)[name])
    assert lowest
    floor, lower_bound = (
        Version.parse(bound, optional_minor_and_patch=True)
        for bound in (FLOORS[name], lowest.group(1))
    )
    assert lower_bound >= floor
