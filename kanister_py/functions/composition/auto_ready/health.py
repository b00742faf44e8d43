"""Health of a resource according to its status.

Kubernetes' built-in kinds have checks of their own; all other kinds are checked by their
condition Ready. A malformed status counts as not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

Data = Mapping[str, Any]


def is_healthy(resource: Data) -> bool:
    """Return True if the kind's own check passes or the condition Ready is True."""
    if verdict_of(resource):
        return True
    try:
        return _condition(resource, "Ready") == "True"
    except _Malformed:
        return False


def verdict_of(resource: Data) -> bool | None:
    """Check whether a resource is ready by its kind's own check, or else its condition Ready.

    Returns None if the kind has no check and the condition is neither True nor False.
    """
    check = _CHECKS.get((resource.get("apiVersion", ""), resource.get("kind", "")))
    try:
        if check is not None:
            return check(resource)
        return {"True": True, "False": False}.get(_condition(resource, "Ready"))
    except _Malformed:
        return False


class _Malformed(Exception):
    """Error for a field whose type does not match the kind."""


def _part(obj: Data, key: str) -> Data:
    value: Data = _typed(obj, key, dict, {})
    return value


def _number(obj: Data, key: str, default: int = 0) -> int:
    value = _typed(obj, key, (int, float), default)
    if isinstance(value, bool) or value != int(value):
        raise _Malformed(key)
    return int(value)


def _text(obj: Data, key: str) -> str:
    return str(_typed(obj, key, str, ""))


def _items(obj: Data, key: str) -> list[Any]:
    value: list[Any] = _typed(obj, key, list, [])
    return value


def _typed(obj: Data, key: str, kind: Any, default: Any) -> Any:
    value = obj.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise _Malformed(key)
    return value


def _conditions(resource: Data) -> Iterator[tuple[str, str]]:
    for condition in _items(_part(resource, "status"), "conditions"):
        if not isinstance(condition, dict):
            raise _Malformed("conditions")
        yield _text(condition, "type"), _text(condition, "status")


def _condition(resource: Data, type_: str) -> str:
    return next((status for name, status in _conditions(resource) if name == type_), "")


def _has_ingress(resource: Data) -> bool:
    return bool(_items(_part(_part(resource, "status"), "loadBalancer"), "ingress"))


def _service(resource: Data) -> bool:
    return _text(_part(resource, "spec"), "type") != "LoadBalancer" or _has_ingress(resource)


def _deployment(resource: Data) -> bool:
    replicas = _number(_part(resource, "spec"), "replicas", 1)
    status = _part(resource, "status")
    return (
        _number(status, "updatedReplicas") == replicas
        and _number(status, "availableReplicas") == replicas
        and _condition(resource, "Available") == "True"
    )


def _stateful_set(resource: Data) -> bool:
    replicas = _number(_part(resource, "spec"), "replicas", 1)
    status = _part(resource, "status")
    # Missing counts and revisions do not count as zeros.
    return (
        _number(status, "readyReplicas", -1) == replicas
        and _number(status, "currentReplicas", -1) == replicas
        and status.get("currentRevision") is not None
        and _text(status, "currentRevision") == _text(status, "updateRevision")
    )


def _daemon_set(resource: Data) -> bool:
    status = _part(resource, "status")
    scheduled = status.get("desiredNumberScheduled")
    counts = ("currentNumberScheduled", "numberReady", "numberAvailable", "updatedNumberScheduled")
    return scheduled is not None and all(_number(status, key, -1) == scheduled for key in counts)


def _replica_set(resource: Data) -> bool:
    status = _part(resource, "status")
    if _number(status, "observedGeneration") < _number(_part(resource, "metadata"), "generation"):
        return False
    if ("ReplicaFailure", "True") in _conditions(resource):
        return False
    return _number(status, "availableReplicas") >= _number(_part(resource, "spec"), "replicas", 1)


def _pod(resource: Data) -> bool:
    phase = _text(_part(resource, "status"), "phase")
    if phase != "Running":
        return phase == "Succeeded"
    # A pod whose containers are not restarted is about to end, so it is not ready.
    is_kept = _text(_part(resource, "spec"), "restartPolicy") == "Always"
    return is_kept and _condition(resource, "Ready") == "True"


def _job(resource: Data) -> bool:
    for type_, status in _conditions(resource):
        if status == "True" and type_ in ("Failed", "Suspended", "Complete"):
            return type_ == "Complete"
    return False


def _cron_job(resource: Data) -> bool:
    if _typed(_part(resource, "spec"), "suspend", bool, False):
        return True
    status = _part(resource, "status")
    scheduled, succeeded = _text(status, "lastScheduleTime"), _text(status, "lastSuccessfulTime")
    if not scheduled:
        return False
    if _items(status, "active"):
        return True
    try:
        moment = datetime.fromisoformat
        return bool(succeeded) and moment(succeeded) >= moment(scheduled)
    except (ValueError, TypeError):  # not a time, or without a time zone
        raise _Malformed("lastSuccessfulTime") from None


_BROKEN = frozenset(
    {"FailedGetScale", "FailedUpdateScale", "FailedGetResourceMetric", "InvalidSelector"}
)


def _autoscaler(resource: Data) -> bool:
    for type_, status in _conditions(resource):
        if status == "True" and type_ in _BROKEN:
            return False
        if status == "True" and type_ in ("ScalingActive", "ScalingLimited"):
            return True
    return False


_ALWAYS = [("v1", kind) for kind in ("ConfigMap", "Secret", "Namespace", "ServiceAccount")]
_CHECKS: Mapping[tuple[str, str], Callable[[Data], bool]] = {
    **dict.fromkeys(_ALWAYS, lambda _: True),
    ("v1", "Service"): _service,
    ("v1", "Pod"): _pod,
    ("v1", "PersistentVolumeClaim"): lambda claim: (
        _text(_part(claim, "status"), "phase") == "Bound"
    ),
    ("networking.k8s.io/v1", "Ingress"): _has_ingress,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("batch/v1", "Job"): _job,
    ("batch/v1", "CronJob"): _cron_job,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
}
