"""An installed wheel works without the clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-cache-dir")


@pytest.fixture(scope="module")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package from a wheel of this tree, in a separate folder."""
    wheels = tmp_path_factory.mktemp("wheels")
    target = tmp_path_factory.mktemp("installed")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels))
    subprocess.run([*PIP, *build, str(repository)], check=True)
    (wheel,) = wheels.glob("*.whl")
    put = ("install", "--no-deps", "--root-user-action=ignore", "--target", str(target))
    subprocess.run([*PIP, *put, str(wheel)], check=True)
    return target


def run(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *command],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_package_is_imported_from_the_wheel(installed: Path) -> None:
    done = run(installed, "-c", "import kanister_py; print(kanister_py.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_wheel_contains_the_version_record(installed: Path) -> None:
    done = run(installed, "-m", "kanister_py", "functions", "list", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["functions"]
    assert (installed / "kanister_py/versions.yaml").is_file()
    assert (installed / "kanister_py/versions.schema.json").is_file()


def test_wheel_contains_type_information(installed: Path) -> None:
    assert (installed / "kanister_py/py.typed").is_file()


@pytest.mark.parametrize("name", ["page.html.j2", "page.css", "page.js"])
def test_wheel_contains_the_page(installed: Path, name: str) -> None:
    assert (installed / "kanister_py/http_api/page" / name).is_file()
