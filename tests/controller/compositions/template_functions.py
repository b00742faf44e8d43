"""The Function `templates`, and a composition that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.controller.compositions.harness import (
    composition,
)


def function(tag: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {
            "name": "templates",
            "labels": dict(labels or {}),
            "annotations": {"kanister-py.io/runtime": "InProcess"},
        },
        "spec": {
            "package": f"xpkg.crossplane.io/kanister-py/function-go-templating:{tag}",
            "revisionHistoryLimit": 0,
            **spec,
        },
    }


def using(**step: Any) -> dict[str, Any]:
    obj = composition()
    obj["spec"]["pipeline"][0]["functionRef"] = {"name": "templates", **step.pop("ref", {})}
    obj["spec"]["pipeline"][0].update(step)
    return obj
