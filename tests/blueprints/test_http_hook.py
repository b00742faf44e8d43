"""An application leaves maintenance mode even if its export fails."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from kanister_py.testing import Stage
from tests.blueprints.servers import program
from tests.ports import free_port


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("changed", "failed_phase", "reason"),
    [
        pytest.param(("", ""), "", "", id="an export that works"),
        pytest.param(
            ("POST /exports", "POST /elsewhere"),
            "begin",
            "UnexpectedStatus",
            id="an export that cannot begin",
        ),
        pytest.param(
            ('"records": 1234', '"rows": 1234'),
            "wait",
            "OutputNotInResponse",
            id="an answer without what was promised",
        ),
    ],
)
def test_application_leaves_maintenance_in_all_cases(
    blueprint_stage: Stage,
    blueprints: Path,
    changed: tuple[str, str],
    failed_phase: str,
    reason: str,
) -> None:
    program("python3", "python3")
    port = str(free_port())
    manifests = (blueprints / "http-hook/objects.yaml").read_text().replace("8080", port)
    stage = blueprint_stage.use_processes().given_text(manifests.replace(*changed))
    url = f"http://127.0.0.1:{port}"
    ran = stage.run(
        blueprints / "http-hook/blueprint.yaml",
        "export",
        object="Deployment/shop/orders",
        options={"url": url},
    )
    assert ran.is_complete == (not reason), ran.error
    assert ran.reason == reason
    assert (ran.status.get("error") or {}).get("phase", "") == failed_phase
    assert ran.outputs["pause"] == ran.outputs["resume"] == {"statusCode": 200}
    with urllib.request.urlopen(f"{url}/healthz", timeout=60) as answer:
        assert json.load(answer) == {"maintenance": False}
    if not reason:
        artifact = {"file": "orders-7.csv", "records": "1234"}
        assert ran.artifacts == {"export": {"keyValue": artifact}}
    # The blueprint sends the token only to the application.
    assert "change-me" not in "\n".join(ran.log) + ran.error
