"""Locks of the image: what it is made of is what the package asks for, file by file."""

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
    """Read a lock, in which nothing may be but versions and their hashes."""
    head, _, rest = path.read_text().partition("\n")
    assert head.startswith("# Written by .ci/lock")
    entries = re.findall(r"([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", rest)
    assert "".join(f"{name}=={version}{hashes}\n" for name, version, hashes in entries) == rest
    return {name: version for name, version, _ in entries}


def constraints(repository: Path) -> dict[str, str]:
    lines = (repository / ".ci/constraints.txt").read_text().split()
    pairs = (each.split("==") for each in lines)
    return {canonicalize_name(name): version for name, version in pairs}


def closure(wanted: Iterable[str], machine: str) -> set[str]:
    """Name what is asked for, and what that asks for, on the machines that run the image."""
    environment = {
        "python_version": "3.13",
        "python_full_version": "3.13.7",
        "platform_machine": machine,
        "sys_platform": "linux",
        "extra": "",
    }
    found: set[str] = set()
    todo = [Requirement(each) for each in wanted]
    while todo:
        each = todo.pop()
        name = canonicalize_name(each.name)
        if each.marker is not None and not each.marker.evaluate(environment):
            continue
        if name not in found:
            found.add(name)
            todo += [Requirement(more) for more in requires(name) or ()]
    return found


@pytest.mark.parametrize(
    ("lock", "section"), [("requirements.lock", "project"), ("build.lock", "build-system")]
)
def test_a_lock_holds_all_that_is_asked_for_at_the_versions_of_the_gate(
    repository: Path, lock: str, section: str
) -> None:
    asked = tomllib.loads((repository / "pyproject.toml").read_text())[section]
    wanted = asked["dependencies" if section == "project" else "requires"]
    found, known = locked(repository / "deploy" / lock), constraints(repository)
    hint = "out of step: run .ci/lock"
    assert {name: known.get(name) for name in found} == found, hint
    if other := [name for name in found if version(name) != found[name]]:
        pytest.skip(f"What others need is said by other versions here: {', '.join(other)}")
    for machine in ("x86_64", "aarch64"):
        assert closure(wanted, machine) <= set(found), hint


@pytest.mark.parametrize("name", ["Dockerfile", "tools.Dockerfile"])
def test_an_image_takes_nothing_that_is_not_in_a_lock(repository: Path, name: str) -> None:
    text = (repository / "deploy" / name).read_text().replace("\\\n", " ")
    for each in re.findall(r"pip (?:install|wheel) ([^&\n]*)", text):
        assert "--require-hashes" in each or "--no-index" in each, each


def test_the_bill_of_materials_names_all_that_is_installed(repository: Path) -> None:
    words = [repository / "deploy/sbom.py", repository / "deploy/requirements.lock"]
    made, again = (json.loads(subprocess.check_output([sys.executable, *words])) for _ in range(2))
    assert made == again
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["component"]["name"] == "kanister-py"
    parts = {each["name"]: each for each in made["components"]}
    known = locked(repository / "deploy/requirements.lock")
    assert all(parts[name]["hashes"] for name in known)
    own = next(each for each in made["dependencies"] if "kanister-py@" in each["ref"])
    assert parts["urllib3"]["bom-ref"] in own["dependsOn"]
