"""A minimal request, and fixtures that run the function on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kanister_py.core.kube.copies import copy_json
from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform

Answer = Mapping[str, Any]
Run = Callable[..., Answer]

COMPOSITE: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "XBucket",
    "metadata": {"name": "x", "namespace": "ns", "labels": {"tier": "gold"}},
    "spec": {
        "region": "eu",
        "size": 20,
        "ratio": 0.5,
        "flag": True,
        "null": None,
        "names": ["a", "b"],
        "map": {"k": "v", "x.y": "z"},
    },
}
SEEN: dict[str, Any] = {
    "resource": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "seen", "namespace": "there"},
        "data": {"n": 7, "v": "ov", "t": True, "obj": {"a": 1}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    },
    "connectionDetails": {"user": "YWRtaW4="},
}
BASE: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def run() -> Run:
    """Run the function on one composite resource, and check that the request is not changed."""

    def run(
        resources: Sequence[Mapping[str, Any]] = ({"name": "r", "base": BASE},),
        *,
        composite: Mapping[str, Any] | None = None,
        observed: Mapping[str, Any] | None = None,
        desired: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Answer:
        request: dict[str, Any] = {
            "meta": {"tag": "t"},
            "observed": {"composite": {"resource": composite or COMPOSITE}},
            "desired": desired or {},
            "input": {
                "apiVersion": "pt.fn.crossplane.io/v1beta1",
                "kind": "Resources",
                "resources": list(resources),
                **more,
            },
        }
        if observed is not None:
            request["observed"]["resources"] = observed
        if environment is not None:
            request["context"] = {"apiextensions.crossplane.io/environment": environment}
        before = copy_json(request)
        answer = PatchAndTransform().run(request)
        assert request == before
        return answer

    return run


@pytest.fixture
def patched(run: Run) -> Callable[..., Any]:
    """Apply patches to one new resource; returns the `out` of it, or the error."""

    def patched(*patches: Mapping[str, Any], out: str = "out", **more: Any) -> Any:
        base = more.pop("base", BASE)
        answer = run([{"name": "r", "base": base, "patches": list(patches)}], **more)
        if answer.get("results"):
            return answer["results"][0]["message"]
        return answer["desired"]["resources"]["r"]["resource"].get(out, "nothing")

    return patched


@pytest.fixture
def transformed(patched: Callable[..., Any]) -> Callable[..., Any]:
    """Apply transforms to a value; returns the result, or the error."""
    prefix = 'cannot render composed resource "r" "FromCompositeFieldPath" patch at index 0: '

    def transformed(value: Any, *transforms: Mapping[str, Any]) -> Any:
        output = patched(
            {"fromFieldPath": "in", "toFieldPath": "out", "transforms": list(transforms)},
            composite={**COMPOSITE, "in": value},
        )
        return output.removeprefix(prefix) if isinstance(output, str) else output

    return transformed
