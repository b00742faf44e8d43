"""How each field of the built-in kinds is merged, in patches and in server-side apply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.objects.resources import BUILTIN_KINDS

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class MergeRule(NamedTuple):
    """What happens to a field when two sides meet, and the rules of what is inside it.

    `merge_key` names the key by which a strategic patch merges a list of
    objects; `merges_list` alone merges a list of plain values. `list_keys` and
    `is_set` are the same for server-side apply, where several keys together may
    tell items apart. A field that is atomic belongs to one field manager whole.
    """

    children: Mapping[str, MergeRule] = _NOTHING
    item: MergeRule | None = None
    merges_list: bool = False
    merge_key: str = ""
    replaces: bool = False
    retains_keys: bool = False
    list_keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = _NOTHING
    is_set: bool = False
    is_atomic: bool = False
    is_known: bool = True

    def child(self, name: str) -> MergeRule:
        """Say how the field `name` of this one is merged."""
        return self.children.get(name) or self.item or NO_RULE


NO_RULE: Final = MergeRule(is_known=False)
"""For fields of which nothing special is known: maps merge, lists are replaced."""


@cache
def merge_rules_of(api_version: str, kind: str) -> MergeRule | None:
    """Say how objects of a built-in kind are merged; None for kinds that are not built in."""
    if (api_version, kind) not in _BUILTIN:
        return None
    name = "RegardingEvent" if (api_version, kind) == ("events.k8s.io/v1", "Event") else kind
    inside = dict(_rules_of_type(name).children)
    inside["metadata"] = _rules_of_type("ObjectMeta")
    return MergeRule(inside)


def merge_rules_of_custom(schema: Mapping[str, Any] | None) -> MergeRule:
    """Say how a custom resource is merged, from the schema of its definition."""
    inside = dict(_rules_of_schema(schema or {}).children)
    inside["metadata"] = _rules_of_type("ObjectMeta")
    return MergeRule(inside)


def pod_spec_rules() -> MergeRule:
    """Say how two pod specs are merged."""
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
    children: dict[str, MergeRule] = {}
    for line in _LINES.get(name, ()):
        field_name, child, *marks = line
        children[field_name] = _rule_of_line(child, marks)
    return MergeRule(MappingProxyType(children))


def _rule_of_line(child: str, marks: list[str]) -> MergeRule:
    inside = NO_RULE if child == "-" else _rules_of_type(child)
    said = dict(mark.partition("=")[::2] for mark in marks)
    merge_key = said.get("merge", "")
    is_atomic = "atomic" in said
    keys = tuple(said["keys"].split(",")) if "keys" in said else (merge_key,) if merge_key else ()
    is_list = "merge" in said or "set" in said or "keys" in said
    return MergeRule(
        children={} if is_list else inside.children,
        item=inside if is_list else None,
        merges_list="merge" in said,
        merge_key=merge_key,
        replaces="replace" in said,
        retains_keys="retain" in said,
        list_keys=() if is_atomic else keys,
        key_defaults=_KEY_DEFAULTS if "protocol" in keys else {},
        is_set="set" in said or ("merge" in said and not merge_key),
        is_atomic=is_atomic,
    )


_KEY_DEFAULTS: Final = MappingProxyType({"protocol": "TCP"})

# Type, field, type of what is inside (`-`: nothing special), marks.
# merge[=KEY]: a strategic patch merges this list, by KEY. retain: it may say
# which keys remain. replace: it replaces the map. keys=A,B: what tells items
# apart in server-side apply, where that is not KEY. set: a list of plain values
# that server-side apply merges. atomic: server-side apply takes it whole.
_TABLE: Final = """
Affinity nodeAffinity NodeAffinity
CSIDriver spec CSIDriverSpec
CSIDriverSpec volumeLifecycleModes - set
CSINode spec CSINodeSpec
CSINodeSpec drivers - merge=name
CSIPersistentVolumeSource controllerExpandSecretRef - atomic
CSIPersistentVolumeSource controllerPublishSecretRef - atomic
CSIPersistentVolumeSource nodeExpandSecretRef - atomic
CSIPersistentVolumeSource nodePublishSecretRef - atomic
CSIPersistentVolumeSource nodeStageSecretRef - atomic
CSIVolumeSource nodePublishSecretRef - atomic
CephFSPersistentVolumeSource secretRef - atomic
CephFSVolumeSource secretRef - atomic
CinderPersistentVolumeSource secretRef - atomic
CinderVolumeSource secretRef - atomic
ClusterRoleBinding roleRef - atomic
Container env EnvVar merge=name
Container ports - merge=containerPort keys=containerPort,protocol
Container resources ResourceRequirements
Container volumeDevices - merge=devicePath
Container volumeMounts - merge=mountPath
ControllerRevision data - atomic
CronJob spec CronJobSpec
CronJobSpec jobTemplate JobTemplateSpec
DaemonSet spec DaemonSetSpec
DaemonSet status DaemonSetStatus
DaemonSetSpec selector - atomic
DaemonSetSpec template PodTemplateSpec
DaemonSetStatus conditions - merge=type
Deployment spec DeploymentSpec
Deployment status DeploymentStatus
DeploymentSpec selector - atomic
DeploymentSpec strategy - retain
DeploymentSpec template PodTemplateSpec
DeploymentStatus conditions - merge=type
EnvVar valueFrom EnvVarSource
EnvVarSource configMapKeyRef - atomic
EnvVarSource fieldRef - atomic
EnvVarSource fileKeyRef - atomic
EnvVarSource resourceFieldRef - atomic
EnvVarSource secretKeyRef - atomic
EphemeralContainer env EnvVar merge=name
EphemeralContainer ports - merge=containerPort keys=containerPort,protocol
EphemeralContainer resources ResourceRequirements
EphemeralContainer volumeDevices - merge=devicePath
EphemeralContainer volumeMounts - merge=mountPath
EphemeralVolumeSource volumeClaimTemplate PersistentVolumeClaimTemplate
Event involvedObject - atomic
Event related - atomic
FlexPersistentVolumeSource secretRef - atomic
FlexVolumeSource secretRef - atomic
HorizontalPodAutoscaler status HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerStatus conditions - merge=type
ISCSIPersistentVolumeSource secretRef - atomic
ISCSIVolumeSource secretRef - atomic
Ingress spec IngressSpec
IngressBackend resource - atomic
IngressBackend service IngressServiceBackend
IngressServiceBackend port - atomic
IngressSpec defaultBackend IngressBackend
Job spec JobSpec
Job status JobStatus
JobSpec selector - atomic
JobSpec template PodTemplateSpec
JobStatus conditions - merge=type atomic
JobStatus uncountedTerminatedPods UncountedTerminatedPods
JobTemplateSpec spec JobSpec
MutatingWebhook matchConditions - merge=name
MutatingWebhook namespaceSelector - atomic
MutatingWebhook objectSelector - atomic
MutatingWebhookConfiguration webhooks MutatingWebhook merge=name
Namespace status NamespaceStatus
NamespaceStatus conditions - merge=type
NetworkPolicy spec NetworkPolicySpec
NetworkPolicySpec podSelector - atomic
Node spec NodeSpec
Node status NodeStatus
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution - atomic
NodeSpec podCIDRs - merge
NodeStatus addresses - merge=type
NodeStatus conditions - merge=type
ObjectMeta finalizers - merge
ObjectMeta ownerReferences - merge=uid
PersistentVolume spec PersistentVolumeSpec
PersistentVolumeClaim spec PersistentVolumeClaimSpec
PersistentVolumeClaim status PersistentVolumeClaimStatus
PersistentVolumeClaimSpec dataSource - atomic
PersistentVolumeClaimSpec selector - atomic
PersistentVolumeClaimStatus conditions - merge=type
PersistentVolumeClaimTemplate spec PersistentVolumeClaimSpec
PersistentVolumeSpec cephfs CephFSPersistentVolumeSource
PersistentVolumeSpec cinder CinderPersistentVolumeSource
PersistentVolumeSpec claimRef - atomic
PersistentVolumeSpec csi CSIPersistentVolumeSource
PersistentVolumeSpec flexVolume FlexPersistentVolumeSource
PersistentVolumeSpec iscsi ISCSIPersistentVolumeSource
PersistentVolumeSpec nodeAffinity VolumeNodeAffinity
PersistentVolumeSpec rbd RBDPersistentVolumeSource
PersistentVolumeSpec scaleIO ScaleIOPersistentVolumeSource
PersistentVolumeSpec storageos StorageOSPersistentVolumeSource
Pod spec PodSpec
Pod status PodStatus
PodDisruptionBudget spec PodDisruptionBudgetSpec
PodDisruptionBudget status PodDisruptionBudgetStatus
PodDisruptionBudgetSpec selector - replace atomic
PodDisruptionBudgetStatus conditions - merge=type
PodSpec affinity Affinity
PodSpec containers Container merge=name
PodSpec ephemeralContainers EphemeralContainer merge=name
PodSpec hostAliases - merge=ip
PodSpec imagePullSecrets - merge=name
PodSpec initContainers Container merge=name
PodSpec nodeSelector - atomic
PodSpec resourceClaims - merge=name retain
PodSpec resources ResourceRequirements
PodSpec schedulingGates - merge=name
PodSpec topologySpreadConstraints SpreadRule merge=topologyKey keys=topologyKey,whenUnsatisfiable
PodSpec volumes Volume merge=name retain
PodStatus conditions - merge=type
PodStatus hostIPs - merge=ip atomic
PodStatus podIPs - merge=ip
PodStatus resourceClaimStatuses - merge=name retain
PodTemplate template PodTemplateSpec
PodTemplateSpec spec PodSpec
RBDPersistentVolumeSource secretRef - atomic
RBDVolumeSource secretRef - atomic
RegardingEvent regarding - atomic
RegardingEvent related - atomic
ReplicaSet spec ReplicaSetSpec
ReplicaSet status ReplicaSetStatus
ReplicaSetSpec selector - atomic
ReplicaSetSpec template PodTemplateSpec
ReplicaSetStatus conditions - merge=type
ReplicationController spec ReplicationControllerSpec
ReplicationController status ReplicationControllerStatus
ReplicationControllerSpec selector - atomic
ReplicationControllerSpec template PodTemplateSpec
ReplicationControllerStatus conditions - merge=type
ResourceQuota spec ResourceQuotaSpec
ResourceQuotaSpec scopeSelector - atomic
ResourceRequirements claims - keys=name
RoleBinding roleRef - atomic
ScaleIOPersistentVolumeSource secretRef - atomic
ScaleIOVolumeSource secretRef - atomic
Service spec ServiceSpec
Service status ServiceStatus
ServiceAccount secrets - merge=name
ServiceSpec ports - merge=port keys=port,protocol
ServiceSpec selector - atomic
ServiceStatus conditions - merge=type
StatefulSet spec StatefulSetSpec
StatefulSet status StatefulSetStatus
StatefulSetSpec selector - atomic
StatefulSetSpec template PodTemplateSpec
StatefulSetStatus conditions - merge=type
StorageOSPersistentVolumeSource secretRef - atomic
StorageOSVolumeSource secretRef - atomic
SpreadRule labelSelector - atomic
UncountedTerminatedPods failed - set
UncountedTerminatedPods succeeded - set
ValidatingWebhook matchConditions - merge=name
ValidatingWebhook namespaceSelector - atomic
ValidatingWebhook objectSelector - atomic
ValidatingWebhookConfiguration webhooks ValidatingWebhook merge=name
Volume cephfs CephFSVolumeSource
Volume cinder CinderVolumeSource
Volume csi CSIVolumeSource
Volume ephemeral EphemeralVolumeSource
Volume flexVolume FlexVolumeSource
Volume iscsi ISCSIVolumeSource
Volume rbd RBDVolumeSource
Volume scaleIO ScaleIOVolumeSource
Volume storageos StorageOSVolumeSource
VolumeAttachment spec VolumeAttachmentSpec
VolumeAttachmentSource inlineVolumeSpec PersistentVolumeSpec
VolumeAttachmentSpec source VolumeAttachmentSource
VolumeNodeAffinity required - atomic
"""


def _read_table() -> dict[str, list[list[str]]]:
    lines: dict[str, list[list[str]]] = {}
    for line in _TABLE.strip().splitlines():
        name, *rest = line.split()
        lines.setdefault(name, []).append(rest)
    return lines


_LINES: Final = _read_table()
_BUILTIN: Final = frozenset((row.gvr.api_version, row.kind) for row in BUILTIN_KINDS)
