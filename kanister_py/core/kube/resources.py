"""Resource kinds: addresses of kinds, and the table of built-in kinds."""

from __future__ import annotations

from typing import Final, NamedTuple


class GroupVersionResource(NamedTuple):
    """Address of the objects of a kind: group (empty for core), version, plural."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """Name in error messages, such as `configmaps` or `deployments.apps`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def __str__(self) -> str:
        return f"{self.api_version}/{self.resource}"


class ResourceKind(NamedTuple):
    """One resource that a cluster serves, as discovery describes it."""

    gvr: GroupVersionResource
    kind: str
    is_namespaced: bool = True
    has_status: bool = False
    has_scale: bool = False
    short_names: tuple[str, ...] = ()
    is_builtin: bool = True

    def __eq__(self, other: object) -> bool:
        # `is_builtin` is left out: it only tells the source of the information.
        return isinstance(other, ResourceKind) and self[:-1] == other[:-1]

    def __hash__(self) -> int:
        return hash(self[:-1])

    @property
    def group_kind(self) -> str:
        """Name in error messages, such as `ConfigMap` or `Deployment.apps`."""
        return f"{self.kind}.{self.gvr.group}" if self.gvr.group else self.kind


def group_version_of(api_version: str) -> tuple[str, str]:
    """Split an `apiVersion` into group and version."""
    group, _, version = api_version.rpartition("/")
    return group, version


def guess_plural(kind: str) -> str:
    """Return the most likely plural of an unknown kind."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return f"{lower}es"
    if lower.endswith("y") and not lower.endswith(("ay", "ey", "iy", "oy", "uy")):
        return f"{lower[:-1]}ies"
    return f"{lower}s"


def _rows(table: str, *, is_builtin: bool) -> tuple[ResourceKind, ...]:
    rows: list[ResourceKind] = []
    for line in table.strip().splitlines():
        api_version, plural, kind, marks, *short = line.split()
        rows.append(
            ResourceKind(
                GroupVersionResource(*group_version_of(api_version), plural),
                kind,
                is_namespaced="N" in marks,
                has_status="S" in marks,
                has_scale="X" in marks,
                short_names=tuple(short),
                is_builtin=is_builtin,
            )
        )
    return tuple(rows)


# apiVersion, plural, kind, marks, short names.
# N: namespaced. S: has a status subresource. X: has a scale subresource.
_TABLE: Final = """
v1 bindings Binding N
v1 configmaps ConfigMap N cm
v1 endpoints Endpoints N ep
v1 events Event N ev
v1 limitranges LimitRange N limits
v1 namespaces Namespace S ns
v1 nodes Node S no
v1 persistentvolumeclaims PersistentVolumeClaim NS pvc
v1 persistentvolumes PersistentVolume S pv
v1 pods Pod NS po
v1 podtemplates PodTemplate N
v1 replicationcontrollers ReplicationController NSX rc
v1 resourcequotas ResourceQuota NS quota
v1 secrets Secret N
v1 serviceaccounts ServiceAccount N sa
v1 services Service NS svc
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration -
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration -
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition S crd crds
apiregistration.k8s.io/v1 apiservices APIService S
apps/v1 controllerrevisions ControllerRevision N
apps/v1 daemonsets DaemonSet NS ds
apps/v1 deployments Deployment NSX deploy
apps/v1 replicasets ReplicaSet NSX rs
apps/v1 statefulsets StatefulSet NSX sts
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler NS hpa
batch/v1 cronjobs CronJob NS cj
batch/v1 jobs Job NS
coordination.k8s.io/v1 leases Lease N
discovery.k8s.io/v1 endpointslices EndpointSlice N
events.k8s.io/v1 events Event N ev
networking.k8s.io/v1 ingresses Ingress NS ing
networking.k8s.io/v1 ingressclasses IngressClass -
networking.k8s.io/v1 networkpolicies NetworkPolicy N netpol
policy/v1 poddisruptionbudgets PodDisruptionBudget NS pdb
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N
rbac.authorization.k8s.io/v1 roles Role N
scheduling.k8s.io/v1 priorityclasses PriorityClass - pc
storage.k8s.io/v1 csidrivers CSIDriver -
storage.k8s.io/v1 csinodes CSINode -
storage.k8s.io/v1 storageclasses StorageClass - sc
storage.k8s.io/v1 volumeattachments VolumeAttachment S
"""

# Defined by CRDs on real clusters, so they do not support strategic merge patches here
# either.
_CUSTOM_TABLE: Final = """
cr.kanister.io/v1alpha1 actionsets ActionSet N
cr.kanister.io/v1alpha1 blueprints Blueprint N
cr.kanister.io/v1alpha1 profiles Profile N
snapshot.storage.k8s.io/v1 volumesnapshotclasses VolumeSnapshotClass - vsclass vsclasses
snapshot.storage.k8s.io/v1 volumesnapshotcontents VolumeSnapshotContent S vsc vscs
snapshot.storage.k8s.io/v1 volumesnapshots VolumeSnapshot NS vs
apps.openshift.io/v1 deploymentconfigs DeploymentConfig NSX dc
"""

BUILTIN_KINDS: Final = _rows(_TABLE, is_builtin=True)
WELL_KNOWN_CUSTOM_KINDS: Final = _rows(_CUSTOM_TABLE, is_builtin=False)
"""Kinds that are not built in, but that clusters with Kanister have."""

_gvr: Final = GroupVersionResource
CONFIG_MAPS: Final = _gvr("", "v1", "configmaps")
EVENTS: Final = _gvr("", "v1", "events")
NAMESPACES: Final = _gvr("", "v1", "namespaces")
NODES: Final = _gvr("", "v1", "nodes")
PERSISTENT_VOLUME_CLAIMS: Final = _gvr("", "v1", "persistentvolumeclaims")
PERSISTENT_VOLUMES: Final = _gvr("", "v1", "persistentvolumes")
PODS: Final = _gvr("", "v1", "pods")
REPLICATION_CONTROLLERS: Final = _gvr("", "v1", "replicationcontrollers")
SECRETS: Final = _gvr("", "v1", "secrets")
SERVICE_ACCOUNTS: Final = _gvr("", "v1", "serviceaccounts")
SERVICES: Final = _gvr("", "v1", "services")
DEPLOYMENTS: Final = _gvr("apps", "v1", "deployments")
REPLICA_SETS: Final = _gvr("apps", "v1", "replicasets")
STATEFUL_SETS: Final = _gvr("apps", "v1", "statefulsets")
DEPLOYMENT_CONFIGS: Final = _gvr("apps.openshift.io", "v1", "deploymentconfigs")
LEASES: Final = _gvr("coordination.k8s.io", "v1", "leases")
CUSTOM_RESOURCE_DEFINITIONS: Final = _gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions")
VOLUME_SNAPSHOTS: Final = _gvr("snapshot.storage.k8s.io", "v1", "volumesnapshots")
VOLUME_SNAPSHOT_CONTENTS: Final = _gvr("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents")
VOLUME_SNAPSHOT_CLASSES: Final = _gvr("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses")
ACTION_SETS: Final = _gvr("cr.kanister.io", "v1alpha1", "actionsets")
BLUEPRINTS: Final = _gvr("cr.kanister.io", "v1alpha1", "blueprints")
PROFILES: Final = _gvr("cr.kanister.io", "v1alpha1", "profiles")
