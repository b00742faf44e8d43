"""`kanister-py serve`, in a separate process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

PATIENCE_SECONDS = 180


@contextmanager
def serving(plugins: Path, *words: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server; yield it with its log up to the line with its address."""
    environment = {key: text for key, text in os.environ.items() if "KANISTER_PY" not in key}
    process = subprocess.Popen(
        [sys.executable, "-m", "kanister_py", "serve", *words],
        env={**environment, "PYTHONPATH": str(plugins), "NO_COLOR": "1", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("Serving "):
                break
        yield process, "".join(lines)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def url_in(log: str) -> str:
    return log.rsplit(maxsplit=1)[-1]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_server_answers_until_a_signal(plugin_folder: Path, stop: signal.Signals) -> None:
    with serving(plugin_folder, "--port", "0") as (process, log):
        url = url_in(log)
        assert url.startswith("http://127.0.0.1:")
        with urlopen(
            f"{url}v1/functions/Notify/versions/v0.1.0", timeout=PATIENCE_SECONDS
        ) as response:
            assert response.headers["Sunset"] == "Fri, 15 Jan 2027 00:00:00 GMT"
            assert json.load(response)["status"] == "deprecated"
        with urlopen(url, timeout=PATIENCE_SECONDS) as response:
            assert b"Timeline" in response.read()
        process.send_signal(stop)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_server_exits_with_0_if_stopped_at_once(plugin_folder: Path, stop: signal.Signals) -> None:
    with serving(plugin_folder, "--port", "0") as (process, _):
        process.send_signal(stop)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_responses_do_not_wait_for_acknowledgements(plugin_folder: Path) -> None:
    request = b"GET /v1/functions HTTP/1.1\r\nHost: here\r\n\r\n"
    with serving(plugin_folder, "--port", "0") as (_, log):
        port = int(url_in(log).strip("/").rpartition(":")[2])
        waits = []
        with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as file:
            for _ in range(20):
                start = time.perf_counter()
                client.sendall(request)
                lines = list(iter(file.readline, b"\r\n"))
                length = next(line for line in lines if line.lower().startswith(b"content-length"))
                file.read(int(length.split()[1]))
                waits.append(time.perf_counter() - start)
    # The kernel would delay all responses by 40 ms; a busy machine delays only some.
    assert min(waits) < 0.03


def test_flags_come_from_the_environment(plugin_folder: Path) -> None:
    settings = {"KANISTER_PY_SERVE_HOST": "0.0.0.0", "KANISTER_PY_SERVE_PORT": "0"}
    with serving(plugin_folder, **settings) as (_, log):
        assert "can be reached from other machines" in log
        assert url_in(log).startswith("http://0.0.0.0:")


def test_port_in_use_is_one_clear_error(plugin_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with serving(plugin_folder, "--port", port) as (process, log):
            assert process.wait(timeout=PATIENCE_SECONDS) == 1
    assert f"Cannot listen on 127.0.0.1 port {port}" in log
    assert len(log.splitlines()) == 1


def test_invalid_port_exits_with_64(plugin_folder: Path) -> None:
    with serving(plugin_folder, "--port", "99999") as (process, log):
        assert process.wait(timeout=PATIENCE_SECONDS) == 64
    assert "must be a port" in log


def test_a_broken_plugin_is_reported_and_the_others_are_served(
    plugin_folder: Path, tmp_path: Path
) -> None:
    about = tmp_path / "acme_broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[kanister_py.functions]\nbroken = acme_broken:It\n")
    folders = os.pathsep.join((str(plugin_folder), str(tmp_path)))
    with serving(Path(folders), "--port", "0") as (_, log):
        assert "broken (acme_broken:It)" in log
        with urlopen(f"{url_in(log)}v1/functions", timeout=PATIENCE_SECONDS) as response:
            listing = json.load(response)
    assert listing["leftOut"] == ["broken (acme_broken:It)"]
    assert {"Greet", "Notify"} <= {function["name"] for function in listing["functions"]}
