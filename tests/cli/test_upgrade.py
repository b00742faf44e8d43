from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest


class Finished(Protocol):
    code: int
    out: str
    err: str


class CommandLine(Protocol):
    def __call__(self, *words: str, **options: Any) -> Finished: ...


OLD = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: tell}
actions:
  tell:
    phases:
    - name: first
      func: Notify
      funcVersion: 'v0.1.0'   # pinned
      args: {to: me, text: hi}
"""
NEW = OLD.replace("v0.1.0", "v0.2.0").replace("to:", "retries: 0, recipient:")


class TestUpgrade:
    def test_changes_are_listed_without_writing(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        file = tmp_path / "b.yaml"
        file.write_text(OLD)
        done = kanister("upgrade", "b.yaml", cwd=tmp_path)
        assert done.code == 0
        assert done.out == "b.yaml:9: tell.first: Notify v0.1.0 -> v0.2.0, to becomes recipient\n"
        assert file.read_text() == OLD
        (change,) = json.loads(kanister("upgrade", str(file), "-o", "json").out)["changes"]
        assert change["renamedArgs"] == {"to": "recipient"}

    def test_diff_can_be_applied_by_patch(self, kanister: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "b.yaml").write_bytes(OLD.rstrip("\n").replace("\n", "\r\n").encode())
        done = kanister("upgrade", "b.yaml", "--diff", cwd=tmp_path)
        assert done.code == 0
        if shutil.which("patch") is None:
            pytest.skip("patch is not installed: nobody takes the diff")
        patch = ["patch", "--binary", "-p1", "--silent"]
        subprocess.run(patch, input=done.out.encode(), cwd=tmp_path, check=True)
        assert (tmp_path / "b.yaml").read_bytes() == NEW.rstrip("\n").replace("\n", "\r\n").encode()

    def test_writes_and_lint_is_clean_afterwards(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        file = tmp_path / "b.yaml"
        file.write_text(OLD)
        assert kanister("lint", str(file)).code == 2
        done = kanister("upgrade", str(file), "--write")
        assert (done.code, done.out) == (0, "")
        assert "upgraded" in done.err
        assert file.read_text() == NEW
        assert kanister("lint", str(file)).code == 0
        again = kanister("upgrade", str(file), "--write")
        assert (again.code, again.out) == (0, "")
        assert file.read_text() == NEW

    def test_write_keeps_mode_byte_order_mark_line_ends_and_links(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        real = tmp_path / "real"
        real.mkdir()
        file = real / "b.yaml"
        windows = b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()
        file.write_bytes(windows)
        file.chmod(0o640)
        link = tmp_path / "link.yaml"
        link.symlink_to(file)
        assert kanister("upgrade", str(link), "--write").code == 0
        assert file.read_bytes() == b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode()
        assert file.stat().st_mode & 0o777 == 0o640
        assert link.is_symlink()
        assert [path.name for path in real.iterdir()] == ["b.yaml"]

    def test_current_file_is_not_written(self, kanister: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "b.yaml"
        file.write_text(NEW)
        os.utime(file, (1, 1))
        assert kanister("upgrade", str(tmp_path), "--write").code == 0
        assert file.stat().st_mtime == 1

    def test_reads_stdin_and_prints_the_result(self, kanister: CommandLine) -> None:
        assert kanister("upgrade", "-", stdin=OLD).out == NEW
        assert kanister("upgrade", "-", "--write", stdin=OLD).out == NEW
        assert kanister("upgrade", "-", stdin=NEW).out == NEW
        assert "+      funcVersion: 'v0.2.0'" in kanister("upgrade", "-", "--diff", stdin=OLD).out

    def test_manual_changes_are_listed_and_the_others_written(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        file = tmp_path / "b.yaml"
        bad = "    - {name: second, func: Notify, funcVersion: ^0.0.1}\n"
        file.write_text(OLD + bad)
        done = kanister("upgrade", str(file), "--write")
        assert done.code == 1
        assert "not changed: " in done.err
        assert "b.yaml:11: tell.second: Function version not found" in done.err
        assert file.read_text() == NEW + bad

    @pytest.mark.parametrize(
        "words",
        [pytest.param((), id="no path"), pytest.param(("-", "--diff", "--write"), id="both")],
    )
    def test_invalid_combinations_of_flags_are_refused(
        self, kanister: CommandLine, words: tuple[str, ...]
    ) -> None:
        assert kanister("upgrade", *words, stdin=OLD).code == 64

    def test_problems_with_the_new_version_are_reported(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        file = tmp_path / "b.yaml"
        file.write_text(OLD.replace("v0.1.0", "v0.0.1").replace("{to: me, text: hi}", "{whom: me}"))
        done = kanister("upgrade", str(file), "--write")
        assert done.code == 1
        assert "'v0.2.0'" in file.read_text()
        left = [line for line in done.err.splitlines() if line.startswith("not changed: ")]
        assert len(left) == 3
        for name in ("recipient", "text", "whom"):
            assert sum(name in line for line in left) == 1

    def test_existing_errors_elsewhere_are_not_reported(self, kanister: CommandLine) -> None:
        other = "    - {name: second, func: Notify, funcVersion: v0.2.0, args: {recipient: me}}\n"
        done = kanister("upgrade", "-", stdin=OLD + other)
        assert (done.code, done.out) == (0, NEW + other)

    def test_omitted_arguments_with_new_defaults_are_reported(self, kanister: CommandLine) -> None:
        done = kanister("upgrade", "-", stdin=OLD)
        assert "note: <stdin>:9: tell.first: retries stays 0, which was its default" in done.err
        done = kanister("upgrade", "-", "--no-keep-meaning", stdin=OLD)
        assert (done.code, done.out) == (0, NEW.replace("retries: 0, ", ""))
        assert (
            "note: <stdin>:9: tell.first: The default of argument retries was 0, is 3" in done.err
        )
        blueprint = OLD.replace("text: hi", "text: hi, retries: 1")
        assert "note: " not in kanister("upgrade", "-", stdin=blueprint).err

    def test_preferred_version_is_kept_if_its_replacement_refuses_the_phase(
        self, kanister: CommandLine
    ) -> None:
        text = (
            "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: s}\nspec:\n"
            "  actions:\n  - {name: tell, blueprint: tell, preferredVersion: v0.0.1}\n---\n"
            + NEW.replace("      funcVersion: 'v0.2.0'   # pinned\n", "")
        )
        done = kanister("upgrade", "-", stdin=text)
        assert (done.code, done.out) == (0, text.replace("v0.0.1", "v0.2.0"))
        bad = text.replace(", text: hi", "")
        done = kanister("upgrade", "-", stdin=bad)
        assert (done.code, done.out) == (1, bad)
        assert "Notify v0.2.0 would refuse first: " in done.err

    def test_unwritable_file_is_named(self, kanister: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "closed" / "b.yaml"
        file.parent.mkdir()
        file.write_text(OLD)
        file.parent.chmod(0o555)
        # Root can write to all folders except read-only mounts.
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        closed = ("unshare", "--mount", "sh", "-c", mount, str(file.parent))
        done = kanister("upgrade", str(file), "--write", prefix=closed if os.geteuid() == 0 else ())
        assert done.code == 1
        assert done.err.startswith(f"error: {file}: ")
        assert ".kanister-py-" not in done.err

    def test_failed_write_keeps_the_file(self, kanister: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "b.yaml"
        file.write_text(OLD)
        done = kanister("upgrade", str(file), "--write", prefix=("prlimit", "--fsize=10"))
        assert done.code == 1
        assert "error: " in done.err
        assert "Traceback" not in done.err
        assert file.read_text() == OLD
        assert [path.name for path in tmp_path.iterdir()] == ["b.yaml"]
