"""A composition function that reports which of its revisions answered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py import CompositionFunction


class Colour(CompositionFunction):
    """Composes one ConfigMap with the name of the revision that runs it."""

    name: ClassVar[str] = "function-colour"

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        revision = os.environ.get("REVISION_NAME", "")
        composed = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "default"},
            "data": {"revision": revision},
        }
        return {
            "meta": {"tag": request["meta"]["tag"]},
            "desired": {"resources": {"one": {"resource": composed, "ready": "READY_TRUE"}}},
        }
