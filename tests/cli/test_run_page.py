"""Web page of a run on the same machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: slow}
actions:
  wait:
    phases:
      - func: KubeTask
        name: first
        args:
          image: busybox
          command: [sh, -c, "echo it begins; sleep 600"]
"""


def begun(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kanister_py", "run", *arguments]
    return subprocess.Popen(
        [*command, "--pods", "processes", "--page"], stderr=subprocess.PIPE, text=True
    )


def read(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def run_at(url: str) -> str:
    """Return the address of the run once it exists."""
    while (match := re.search(r'href="(/runs/[^"]+/[^"]+)"', read(url))) is None:
        pass
    return url.removesuffix("/runs") + match[1]


def test_page_shows_and_cancels_the_run(tmp_path: Path) -> None:
    file = tmp_path / "blueprint.yaml"
    file.write_text(BLUEPRINT, encoding="utf-8")
    with begun(str(file), "wait") as process:
        assert process.stderr is not None
        url = next(
            match[1] for line in process.stderr if (match := re.search(r"shown at (http\S+)", line))
        )
        run = run_at(url)
        with urlopen(f"{run}/events?0", timeout=60) as events:
            while b"it begins" not in events.readline():
                pass
        text = read(run)
        assert "first" in text
        key = re.search(r'name="key" value="(\w+)"', text)
        assert key is not None
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(f"{run}/cancel", data=b"key=wrong"), timeout=60)
        data = urlencode({"key": key[1]}).encode()
        with urlopen(Request(f"{run}/cancel", data=data), timeout=60) as answer:
            assert answer.status == 200
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_page_ends_with_the_run_without_a_terminal(repository: Path) -> None:
    with begun(str(repository / "blueprints/hello/blueprint.yaml"), "hello") as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "complete" in stderr
