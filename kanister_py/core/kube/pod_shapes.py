"""Types of the fields in a pod's spec, as API servers decode them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from kanister_py.core.yaml.documents import nearest


class ShapeProblem(NamedTuple):
    """A value of a wrong type, or the name of an unknown field (without `expected_type`)."""

    path: str
    value: Any
    expected_type: str = ""
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.expected_type:
            return f"{self.path} must be {_WORDS[self.expected_type]}, not {_word_of(self.value)}"
        return f"{self.path} is not a field of a pod; did you mean {' or '.join(self.near)}?"


def shape_problems(spec: Any, path: str, type_: str = "PodSpec") -> Iterator[ShapeProblem]:
    """Yield the problems of a pod's spec, or of a patch of one.

    Unknown fields may be new in Kubernetes, so they are only reported if they resemble a
    known one.
    """
    if spec is None:
        return
    expected_type = "array" if type_.startswith("[]") else _KINDS.get(type_, "object")
    if not _holds(expected_type, spec):
        yield ShapeProblem(path, spec, expected_type)
    elif type_.startswith("[]"):
        for index, item in enumerate(spec):
            yield from shape_problems(item, f"{path}[{index}]", type_[2:])
    elif type_ == "strings":
        for key, field_value in spec.items():
            yield from shape_problems(field_value, f"{path}.{key}", "string")
    elif fields := _fields().get(type_):
        for key, field_value in spec.items():
            if key in fields:
                yield from shape_problems(field_value, f"{path}.{key}", fields[key])
            elif not str(key).startswith("$") and (near := _near(str(key), fields)):
                yield ShapeProblem(f"{path}.{key}", field_value, near=near)


def unreadable_field(spec: Any, path: str) -> ShapeProblem | None:
    """Return the first value of a wrong type. Unknown fields do not count."""
    return next((problem for problem in shape_problems(spec, path) if problem.expected_type), None)


def _near(key: str, fields: Mapping[str, str]) -> tuple[str, ...]:
    return nearest(key, [*fields], limit=1, cutoff=0.8)


def _holds(expected_type: str, value: Any) -> bool:
    match expected_type:
        case "array":
            return isinstance(value, list | tuple)
        case "object":
            return isinstance(value, Mapping)
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


_KINDS: Final = {"string": "string", "bool": "bool", "number": "number", "strings": "object"}
_WORDS: Final = {
    "array": "a list",
    "object": "a map",
    "string": "text",
    "bool": "true or false",
    "number": "a whole number",
}


def _word_of(value: Any) -> str:
    kinds = (name for name in ("bool", "string", "array", "object") if _holds(name, value))
    type_ = next(kinds, None)
    return f"the number {value}" if type_ is None else _WORDS[type_]


@cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    fields: dict[str, dict[str, str]] = {}
    for line in _TABLE.strip().splitlines():
        owner, type_, *names = line.split()
        fields.setdefault(owner, {}).update(dict.fromkeys(names, type_))
    return fields


# Rows: object type, type of the fields, names of the fields. `strings` is a map of strings,
# `object` a map whose fields are not checked.
_TABLE: Final = """
PodSpec string dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName
PodSpec string restartPolicy runtimeClassName schedulerName serviceAccount serviceAccountName
PodSpec string subdomain
PodSpec number activeDeadlineSeconds priority terminationGracePeriodSeconds
PodSpec bool automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers
PodSpec bool setHostnameAsFQDN shareProcessNamespace
PodSpec object affinity dnsConfig os overhead resources securityContext workloadRef
PodSpec strings nodeSelector
PodSpec []Container containers initContainers ephemeralContainers
PodSpec []Volume volumes
PodSpec []object hostAliases imagePullSecrets readinessGates resourceClaims schedulingGates
PodSpec []object tolerations topologySpreadConstraints
Container string name image imagePullPolicy restartPolicy targetContainerName
Container string terminationMessagePath terminationMessagePolicy workingDir
Container bool stdin stdinOnce tty
Container []string args command
Container []EnvVar env
Container []object envFrom ports resizePolicy restartPolicyRules volumeDevices
Container []VolumeMount volumeMounts
Container object lifecycle livenessProbe readinessProbe resources securityContext startupProbe
EnvVar string name value
EnvVar object valueFrom
VolumeMount string mountPath mountPropagation name recursiveReadOnly subPath subPathExpr
VolumeMount bool readOnly
Volume string name
Volume object awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI
Volume object emptyDir ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath
Volume object image iscsi nfs persistentVolumeClaim photonPersistentDisk portworxVolume projected
Volume object quobyte rbd scaleIO secret storageos vsphereVolume
"""
