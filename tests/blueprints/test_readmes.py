"""The commands in the READMEs of the blueprints work as described."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blueprints.readmes import place, type_all
from tests.blueprints.servers import Server, program
from tests.conftest import CommandLine
from tests.ports import free_port

__all__ = ["place"]

pytestmark = pytest.mark.usefixtures("mounts")


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
