"""The commands in the READMEs of the blueprints work as described."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.blueprints.servers import Server, program
from tests.conftest import CommandLine
from tests.ports import free_port

pytestmark = pytest.mark.usefixtures("mounts")

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path, blueprints: Path) -> Path:
    """Working folder of a user with the blueprints."""
    shutil.copytree(blueprints, tmp_path / "blueprints")
    return tmp_path


def commands_in(readme: Path) -> list[list[str]]:
    """Return the commands in the shell blocks of a README."""
    text = "".join(_BLOCK.findall(readme.read_text()))
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def type_all(kanister: CommandLine, place: Path, name: str, *more: str) -> list[str]:
    """Run all commands of a README, with `more` options for the server."""
    outputs = []
    for first, *words in commands_in(place / "blueprints" / name / "README.md"):
        assert first == "kanister-py"
        done = kanister(*words, *(more if "--profile" in words else ()), cwd=place)
        assert done.code == 0, f"{' '.join(words)}\n{done.out}{done.err}"
        outputs.append(done.out + done.err)
    assert outputs, f"{name} says nothing to type"
    return outputs


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("clone-config", "clone/copy", id="clone-config"),
        pytest.param("csi-snapshot", "CreateCSISnapshot", id="csi-snapshot"),
        pytest.param("hello", "It was said: Hello, you!", id="hello"),
        pytest.param("pvc-files", "restore/unpack", id="pvc-files"),
    ],
)
def test_commands_in_a_readme_work(
    kanister: CommandLine, place: Path, name: str, want: str
) -> None:
    assert want in type_all(kanister, place, name)[-1]


def test_commands_in_the_readme_of_the_http_hook_work(kanister: CommandLine, place: Path) -> None:
    program("python3", "python3")
    port = str(free_port())
    for name in ("README.md", "objects.yaml"):
        file = place / "blueprints/http-hook" / name
        file.write_text(file.read_text().replace("8080", port))
    assert "export/resume" in type_all(kanister, place, "http-hook")[-1]


def test_commands_in_the_readme_of_redis_work(kanister: CommandLine, place: Path) -> None:
    program("redis-server", "redis-server")
    program("redis-cli", "redis-tools")
    # Another program on this machine may use the port in the README.
    port = str(free_port())
    objects = place / "blueprints/redis/objects.yaml"
    objects.write_text(objects.read_text().replace("6379", port))
    outputs = type_all(kanister, place, "redis", "--option", f"port={port}")
    assert "restore/start" in outputs[-1]


def test_commands_in_the_readme_of_postgresql_work(
    kanister: CommandLine, place: Path, postgresql: Server
) -> None:
    postgresql.ask("CREATE TABLE t AS SELECT 1 AS one")
    outputs = type_all(kanister, place, "postgresql", "--option", f"port={postgresql.port}")
    assert "restore/restore" in outputs[-1]


def test_commands_in_the_readme_of_mariadb_work(
    kanister: CommandLine, place: Path, mariadb: Server
) -> None:
    mariadb.ask("CREATE TABLE t AS SELECT 1 AS one")
    outputs = type_all(kanister, place, "mariadb", "--option", f"port={mariadb.port}")
    assert "restore/restore" in outputs[-1]
