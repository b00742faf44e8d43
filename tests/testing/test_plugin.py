"""The pytest plugin is available once kanister_py is installed, and costs nothing until used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import kanister_py.testing


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder without the configuration of this project."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_example_of_the_documentation_works(tmp_path: Path, repository: Path) -> None:
    text = kanister_py.testing.__doc__ or ""
    lines = text.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("    def "))
    end = next(
        at for at in range(begin, len(lines)) if lines[at] and not lines[at].startswith("    ")
    )
    example = textwrap.dedent("\n".join(lines[begin:end]))
    folder = tmp_path / "mine"
    shutil.copytree(repository / "blueprints/postgresql", folder)
    (folder / "test_mine.py").write_text(example)
    done = pytest_in(folder, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout

    # The example fails if the blueprint changes.
    blueprint = folder / "blueprint.yaml"
    changed = blueprint.read_text().replace("{{ .Phases.dump.Output.path }}", "elsewhere")
    blueprint.write_text(changed)
    assert pytest_in(folder).returncode == 1


def test_other_tests_do_not_import_kanister_py(tmp_path: Path) -> None:
    (tmp_path / "test_else.py").write_text(
        "import sys\n\n"
        "def test_else():\n"
        "    ours = {each for each in sys.modules if each.startswith('kanister_py')}\n"
        "    assert ours == {\n"
        "        'kanister_py', 'kanister_py.testing', 'kanister_py.testing.plugin'\n"
        "    }\n"
    )
    done = pytest_in(tmp_path)
    assert done.returncode == 0, done.stdout
