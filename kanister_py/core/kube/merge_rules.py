"""Merge rules of the fields of each kind, for patches and server-side apply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.kube.resources import BUILTIN_KINDS

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class MergeRule(NamedTuple):
    """Merge behaviour of a field, and the rules of the fields below it.

    `merge_key` is the key by which a strategic merge patch merges a list of objects;
    `merges_list` alone merges a list of scalars. `list_keys` and `is_set` are the
    counterparts for server-side apply, where several keys may identify an item. An
    `is_atomic` field has one field manager as a whole.
    """

    children: Mapping[str, MergeRule] = _NOTHING
    item: MergeRule | None = None
    merges_list: bool = False
    merge_key: str = ""
    replaces: bool = False
    list_keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = _NOTHING
    is_set: bool = False
    is_atomic: bool = False

    def child(self, name: str) -> MergeRule:
        """Return the rule of the field `name` below this one."""
        return self.children.get(name) or self.item or NO_RULE


NO_RULE: Final = MergeRule()
"""Default rule: maps are merged, lists are replaced."""


@cache
def merge_rules_of(api_version: str, kind: str) -> MergeRule | None:
    """Return the rules of a built-in kind, or None for other kinds."""
    if (api_version, kind) not in _BUILTIN:
        return None
    name = "RegardingEvent" if (api_version, kind) == ("events.k8s.io/v1", "Event") else kind
    inside = dict(_rules_of_type(name).children)
    inside["metadata"] = _rules_of_type("ObjectMeta")
    return MergeRule(inside)


def merge_rules_of_custom(schema: Mapping[str, Any] | None) -> MergeRule:
    """Return the rules of a custom resource, from the schema in its CRD."""
    inside = dict(_rules_of_schema(schema or {}).children)
    inside["metadata"] = _rules_of_type("ObjectMeta")
    return MergeRule(inside)


def pod_spec_rules() -> MergeRule:
    """Return the rules for pod specs."""
    return _rules_of_type("PodSpec")


def _rules_of_schema(schema: Mapping[str, Any]) -> MergeRule:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    items = schema.get("items")
    inner = items if isinstance(items, Mapping) else additional
    list_type = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
    key_properties = (items or {}).get("properties") or {} if keys else {}
    return MergeRule(
        {name: _rules_of_schema(inside) for name, inside in properties.items()},
        item=_rules_of_schema(inner) if isinstance(inner, Mapping) else None,
        list_keys=keys,
        key_defaults={
            key: key_properties[key]["default"]
            for key in keys
            if "default" in key_properties.get(key, {})
        },
        is_set=list_type == "set",
        is_atomic=schema.get("x-kubernetes-map-type") == "atomic",
    )


@cache
def _rules_of_type(name: str) -> MergeRule:
    parts = {part: [f"{name}{part.title()}"] for part in ("spec", "status")}
    fields = {part: row for part, row in parts.items() if row[0] in _FIELDS}
    fields |= _FIELDS.get(name, {})
    return MergeRule(MappingProxyType({field: _rule_of_row(*row) for field, row in fields.items()}))


def _rule_of_row(child: str, *marks: str) -> MergeRule:
    inside = NO_RULE if child == "-" else _rules_of_type(child)
    settings = dict(mark.partition("=")[::2] for mark in marks)
    merge_key = settings.get("merge", "")
    is_atomic = "atomic" in settings
    keys = (
        tuple(settings["keys"].split(","))
        if "keys" in settings
        else (merge_key,)
        if merge_key
        else ()
    )
    is_list = "merge" in settings or "set" in settings or "keys" in settings
    return MergeRule(
        children={} if is_list else inside.children,
        item=inside if is_list else None,
        merges_list="merge" in settings,
        merge_key=merge_key,
        replaces="replace" in settings,
        list_keys=() if is_atomic else keys,
        key_defaults=_KEY_DEFAULTS if "protocol" in keys else {},
        is_set="set" in settings or ("merge" in settings and not merge_key),
        is_atomic=is_atomic,
    )


_KEY_DEFAULTS: Final = MappingProxyType({"protocol": "TCP"})

# Columns: types, fields, type of the value (`-`: no rules), marks. The types of the spec and
# the status of a kind are KINDSpec and KINDStatus.
# merge[=KEY]: a strategic patch merges this list, by KEY. replace: a strategic patch replaces
# the map. keys=A,B: keys of items in server-side apply, if not KEY. set: a list of scalars
# that server-side apply merges. atomic: one manager owns the whole field.
_TABLE: Final = """
Affinity nodeAffinity NodeAffinity
ClusterRoleBinding,RoleBinding roleRef - atomic
Container env EnvVar merge=name
Container ports - merge=containerPort keys=containerPort,protocol
Container volumeDevices - merge=devicePath
Container volumeMounts - merge=mountPath
Container,PodSpec resources ResourceRequirements
ControllerRevision data - atomic
CronJobSpec jobTemplate JobTemplateSpec
CSIDriverSpec volumeLifecycleModes - set
CSINodeSpec drivers - merge=name
CSIPersistentVolumeSource controllerExpandSecretRef,controllerPublishSecretRef - atomic
CSIPersistentVolumeSource nodeExpandSecretRef,nodeStageSecretRef - atomic
CSIPersistentVolumeSource,CSIVolumeSource nodePublishSecretRef - atomic
DaemonSetSpec,DeploymentSpec,JobSpec selector - atomic
DaemonSetSpec,DeploymentSpec,JobSpec,PodTemplate template Template
DaemonSetStatus,DeploymentStatus conditions - merge=type
EnvVar valueFrom EnvVarSource
EnvVarSource configMapKeyRef,fieldRef,fileKeyRef,resourceFieldRef,secretKeyRef - atomic
EphemeralVolumeSource volumeClaimTemplate PersistentVolumeClaimTemplate
Event involvedObject - atomic
Event,RegardingEvent related - atomic
HorizontalPodAutoscalerStatus,NamespaceStatus,NodeStatus conditions - merge=type
IngressBackend resource - atomic
IngressBackend service IngressServiceBackend
IngressServiceBackend port - atomic
IngressSpec defaultBackend IngressBackend
JobStatus conditions - merge=type atomic
JobStatus uncountedTerminatedPods UncountedTerminatedPods
JobTemplateSpec spec JobSpec
MutatingWebhookConfiguration,ValidatingWebhookConfiguration webhooks Webhook merge=name
NetworkPolicySpec podSelector - atomic
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution - atomic
NodeSpec podCIDRs - merge
NodeStatus addresses - merge=type
ObjectMeta finalizers - merge
ObjectMeta ownerReferences - merge=uid
PersistentVolumeClaimSpec dataSource - atomic
PersistentVolumeClaimSpec,ReplicaSetSpec selector - atomic
PersistentVolumeClaimStatus,PodDisruptionBudgetStatus conditions - merge=type
PersistentVolumeClaimTemplate spec PersistentVolumeClaimSpec
PersistentVolumeSpec claimRef - atomic
PersistentVolumeSpec csi CSIPersistentVolumeSource
PersistentVolumeSpec nodeAffinity VolumeNodeAffinity
PersistentVolumeSpec,Volume cephfs,cinder,flexVolume,iscsi,rbd,scaleIO,storageos SecretSource
PodDisruptionBudgetSpec selector - replace atomic
PodSpec affinity Affinity
PodSpec containers,ephemeralContainers,initContainers Container merge=name
PodSpec hostAliases - merge=ip
PodSpec imagePullSecrets,schedulingGates - merge=name
PodSpec nodeSelector - atomic
PodSpec resourceClaims - merge=name
PodSpec topologySpreadConstraints SpreadRule merge=topologyKey keys=topologyKey,whenUnsatisfiable
PodSpec volumes Volume merge=name
PodStatus hostIPs - merge=ip atomic
PodStatus podIPs - merge=ip
PodStatus resourceClaimStatuses - merge=name
PodStatus,ReplicaSetStatus,ReplicationControllerStatus conditions - merge=type
RegardingEvent regarding - atomic
ReplicaSetSpec,ReplicationControllerSpec,StatefulSetSpec template Template
ReplicationControllerSpec,ServiceSpec,StatefulSetSpec selector - atomic
ResourceQuotaSpec scopeSelector - atomic
ResourceRequirements claims - keys=name
SecretSource secretRef - atomic
ServiceAccount secrets - merge=name
ServiceSpec ports - merge=port keys=port,protocol
ServiceStatus,StatefulSetStatus conditions - merge=type
SpreadRule labelSelector - atomic
Template spec PodSpec
UncountedTerminatedPods failed,succeeded - set
Volume csi CSIVolumeSource
Volume ephemeral EphemeralVolumeSource
VolumeAttachmentSource inlineVolumeSpec PersistentVolumeSpec
VolumeAttachmentSpec source VolumeAttachmentSource
VolumeNodeAffinity required - atomic
Webhook matchConditions - merge=name
Webhook namespaceSelector,objectSelector - atomic
"""


def _read_table() -> dict[str, dict[str, list[str]]]:
    fields: dict[str, dict[str, list[str]]] = {}
    for line in _TABLE.strip().splitlines():
        names, inside, *marks = line.split()
        for name in names.split(","):
            fields.setdefault(name, {}).update(dict.fromkeys(inside.split(","), marks))
    return fields


_FIELDS: Final = _read_table()
_BUILTIN: Final = frozenset((row.gvr.api_version, row.kind) for row in BUILTIN_KINDS)
