"""The commands in the docs work as written, as far as a laptop suffices.

A code block whose language is followed by a name is written to a file for later blocks of the page.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

PAGES = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    REPOSITORY / "kanister_py" / "gotemplate" / "README.md",
]
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")

# Commands that need more than a laptop.
_NEEDS_MORE = re.compile(
    r"^(kubectl|helm|docker|python3 -m venv)\b"
    r"|^kanister-py (controller|actionset|revisions)\b"
    r"|^kanister-py crds (install|upgrade)"
    r"|^kanister-py ((restore|export|import|top)\b|schedule (?!next --cron))"
    r"|--(context|kubeconfig|cluster|in-cluster|watch|check|check-access)\b|^\.ci/|^e2e/|^\.venv/"
)


# Commands that run until they are stopped; they get any free port.
_SERVERS = re.compile(r"^kanister-py (serve|functions serve)\b")
_ANY_PORT = {"KANISTER_PY_SERVE_PORT": "0", "KANISTER_PY_FUNCTIONS_PORT": "0"}


class Block(NamedTuple):
    """Code block of a page: language, file name and text."""

    language: str
    name: str
    text: str

    def commands(self) -> Iterator[str]:
        for line in self.text.replace("\\\n", " ").splitlines():
            if shlex.split(line, comments=True):
                yield line.strip()


def blocks_of(page: Path) -> list[Block]:
    return [Block(*match) for match in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def assert_serves_until_stopped(command: str, folder: Path, env: dict[str, str]) -> None:
    """Start a server, stop it as soon as it serves, and check that it exits with 0."""
    with subprocess.Popen(
        f"exec {command}",
        shell=True,
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        lines = []
        for line in server.stderr:
            lines.append(line)
            if line.startswith("Serving "):
                server.terminate()
        assert server.wait() == 0, f"{command}\n{''.join(lines)}"
        assert any(line.startswith("Serving ") for line in lines), command


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPOSITORY)) for page in PAGES])
def test_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "blueprints", tmp_path / "blueprints")
    shutil.copytree(REPOSITORY / "tests" / "docs" / "files", tmp_path, dirs_exist_ok=True)
    interpreter_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{interpreter_folder}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "PYTHONPATH": str(tmp_path),
        **_ANY_PORT,
    }
    for block in blocks_of(page):
        if block.name:
            (tmp_path / block.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.name).write_text(block.text, encoding="utf-8")
        if block.language != "sh":
            continue
        for command in block.commands():
            if _NEEDS_MORE.search(command):
                continue
            if _SERVERS.search(command):
                assert_serves_until_stopped(command, tmp_path, environment)
                continue
            expected_code = re.search(r"# ends with (\d+)", command)
            prints = re.search(r"# prints (.+)", command)
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == int(expected_code.group(1) if expected_code else 0), (
                f"{command}\n{done.stdout}{done.stderr}"
            )
            assert prints is None or done.stdout.strip() == prints.group(1), command


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPOSITORY)) for page in PAGES])
def test_links_to_files_are_valid(page: Path) -> None:
    targets = [
        entry for entry in _LINK.findall(page.read_text(encoding="utf-8")) if ":" not in entry
    ]
    assert [target for target in targets if not (page.parent / target).exists()] == []
