"""All runs of a cluster in a terminal."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli import top
from kanister_py.cli.parser import Parser
from kanister_py.core.errors import ClusterUnavailable, UsageError
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.http_api.runs_of import RunsOf, runs_of_a_cluster


@pytest.fixture(scope="module")
def runs() -> Iterator[RunsOf]:
    with runs_of_a_cluster() as cluster_runs:
        yield cluster_runs


def show(cluster: MemoryCluster, *words: str, clock: SystemClock | None = None) -> int:
    parser = Parser(prog="kanister-py top", environment={})
    top.add_arguments(parser)
    return top.show(parser.parse_args(list(words)), cluster, clock or SystemClock())


def test_active_runs_come_first(runs: RunsOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(runs.cluster, "-n", "shop") == 0
    head, names, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ") == ["1 running", "1 pending", "1 failed", "1 complete"]
    assert names.split() == ["STATE", "RUN", "ACTION", "BLUEPRINT", "NOW", "TOOK", "AGE"]
    assert [row.split()[1] for row in rows] == ["waiting", "under-way", "done", "broken"]
    assert "dump 50%" in rows[1]
    assert "\x1b" not in "".join(rows)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param(["-A", "--state", "suspended"], ["held"], id="in a state, wherever"),
        pytest.param(["-n", "shop", "--schedule", "nightly"], ["done"], id="of a schedule"),
        pytest.param(["-n", "shop", "--blueprint", "mysql"], ["broken"], id="of a blueprint"),
        pytest.param(["-n", "nowhere"], [], id="where there are none"),
        pytest.param(
            ["-n", "shop", "--since", "1h"], ["waiting", "under-way", "broken"], id="of late"
        ),
    ],
)
def test_flags_select_runs(
    runs: RunsOf, capsys: pytest.CaptureFixture[str], words: list[str], names: list[str]
) -> None:
    show(runs.cluster, *words, "-o", "json")
    assert [run["name"] for run in json.loads(capsys.readouterr().out)] == names


class Away(MemoryCluster):
    def list(self, *_args: Any, **_options: Any) -> Any:
        raise ClusterUnavailable("nobody answers")


def test_forbidden_list_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"Cannot watch actionsets.*: nobody answers"):
        show(Away(clock=SystemClock()), "-A")


def test_lost_watch_is_reported(runs: RunsOf) -> None:
    now = runs.overview.runs().rows[0].created
    trouble = "Cannot watch actionsets.cr.kanister.io: nobody answers"
    for rows in (runs.overview.runs().rows, ()):
        lines = top.lines_of(rows, now, with_namespaces=True, trouble=trouble)
        assert trouble in str(lines[0])
        assert "No runs" not in lines


class Impatient(SystemClock):
    """A clock that sends Ctrl-C as a user would."""

    def now(self) -> datetime:
        os.kill(os.getpid(), signal.SIGINT)
        return super().now()


def test_terminal_is_updated_until_control_c(
    runs: RunsOf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "is_terminal", lambda _stream: True)
    assert show(runs.cluster, "-n", "shop", clock=Impatient()) == 0
    assert "under-way" in capsys.readouterr().out
