"""Lock files of the images: they pin the requirements of the package, with hashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.gate

HASH = re.compile(r" \\\n    --hash=sha256:[0-9a-f]{64}")


def locked(path: Path) -> dict[str, str]:
    """Read a lock file, which may contain only versions and their hashes."""
    head, _, remainder = path.read_text().partition("\n")
    assert head.startswith("# Written by .ci/lock")
    entries = re.findall(r"([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", remainder)
    assert "".join(f"{name}=={version}{hashes}\n" for name, version, hashes in entries) == remainder
    return {name: version for name, version, _ in entries}


def constraints(repository: Path) -> dict[str, str]:
    lines = (repository / ".ci/constraints.txt").read_text().split()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(name): version for name, version in pairs}


def closure(wanted: Iterable[str], machine: str) -> set[str]:
    """Return the transitive requirements on the machines that run the image."""
    environment = {
        "python_version": "3.13",
        "python_full_version": "3.13.7",
        "platform_machine": machine,
        "sys_platform": "linux",
        "extra": "",
    }
    closed: set[str] = set()
    todo = [Requirement(name) for name in wanted]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        if name not in closed:
            closed.add(name)
            todo += [Requirement(more) for more in requires(name) or ()]
    return closed


@pytest.mark.parametrize(
    ("lock", "section"), [("requirements.lock", "project"), ("build.lock", "build-system")]
)
def test_lock_file_pins_all_requirements_at_the_tested_versions(
    repository: Path, lock: str, section: str
) -> None:
    table = tomllib.loads((repository / "pyproject.toml").read_text())[section]
    declared = table["dependencies" if section == "project" else "requires"]
    locked_versions, constrained = locked(repository / "deploy" / lock), constraints(repository)
    hint = "out of step: run .ci/lock"
    assert {name: constrained.get(name) for name in locked_versions} == locked_versions, hint
    if other := [name for name in locked_versions if version(name) != locked_versions[name]]:
        pytest.skip(f"What others need is said by other versions here: {', '.join(other)}")
    for machine in ("x86_64", "aarch64"):
        assert closure(declared, machine) <= set(locked_versions), hint


@pytest.mark.parametrize("name", ["Dockerfile", "tools.Dockerfile"])
def test_image_installs_only_locked_packages(repository: Path, name: str) -> None:
    text = (repository / "deploy" / name).read_text().replace("\\\n", " ")
    for arguments in re.findall(r"pip (?:install|wheel) ([^&\n]*)", text):
        assert "--require-hashes" in arguments or "--no-index" in arguments, arguments


def test_bill_of_materials_lists_all_installed_distributions(repository: Path) -> None:
    words = [repository / "deploy/sbom.py", repository / "deploy/requirements.lock"]
    first, again = (json.loads(subprocess.check_output([sys.executable, *words])) for _ in range(2))
    assert first == again
    assert (first["bomFormat"], first["specVersion"]) == ("CycloneDX", "1.6")
    assert first["metadata"]["component"]["name"] == "kanister-py"
    parts = {component["name"]: component for component in first["components"]}
    locked_versions = locked(repository / "deploy/requirements.lock")
    assert all(parts[name]["hashes"] for name in locked_versions)
    own = next(
        dependency for dependency in first["dependencies"] if "kanister-py@" in dependency["ref"]
    )
    assert parts["urllib3"]["bom-ref"] in own["dependsOn"]
