"""Versions in a blueprint: used as requested, with a notice, or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.testing import Stage

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("name", "version", "notices", "reason"),
    [
        pytest.param("pinned", "v0.2.0", [], "", id="a version that is served"),
        pytest.param("range", "v0.2.0", [], "", id="a range with the stable version inside"),
        pytest.param(
            "deprecated",
            "v0.1.0",
            ["FunctionVersionDeprecated"],
            "",
            id="a version on its way out still runs, and is spoken of",
        ),
        pytest.param(
            "removed", "", [], "FunctionVersionRemoved", id="a removed version runs nothing"
        ),
        pytest.param(
            "fallback",
            "v0.0.0",
            ["FunctionVersionFallback"],
            "",
            id="an unknown version becomes v0.0.0, and is spoken of",
        ),
    ],
)
@pytest.mark.usefixtures("with_plugin")
def test_requested_version_is_used_or_rejected(
    blueprint_stage: Stage,
    repository: Path,
    name: str,
    version: str,
    notices: list[str],
    reason: str,
) -> None:
    ran = blueprint_stage.run(FIXTURES / f"{name}.yaml", "tell")
    assert ran.versions == {"tell": version}
    assert [notice.reason for notice in ran.notices] == notices
    assert ran.reason == reason
    assert ran.is_complete == (not reason)
    ran.check_golden(repository / f"tests/golden/version-{name}/want.yaml")
