"""Plugin of pytest, loaded wherever kanister_py is installed; it costs nothing until used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kanister_py.testing.stage import Stage


@pytest.fixture
def blueprint_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A cluster of its own on which a blueprint is tried; see `kanister_py.testing`.

    Files are looked for beside the test first, then where pytest was started.
    """
    from kanister_py.testing.stage import Stage

    with Stage(folders=(request.path.parent, Path.cwd()), state=tmp_path / "stage") as stage:
        yield stage
