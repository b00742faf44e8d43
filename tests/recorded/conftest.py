"""Location of the recorded answers. Without it, these tests are not collected, and not skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_FOLDER = os.environ.get("KANISTER_PY_RECORDED", "")

collect_ignore_glob = [] if _FOLDER else ["test_*.py"]
if not os.environ.get("KANISTER_PY_PUBLISHED"):
    collect_ignore_glob.append("test_published_examples.py")


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded answers; the folder next to it has the blueprints."""
    return Path(_FOLDER)
