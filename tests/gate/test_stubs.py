"""Generated files match their sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate


def test_descriptors_match_the_proto_files(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(repository / ".ci/stubs"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("one", "other", "versions"),
    [
        ("run_function_v1", "run_function_v1beta1", ("fn.proto.v1;", "fn.proto.v1beta1;")),
        ("reflection_v1", "reflection_v1alpha", ("reflection.v1;", "reflection.v1alpha;")),
    ],
)
def test_two_versions_of_a_protocol_differ_only_in_their_package(
    repository: Path, one: str, other: str, versions: tuple[str, str]
) -> None:
    folder = repository / "kanister_py/proto"
    text = (folder / f"{one}.proto").read_text()
    assert text.count(versions[0]) == 1
    assert text.replace(*versions) == (folder / f"{other}.proto").read_text()
