"""Privileges of pods: fields of a pod's spec that affect the host or other pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kanister_py.core.errors import UsageError

_HOST_FLAGS: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
_IDENTITY: Final = ("nodeName", "serviceAccountName", "serviceAccount", "runtimeClassName")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_POD: Final = ("seLinuxOptions", "sysctls", "windowsOptions")
_OF_CONTAINER: Final = ("seLinuxOptions", "windowsOptions", "procMount")


class PrivilegesRaised(UsageError, reason="PrivilegesRaised"):
    """An override gives a pod privileges that it did not have."""


def check_privileges(before: Mapping[str, Any], after: Mapping[str, Any], source: str) -> None:
    """Raise `PrivilegesRaised` if a change gives a pod's spec new privileges."""
    had = frozenset(_privileges(before))
    raised = [privilege for privilege in _privileges(after) if privilege not in had]
    kept = frozenset(_restrictions(after))
    remaining = frozenset(path for path, _ in _holders(after))
    raised += [
        f"{path}.{field} no longer {value}"
        for path, field, value in _restrictions(before)
        if path in remaining and (path, field, value) not in kept
    ]
    if raised:
        raise PrivilegesRaised(
            f"{source} gives the pod more privileges than its phase does: {', '.join(raised)}; "
            "write them into the Blueprint, or leave them out"
        )


def restricted_spec(spec: Mapping[str, Any], user: int | None = None) -> dict[str, Any]:
    """Return a pod's spec with the defaults of the Pod Security Standard "restricted".

    Fields that the spec sets are kept. `user` is the user ID of the pod if it sets none.
    See https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
    """
    defaults: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user is not None:
        defaults["runAsUser"] = user
    restricted = {**spec, "securityContext": {**defaults, **(spec.get("securityContext") or {})}}
    for field in _CONTAINERS:
        if spec.get(field):
            restricted[field] = [_restricted_container(container) for container in spec[field]]
    return restricted


def _restricted_container(container: Mapping[str, Any]) -> dict[str, Any]:
    context = container.get("securityContext") or {}
    capabilities = {"drop": ["ALL"], **(context.get("capabilities") or {})}
    context = {"allowPrivilegeEscalation": False, **context, "capabilities": capabilities}
    return {**container, "securityContext": context}


def _privileges(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the privileges of a pod as text: the field, and its value if it matters."""
    for field in _HOST_FLAGS:
        if spec.get(field):
            yield field
    for field in _IDENTITY:
        if spec.get(field):
            yield f"{field} {spec[field]}"
    if spec.get("automountServiceAccountToken") is True:
        yield "automountServiceAccountToken"
    yield from _security(spec, "securityContext", _OF_POD)
    for volume in _items(spec, "volumes"):
        if "hostPath" in volume:
            path = (volume.get("hostPath") or {}).get("path")
            yield f"volumes[{volume.get('name')}].hostPath {path}"
    for field in _CONTAINERS:
        for container in _items(spec, field):
            name = f"{field}[{container.get('name')}]"
            yield from _security(container, f"{name}.securityContext", _OF_CONTAINER)
            for port in _items(container, "ports"):
                if port.get("hostPort"):
                    yield f"{name}.ports.hostPort {port['hostPort']}"


def _security(holder: Mapping[str, Any], path: str, fields: tuple[str, ...]) -> Iterator[str]:
    context = holder.get("securityContext") or {}
    if not isinstance(context, Mapping):
        return
    for flag in ("privileged", "allowPrivilegeEscalation"):
        if context.get(flag):
            yield f"{path}.{flag}"
    if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
        yield f"{path}.runAsUser 0"
    for field in fields:
        if context.get(field):
            yield f"{path}.{field} {context[field]}"
    for field in ("seccompProfile", "appArmorProfile"):
        if (context.get(field) or {}).get("type") == "Unconfined":
            yield f"{path}.{field} Unconfined"
    for capability in (context.get("capabilities") or {}).get("add") or ():
        yield f"{path}.capabilities.add {capability}"


def _holders(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the pod's spec and its containers with their paths."""
    yield "spec", spec
    for field in _CONTAINERS:
        for container in _items(spec, field):
            yield f"{field}[{container.get('name')}]", container


def _restrictions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the restrictions in a spec: path of the pod or container, field and value."""
    for path, holder in _holders(spec):
        for field in ("hostUsers", "automountServiceAccountToken"):
            if holder.get(field) is False:
                yield path, field, "false"
        context = holder.get("securityContext") or {}
        if not isinstance(context, Mapping):
            continue
        if context.get("allowPrivilegeEscalation") is False:
            yield path, "allowPrivilegeEscalation", "false"
        for field in ("readOnlyRootFilesystem", "runAsNonRoot"):
            if context.get(field) is True:
                yield path, field, "true"
        for capability in (context.get("capabilities") or {}).get("drop") or ():
            yield path, "capabilities.drop", str(capability)
        profile = (context.get("seccompProfile") or {}).get("type")
        if profile:
            yield path, "seccompProfile", str(profile)


def _items(holder: Mapping[str, Any], field: str) -> Iterator[Mapping[str, Any]]:
    for item in holder.get(field) or ():
        if isinstance(item, Mapping):
            yield item
