"""Servers for tests of the blueprints."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.embedded.pods.runner import ProcessPodRunner
from tests.blueprints.servers import (
    PASSWORD,
    Server,
    folder_for,
    program,
    run_as,
    running,
    unprivileged,
)
from tests.ports import free_port


@pytest.fixture
def blueprints(repository: Path) -> Path:
    """Folder of all blueprints."""
    return repository / "blueprints"


@pytest.fixture
def mounts(tmp_path: Path) -> None:
    """Skip tests that need volumes where pods as processes cannot have them."""
    with ProcessPodRunner(SystemClock(), state=tmp_path / "mounts") as runner:
        if runner.why_no_mounts:
            pytest.skip(f"this machine gives no namespaces: {runner.why_no_mounts}")


@pytest.fixture
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server with an empty database `app`."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places = [str(version) for version in versions]
    initdb = program("initdb", "postgresql", *places)
    postgres = program("postgres", "postgresql", *places)
    psql = program("psql", "postgresql-client", *places)
    user, port = unprivileged("postgres"), free_port()
    with folder_for(user) as folder:
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        data = folder / "data"
        run_as(
            user,
            initdb,
            "--pgdata",
            str(data),
            "--username=postgres",
            "--encoding=UTF8",
            "--auth=scram-sha-256",
            f"--pwfile={password}",
            "--locale=C",
            "--no-sync",
        )
        words = [postgres, "-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
        words += ["-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        with running(words, user, "ready to accept connections", signal.SIGINT):
            client = [psql, "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
            client += ["-v", "ON_ERROR_STOP=1", "--quiet", "--no-psqlrc", "-At"]
            env = {"PGPASSWORD": PASSWORD}
            Server(port, [*client, "-d", "postgres"], env).ask("CREATE DATABASE app")
            yield Server(port, [*client, "-d", "app"], env)


@pytest.fixture
def mariadb() -> Iterator[Server]:
    """A MariaDB server with an empty database `app`."""
    install = program("mariadb-install-db", "mariadb-server")
    daemon = program("mariadbd", "mariadb-server")
    client = program("mariadb", "mariadb-client")
    user, port = unprivileged("mysql"), free_port()
    with folder_for(user) as folder:
        data, sockets = folder / "data", folder / "socket"
        options = ["--no-defaults", f"--datadir={data}"]
        run_as(
            user,
            install,
            *options,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        words = [daemon, *options, f"--port={port}", "--bind-address=127.0.0.1"]
        words += [f"--socket={sockets}", f"--pid-file={folder / 'pid'}"]
        words += ["--innodb-flush-log-at-trx-commit=0"]
        with running(words, user, "ready for connections", signal.SIGTERM):
            local = [client, "--no-defaults", f"--socket={sockets}", "--user=root"]
            Server(port, local).ask(
                f"ALTER USER root@localhost IDENTIFIED BY '{PASSWORD}'; CREATE DATABASE app;"
                f"CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
                "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;"
            )
            over_tcp = [client, "--no-defaults", "--host=127.0.0.1", f"--port={port}"]
            over_tcp += ["--user=root", "--batch", "--skip-column-names", "app"]
            yield Server(port, over_tcp, {"MYSQL_PWD": PASSWORD})
