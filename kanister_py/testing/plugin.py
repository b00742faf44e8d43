"""pytest plugin, which is loaded wherever kanister_py is installed.

It imports nothing until the fixture is used, so that other tests do not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kanister_py.testing.stage import Stage


@pytest.fixture
def blueprint_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Cluster in memory for a test of a blueprint; see `kanister_py.testing`.

    Files are searched in the folder of the test, then in the working directory of pytest.
    """
    from kanister_py.testing.stage import Stage

    with Stage(folders=(request.path.parent, Path.cwd()), state=tmp_path / "stage") as stage:
        yield stage
