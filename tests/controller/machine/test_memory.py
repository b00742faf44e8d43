"""Memory gate: new work begins while there is memory for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.adapters.memory_linux import LinuxMemory
from kanister_py.controller.machine.memory import MemoryGate
from tests.fake_clock import FakeClock


class Filled:
    """A process that has as much memory as a test says."""

    def __init__(self, used: int = 0, kept: int = 0) -> None:
        self.used = used
        self.kept = kept
        """How much of it nobody uses, and is given back when asked for."""

    def used_bytes(self) -> int:
        return self.used

    def limit_bytes(self) -> int:
        return 0

    def give_back(self) -> None:
        self.used -= self.kept
        self.kept = 0


def test_new_work_is_refused_from_85_percent_until_75(caplog: pytest.LogCaptureFixture) -> None:
    clock, memory = FakeClock(), Filled()
    gate = MemoryGate(clock, memory, 1000 << 20)

    def refused_at(mebibytes: int) -> bool:
        clock.advance(1)
        memory.used = mebibytes << 20
        return bool(gate.why_refused())

    assert [refused_at(each) for each in (100, 840, 860, 800, 760, 740, 800)] == [
        *(False, False),
        *(True, True, True),
        *(False, False),
    ]
    (warning,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith("Memory is short: 860 MiB of 1000 MiB are in use")


def test_memory_that_is_only_kept_is_given_back_first() -> None:
    gate = MemoryGate(FakeClock(), Filled(990 << 20, kept=600 << 20), 1000 << 20)
    assert gate.why_refused() == ""


def test_without_a_limit_nothing_is_refused() -> None:
    assert MemoryGate(FakeClock(), Filled(1 << 50)).why_refused() == ""


@pytest.mark.parametrize(
    ("groups", "files", "want"),
    [
        pytest.param("0::/", {"memory.max": "536870912\n"}, 512 << 20, id="in a container"),
        pytest.param(
            "0::/a.slice/b.scope",
            {"a.slice/memory.max": "1048576", "a.slice/b.scope/memory.max": "max"},
            1 << 20,
            id="a group around it",
        ),
        pytest.param(
            "4:memory:/docker/x\n0::/",
            {"memory/docker/x/memory.limit_in_bytes": "2097152"},
            2 << 20,
            id="the older kind of groups",
        ),
        pytest.param(
            "4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, 0, id="no limit"
        ),
        pytest.param("0::/", {}, 0, id="nothing to be read"),
    ],
)
def test_the_limit_of_a_control_group_is_read(
    groups: str, files: dict[str, str], want: int, tmp_path: Path
) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert LinuxMemory(proc, root).limit_bytes() == want


def test_what_this_process_has_is_known() -> None:
    assert LinuxMemory().used_bytes() > 1 << 20
