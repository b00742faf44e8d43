from __future__ import annotations

from typing import Any

import pytest

from kanister_py.functions.composition.auto_ready.v0_1_0 import AutoReady
from kanister_py.functions.composition.auto_ready.v0_2_0 import AutoReadyV020

READY = [{"type": "Ready", "status": "True"}]
UNREADY = [{"type": "Ready", "status": "False"}]
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1}}


def verdict(function: type[AutoReady], resource: dict[str, Any]) -> str:
    request = {
        "observed": {"resources": {"one": {"resource": resource}}},
        "desired": {"resources": {"one": {"resource": resource}}},
    }
    return str(function().run(request)["desired"]["resources"]["one"].get("ready", ""))


@pytest.mark.parametrize(
    ("resource", "before", "now"),
    [
        pytest.param({"status": {"conditions": READY}}, "READY_TRUE", "READY_TRUE", id="ready"),
        pytest.param({"status": {"conditions": UNREADY}}, "", "READY_FALSE", id="not ready"),
        pytest.param({"status": {}}, "", "", id="nothing is known"),
        pytest.param(
            {**DEPLOYMENT, "status": {"conditions": READY}},
            "READY_TRUE",
            "READY_FALSE",
            id="a Deployment without its pods, whatever a condition says",
        ),
    ],
)
def test_resource_that_is_not_ready_is_marked(
    resource: dict[str, Any], before: str, now: str
) -> None:
    manifest = {"apiVersion": "example.org/v1", "kind": "Bucket", **resource}
    assert verdict(AutoReady, manifest) == before
    assert verdict(AutoReadyV020, manifest) == now
