"""Admission of built-in kinds: the defaults and the validation of an API server.

Covers the rules that users notice: defaults of pods and workloads, names, labels, the data
of ConfigMaps and Secrets, and immutable fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import BadRequest, Cause, Invalid
from kanister_py.core.kube import names
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.crd_schemas import invalid
from kanister_py.core.kube.parts import labels_of, metadata_of, spec_of
from kanister_py.core.kube.pod_shapes import ShapeProblem, unreadable_field
from kanister_py.core.kube.resources import ResourceKind
from kanister_py.core.kube.selectors import label_selector_of

KubeObject = dict[str, Any]

# Defaults


def set_defaults(obj: KubeObject, kind: ResourceKind) -> None:
    """Set the API server's defaults for a built-in kind, in place."""
    fields = _SPEC_DEFAULTS.get(kind.group_kind)
    if fields is not None:
        spec = obj.setdefault("spec", {})
        _fill(spec, **copy_json(fields))
        template = spec.get("template")
        if isinstance(template, dict):
            template.setdefault("metadata", {})
            _default_pod_spec(template.setdefault("spec", {}))
    if kind.group_kind in _DEFAULTS:
        _DEFAULTS[kind.group_kind](obj)


_SPEC_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Namespace": {"finalizers": ["kubernetes"]},
    "PersistentVolumeClaim": {"volumeMode": "Filesystem"},
    "PersistentVolume": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "Service": {"type": "ClusterIP", "sessionAffinity": "None"},
    "Deployment.apps": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "StatefulSet.apps": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
    "ReplicaSet.apps": {"replicas": 1},
    "Job.batch": {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False},
}


def set_first_status(obj: KubeObject, kind: ResourceKind) -> None:
    """Set the initial status of a new object of a built-in kind, in place."""
    status = _FIRST_STATUS.get(kind.group_kind)
    obj["status"] = status(obj) if status is not None else {}


def _fill(target: dict[str, Any], **values: Any) -> None:
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def _default_secret(obj: KubeObject) -> None:
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {}) or {}
        for key, text in texts.items():
            data[key] = base64.b64encode(str(text).encode()).decode()
        obj["data"] = data
    _fill(obj, type="Opaque")


def _default_namespace(obj: KubeObject) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _default_pod_spec(spec: dict[str, Any]) -> None:
    _fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
    )
    spec.setdefault("securityContext", {})
    for list_name in ("initContainers", "containers"):
        for container in spec.get(list_name) or ():
            if isinstance(container, dict):
                _default_container(container)
    for volume in spec.get("volumes") or ():
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            if isinstance(volume, dict) and isinstance(volume.get(source), dict):
                _fill(volume[source], defaultMode=420)


def _default_container(container: dict[str, Any]) -> None:
    image = str(container.get("image", ""))
    last = image.rsplit("/", 1)[-1]
    is_latest = "@" not in last and (":" not in last or last.endswith(":latest"))
    _fill(
        container,
        imagePullPolicy="Always" if is_latest else "IfNotPresent",
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        if isinstance(port, dict):
            _fill(port, protocol="TCP")


def _default_deployment(obj: KubeObject) -> None:
    strategy = obj["spec"].setdefault("strategy", {})
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _fill(rolling, maxUnavailable="25%", maxSurge="25%")
        strategy["rollingUpdate"] = rolling


def _default_stateful_set(obj: KubeObject) -> None:
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        if isinstance(claim, dict):
            _fill(claim, apiVersion="v1", kind="PersistentVolumeClaim")
            _fill(claim.setdefault("spec", {}), volumeMode="Filesystem")


def _default_job(obj: KubeObject) -> None:
    spec = obj["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _fill(spec, parallelism=1)


def _default_service(obj: KubeObject) -> None:
    for port in obj["spec"].get("ports") or ():
        if isinstance(port, dict):
            _fill(port, protocol="TCP", targetPort=port.get("port"))


_DEFAULTS: Final[Mapping[str, Callable[[KubeObject], None]]] = {
    "Secret": _default_secret,
    "Namespace": _default_namespace,
    "Pod": lambda obj: _default_pod_spec(obj.setdefault("spec", {})),
    "Service": _default_service,
    "Deployment.apps": _default_deployment,
    "StatefulSet.apps": _default_stateful_set,
    "Job.batch": _default_job,
}


def _qos_class(spec: Mapping[str, Any]) -> str:
    resources = [
        container.get("resources") or {}
        for name in ("containers", "initContainers")
        for container in spec.get(name) or ()
    ]
    if not any(r.get("limits") or r.get("requests") for r in resources):
        return "BestEffort"
    for resource in resources:
        limits = resource.get("limits") or {}
        requests = resource.get("requests") or limits
        if not {"cpu", "memory"} <= limits.keys() or any(
            requests.get(name, limits[name]) != limits[name] for name in ("cpu", "memory")
        ):
            return "Burstable"
    return "Guaranteed"


_FIRST_STATUS: Final[Mapping[str, Callable[[KubeObject], dict[str, Any]]]] = {
    "Pod": lambda obj: {"phase": "Pending", "qosClass": _qos_class(obj["spec"])},
    "Namespace": lambda _: {"phase": "Active"},
    "PersistentVolumeClaim": lambda _: {"phase": "Pending"},
    "PersistentVolume": lambda _: {"phase": "Pending"},
    "Service": lambda _: {"loadBalancer": {}},
    "ReplicaSet.apps": lambda _: {"replicas": 0},
    "StatefulSet.apps": lambda _: {"replicas": 0, "availableReplicas": 0},
}


# Validation


def check_shape(obj: Mapping[str, Any], kind: ResourceKind) -> None:
    """Raise `BadRequest` if an object cannot be decoded as its kind."""
    metadata = obj.get("metadata")
    places: dict[str, Any] = {}
    if isinstance(metadata, Mapping):
        for key in ("name", "generateName", "namespace"):
            if metadata.get(key) is not None and not isinstance(metadata[key], str):
                raise _unreadable(kind, f"metadata.{key}", metadata[key], "string")
        places = {f"metadata.{key}": metadata.get(key) for key in ("labels", "annotations")}
    places |= {key: obj.get(key) for key in _DATA_FIELDS.get(kind.group_kind, ())}
    for path, values in places.items():
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise _unreadable(kind, path, values, "map[string]string")
        for value in values.values():
            if not isinstance(value, str) and value is not None:
                raise _unreadable(kind, path, value, "string")
    if kind.group_kind == "Pod" or kind.group_kind in _SPEC_DEFAULTS:
        _check_shape_of_spec(obj.get("spec"), kind)


def _check_shape_of_spec(spec: Any, kind: ResourceKind) -> None:
    if kind.group_kind == "Pod":
        wrong = unreadable_field(spec, "spec")
    elif spec is not None and not isinstance(spec, Mapping):
        wrong = ShapeProblem("spec", spec, "object")
    else:
        template = (spec or {}).get("template")
        if template is not None and not isinstance(template, Mapping):
            wrong = ShapeProblem("spec.template", template, "object")
        else:
            wrong = unreadable_field((template or {}).get("spec"), "spec.template.spec")
    if wrong is not None:
        raise _unreadable(
            kind, wrong.path, wrong.value, _GO_TYPES.get(wrong.expected_type, wrong.expected_type)
        )


_GO_TYPES: Final = {
    "array": "[]interface {}",
    "object": "map[string]interface {}",
    "number": "int64",
}


_DATA_FIELDS: Final = {"ConfigMap": ("data", "binaryData"), "Secret": ("data", "stringData")}


def _unreadable(kind: ResourceKind, path: str, value: Any, go_type: str) -> BadRequest:
    json_type = (
        "bool"
        if isinstance(value, bool)
        else "number"
        if isinstance(value, int | float)
        else "string"
        if isinstance(value, str)
        else "array"
        if isinstance(value, list)
        else "object"
    )
    return BadRequest(
        f'{kind.kind} in version "{kind.gvr.version}" cannot be handled as a {kind.kind}: json: '
        f"cannot unmarshal {json_type} into Go struct field {kind.kind}.{path} of type {go_type}"
    )


def check(obj: KubeObject, before: KubeObject | None, kind: ResourceKind) -> None:
    """Raise `Invalid` with all violations of the rules of a kind."""
    causes = _metadata_problems(obj, kind)
    if kind.group_kind in _CHECKS:
        causes += _CHECKS[kind.group_kind](obj)
    if before is not None and kind.group_kind in _FROZEN:
        causes += _FROZEN[kind.group_kind](obj, before)
    refuse(obj, kind, causes)


def refuse(obj: Mapping[str, Any], kind: ResourceKind, causes: list[Cause]) -> None:
    """Raise `Invalid` if there are any causes."""
    if not causes:
        return
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
    texts = [str(cause) for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    raise Invalid(
        f'{kind.group_kind} "{name}" is invalid: {listed}',
        resource=kind.gvr.group_resource,
        name=name,
        causes=causes,
    )


def _missing(path: str, why: str = "") -> Cause:
    return Cause(path, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def _forbidden(path: str, why: str) -> Cause:
    return Cause(path, f"Forbidden: {why}", "FieldValueForbidden")


_NAME_RULES: Final[Mapping[str, Callable[[str], str]]] = {
    "Namespace": names.dns_label_problem,
    "Service": names.dns_1035_label_problem,
    "StatefulSet.apps": names.dns_label_problem,
    **{
        f"{kind}.rbac.authorization.k8s.io": names.path_segment_problem
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
}


def _metadata_problems(obj: KubeObject, kind: ResourceKind) -> list[Cause]:
    metadata = obj["metadata"]
    name = metadata["name"]
    why = _NAME_RULES.get(kind.group_kind, names.dns_subdomain_problem)(name)
    causes = [invalid("metadata.name", name, why)] if why else []
    labels = metadata.get("labels") or {}
    causes += [
        invalid("metadata.labels", text, why)
        for key, value in labels.items()
        for text, why in (
            (key, names.label_key_problem(key)),
            (value, names.label_value_problem(value or "")),
        )
        if why
    ]
    causes += [
        invalid("metadata.annotations", key, why)
        for key in metadata.get("annotations") or {}
        if (why := names.label_key_problem(key.lower()))
    ]
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        causes += [
            _missing(f"metadata.ownerReferences[{index}].{field}")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        ]
    controllers = [
        owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")
    ]
    if len(controllers) > 1:
        first, second = (owner.get("name") for owner in controllers[:2])
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {first} and {second}'
        )
        causes.append(invalid("metadata.ownerReferences", "", why))
    return causes


def _check_data(obj: KubeObject) -> list[Cause]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    causes = [
        invalid(f"{path}[{key}]", key, why)
        for path, values in (("data", data), ("binaryData", binary))
        for key in values
        if (why := names.data_key_problem(key))
    ]
    causes += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data
        if key in binary
    ]
    return causes


def _check_secret(obj: KubeObject) -> list[Cause]:
    for value in (obj.get("data") or {}).values():
        try:
            base64.b64decode(value or "", validate=True)
        except binascii.Error as error:
            raise BadRequest(
                'Secret in version "v1" cannot be handled as a Secret: illegal base64 data'
            ) from error
    return _check_data(obj)


def _pod_spec_problems(spec: Mapping[str, Any], path: str) -> list[Cause]:
    containers = spec.get("containers")
    if not containers:
        return [_missing(f"{path}.containers")]
    causes = [
        cause
        for field, supported in _POD_CHOICES.items()
        if (cause := _unsupported(f"{path}.{field}", spec.get(field), supported))
    ]
    listed = [volume or {} for volume in spec.get("volumes") or ()]
    causes += [
        _missing(f"{path}.volumes[{index}].name")
        for index, volume in enumerate(listed)
        if not volume.get("name")
    ]
    volumes = {volume.get("name") for volume in listed}
    seen: set[str] = set()
    for list_name in ("initContainers", "containers"):
        for index, written in enumerate(spec.get(list_name) or ()):
            place, container = f"{path}.{list_name}[{index}]", written or {}
            name = container.get("name", "")
            if not name:
                causes.append(_missing(f"{place}.name"))
            elif why := names.dns_label_problem(name):
                causes.append(invalid(f"{place}.name", name, why))
            elif name in seen:
                why = f'Duplicate value: "{name}"'
                causes.append(Cause(f"{place}.name", why, "FieldValueDuplicate"))
            seen.add(name)
            if not container.get("image"):
                causes.append(_missing(f"{place}.image"))
            policy = container.get("imagePullPolicy")
            if cause := _unsupported(f"{place}.imagePullPolicy", policy, _PULL_POLICIES):
                causes.append(cause)
            causes += [
                _missing(f"{place}.env[{at}].name")
                for at, entry in enumerate(container.get("env") or ())
                if not (entry or {}).get("name")
            ]
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    why = f'Not found: "{mount.get("name")}"'
                    field = f"{place}.volumeMounts[{at}].name"
                    causes.append(Cause(field, why, "FieldValueNotFound"))
    return causes


def _unsupported(path: str, value: Any, choices: Sequence[str]) -> Cause | None:
    if not value or value in choices:
        return None
    supported = ", ".join(f'"{value}"' for value in choices)
    why = f'Unsupported value: "{value}": supported values: {supported}'
    return Cause(path, why, "FieldValueNotSupported")


_POD_CHOICES: Final = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")


def _check_workload(obj: KubeObject) -> list[Cause]:
    spec = obj["spec"]
    selector = spec.get("selector")
    if not selector:
        return [_missing("spec.selector")]
    template = spec.get("template") or {}
    labels = labels_of(template)
    causes: list[Cause] = []
    if not label_selector_of(selector).matches(labels):
        why = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, why))
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        causes.append(invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    pod_spec = spec_of(template)
    volumes = pod_spec.get("volumes") or []
    named = {volume.get("name") for volume in volumes}
    # A StatefulSet adds volumes for its claims to every pod; the pod template has none.
    claims = [
        {"name": claim["metadata"]["name"], "emptyDir": {}}
        for claim in spec.get("volumeClaimTemplates") or ()
        if metadata_of(claim).get("name") not in {None, *named}
    ]
    if claims:
        pod_spec = {**pod_spec, "volumes": [*volumes, *claims]}
    return causes + _pod_spec_problems(pod_spec, "spec.template.spec")


def _check_claim(obj: KubeObject) -> list[Cause]:
    spec = obj["spec"]
    causes = []
    if not spec.get("accessModes"):
        causes.append(_missing("spec.accessModes", "at least 1 access mode is required"))
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        causes.append(_missing("spec.resources[storage]"))
    return causes


_CHECKS: Final[Mapping[str, Callable[[KubeObject], list[Cause]]]] = {
    "ConfigMap": _check_data,
    "Secret": _check_secret,
    "Pod": lambda obj: _pod_spec_problems(obj["spec"], "spec"),
    "PersistentVolumeClaim": _check_claim,
    "Deployment.apps": _check_workload,
    "StatefulSet.apps": _check_workload,
    "ReplicaSet.apps": _check_workload,
}


# Immutable fields


def _frozen_data(obj: KubeObject, before: KubeObject) -> list[Cause]:
    if not before.get("immutable"):
        return []
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [
        field
        for field in ("data", "binaryData")
        if (obj.get(field) or {}) != (before.get(field) or {})
    ]
    return [_forbidden(field, "field is immutable when `immutable` is set") for field in changed]


def _frozen_secret(obj: KubeObject, before: KubeObject) -> list[Cause]:
    causes = _frozen_data(obj, before)
    if obj.get("type") != before.get("type"):
        causes.append(invalid("type", obj.get("type"), "field is immutable"))
    return causes


def _frozen_pod(obj: KubeObject, before: KubeObject) -> list[Cause]:
    def fixed(pod: KubeObject) -> dict[str, Any]:
        spec = {key: value for key, value in pod["spec"].items() if key not in _POD_MAY_CHANGE}
        for name in ("containers", "initContainers"):
            spec[name] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in spec.get(name) or ()
            ]
        return spec

    if fixed(obj) == fixed(before):
        return []
    return [
        _forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
            "(allow it to be set to 1 if it was previously negative)",
        )
    ]


# `nodeName` may change, since pods are bound to nodes by updates here.
_POD_MAY_CHANGE: Final = frozenset(
    {"activeDeadlineSeconds", "tolerations", "nodeName", "ephemeralContainers"}
)


def _frozen_selector(obj: KubeObject, before: KubeObject) -> list[Cause]:
    if obj["spec"].get("selector") == before["spec"].get("selector"):
        return []
    return [invalid("spec.selector", obj["spec"].get("selector"), "field is immutable")]


def _frozen_stateful_set(obj: KubeObject, before: KubeObject) -> list[Cause]:
    changed = {
        key
        for key in {**obj["spec"], **before["spec"]}
        if obj["spec"].get(key) != before["spec"].get(key)
    }
    if changed <= _STATEFUL_SET_MAY_CHANGE:
        return []
    return [
        _forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden",
        )
    ]


_STATEFUL_SET_MAY_CHANGE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)

_FROZEN: Final[Mapping[str, Callable[[KubeObject, KubeObject], list[Cause]]]] = {
    "ConfigMap": _frozen_data,
    "Secret": _frozen_secret,
    "Pod": _frozen_pod,
    "Deployment.apps": _frozen_selector,
    "ReplicaSet.apps": _frozen_selector,
    "StatefulSet.apps": _frozen_stateful_set,
}
