from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kanister_py
from kanister_py.core.versions.semver import parse_version
from kanister_py.functions.builtin import read_record
from tests.versions_record import checked_record

CHECKED = Path(kanister_py.__file__).parent / "functions" / "versions.json"


@pytest.fixture
def judged(repository: Path) -> dict[str, Any]:
    release = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    text = (repository / "versions.yaml").read_text()
    return {
        "release": release,
        **checked_record(text, "versions.yaml", parse_version(release)),
    }


def test_what_is_read_at_start_is_the_record_as_it_was_judged(judged: dict[str, Any]) -> None:
    if os.environ.get("KANISTER_PY_GOLDEN") == "write":
        CHECKED.write_text(json.dumps(judged, indent=1) + "\n", encoding="utf-8")
        read_record.cache_clear()
    assert read_record() == judged, (
        "run KANISTER_PY_GOLDEN=write pytest tests/functions/test_builtin.py"
    )
