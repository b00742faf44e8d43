"""Health of a revision that runs as a Deployment."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.revisions.runtime import unhealthy_reason


def deployment(available: str, replicas: int = 0, *, observed: int = 1) -> dict[str, Any]:
    condition = {"type": "Available", "status": available, "message": "too few"}
    status = {"observedGeneration": observed, "conditions": [condition]}
    counted = {"availableReplicas": replicas} if replicas else {}
    return {"metadata": {"generation": 1}, "status": {**status, **counted}}


@pytest.mark.parametrize(
    ("existing", "addresses", "why"),
    [
        pytest.param(None, 0, "does not exist yet", id="no Deployment"),
        pytest.param(deployment("True", 1, observed=0), 1, "reconciled", id="an outdated status"),
        pytest.param(deployment("False"), 0, "not available: too few", id="nothing runs"),
        pytest.param(deployment("True", 1), 0, "none of its addresses", id="no ready address"),
        pytest.param(deployment("True", 1), 1, "", id="all is well"),
        pytest.param(deployment("False", 1), 1, "", id="one of two is left"),
        pytest.param(deployment("False", 1), 0, "too few", id="one is left, and does not answer"),
    ],
)
def test_revision_is_healthy_while_one_of_its_pods_is_ready(
    existing: Any, addresses: int, why: str
) -> None:
    reason = unhealthy_reason(existing, addresses)
    assert (why in reason) if why else reason == ""
