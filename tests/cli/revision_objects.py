"""FunctionRevisions and definitions for tests of revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CRDS = Path(__file__).parents[2] / "kanister_py" / "crds"


def function_revision(number: int, state: str, *, channel: str, serves: bool) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "FunctionRevision",
        "metadata": {
            "name": f"templates-{number}",
            "labels": {"pkg.crossplane.io/package": "templates", "channel": channel},
        },
        "spec": {
            "desiredState": state,
            "image": f"example.org/templates@sha256:{str(number) * 64}",
            "revision": number,
        },
        "status": {
            "endpoint": f"dns:///templates-{number}:9443" if serves else "",
            "conditions": [
                {"type": "RuntimeHealthy", "status": "True" if serves else "False", "reason": "x"}
            ],
        },
    }
