"""Defaults of the Pod Security Standard "restricted"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.core.kube.privileges import restricted_spec

BARE: dict[str, Any] = {
    "containers": [{"name": "main", "image": "tools"}],
    "initContainers": [{"name": "first", "image": "tools"}],
}


def violations(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules of "restricted" that a pod without volumes violates.

    See https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
    """
    pod = spec.get("securityContext") or {}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        context = container.get("securityContext") or {}
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield "runAsNonRoot"
        if context.get("runAsUser", pod.get("runAsUser")) == 0:
            yield "runAsUser"
        profile = context.get("seccompProfile") or pod.get("seccompProfile") or {}
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
        capabilities = context.get("capabilities") or {}
        if "ALL" not in capabilities.get("drop", ()):
            yield "capabilities.drop"
        if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield "capabilities.add"


def container_with(context: Mapping[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "tools", "securityContext": context}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(BARE, id="without any security context"),
        pytest.param({**BARE, "securityContext": {"fsGroup": 1}}, id="with one for the pod"),
        pytest.param(container_with({"runAsUser": 1}), id="with one for its container"),
        pytest.param(
            container_with({"capabilities": {"add": ["NET_BIND_SERVICE"]}}), id="with a capability"
        ),
        pytest.param({**BARE, "securityContext": None}, id="with an empty one"),
    ],
)
def test_a_pod_meets_the_restricted_standard(spec: dict[str, Any]) -> None:
    assert set(violations(spec))
    restricted = restricted_spec(spec)
    assert set(violations(restricted)) == set()
    assert restricted_spec(restricted) == restricted


def test_fields_that_the_spec_sets_are_kept() -> None:
    context = {"allowPrivilegeEscalation": True, "capabilities": {"drop": ["KILL"]}}
    spec = {**container_with(context), "securityContext": {"runAsNonRoot": False, "runAsUser": 7}}
    restricted = restricted_spec(spec, 65532)
    assert restricted["containers"] == spec["containers"]
    assert restricted["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 7,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert restricted_spec(BARE, 65532)["securityContext"]["runAsUser"] == 65532
