"""Reads from the cluster what templates see."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kanister_py.core.actionsets.model import ActionSpec, artifacts_as_dict, reference_as_dict
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.core.errors import ApiError, NotFound, ObjectNotFetched, TransientError
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.objects.resources import CONFIG_MAPS, PODS, PROFILES, SECRETS
from kanister_py.core.objects.selectors import label_selector_of
from kanister_py.core.templates.facts import (
    ActionFacts,
    ActionNeeds,
    ObjectNeed,
    ResolvedProfile,
    Workload,
    facts_of_object,
    needs_of,
    needs_of_profile,
    owner_of_pods,
    resolve_profile,
    workload_of,
)
from kanister_py.ports.cluster import Cluster, KubeObject


def fetch_facts(
    cluster: Cluster,
    spec: ActionSpec,
    time: datetime,
    workload: Workload | None = None,
    found: KubeObject | None = None,
) -> ActionFacts:
    """Read everything the templates of an action see before its first phase.

    A `workload` and an object that were `found` when the action was launched are
    taken as they are: a later phase must see the pods that were there before the
    first one scaled them away.
    """
    reference = reference_as_dict(spec.object)
    needs = needs_of(reference)
    if found is None:
        found = _fetch_object(cluster, needs.object)
    if workload is None and needs.workload is not None:
        workload = _fetch_workload(cluster, needs, found)
    return ActionFacts(
        time=text_of_moment(time),
        artifacts=artifacts_as_dict(spec.artifacts),
        config_maps={
            name: fetch(cluster, ObjectNeed(CONFIG_MAPS, each.name, each.namespace))
            for name, each in spec.config_maps.items()
        },
        secrets={
            name: fetch(cluster, ObjectNeed(SECRETS, each.name, each.namespace))
            for name, each in spec.secrets.items()
        },
        profile=_fetch_profile(cluster, spec),
        options=spec.options,
        pod_override=spec.pod_override,
        pod_labels=spec.pod_labels,
        pod_annotations=spec.pod_annotations,
        **facts_of_object(reference, found, workload),
    )


def fetch(cluster: Cluster, need: ObjectNeed) -> KubeObject:
    """Read one object that a template wants to see."""
    return cluster.get(need.resource, need.name, namespace=need.namespace)


def _fetch_object(cluster: Cluster, need: ObjectNeed) -> KubeObject:
    try:
        return fetch(cluster, need)
    except TransientError:
        raise
    except ApiError as error:
        resource = need.resource
        raise ObjectNotFetched(
            f"Could not fetch object name: {need.name}, namespace: {need.namespace}, "
            f"group: {resource.group}, version: {resource.version}, "
            f"resource: {resource.resource}: {error.message}"
        ) from error


def _fetch_workload(cluster: Cluster, needs: ActionNeeds, found: KubeObject) -> Workload:
    assert needs.workload is not None
    namespace = needs.object.namespace
    owners = (
        cluster.list(needs.owners, namespace=namespace).items if needs.owners is not None else []
    )
    owner = owner_of_pods(needs.workload, found, owners)
    if owner is None:
        assert needs.owners is not None
        kind = found.get("kind", needs.workload)
        raise NotFound(f"Could not find a {_owner_kind(needs)} for {kind}: not found")
    selector = spec_of(found).get("selector")
    pods = cluster.list(
        PODS, namespace=namespace, label_selector=str(label_selector_of(_full_selector(selector)))
    )
    return workload_of(found, owner, pods)


def _owner_kind(needs: ActionNeeds) -> str:
    resource = needs.owners.resource if needs.owners is not None else ""
    return "ReplicaSet" if resource == "replicasets" else "ReplicationController"


def _full_selector(selector: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Give a selector its full form: DeploymentConfigs know only pairs of keys and values."""
    if not selector:
        return {}
    if "matchLabels" in selector or "matchExpressions" in selector:
        return selector
    return {"matchLabels": selector}


def _fetch_profile(cluster: Cluster, spec: ActionSpec) -> ResolvedProfile | None:
    reference = spec.profile
    if reference is None or not reference.name:
        return None
    profile = fetch(cluster, ObjectNeed(PROFILES, reference.name, reference.namespace))
    secrets = {need: fetch(cluster, need) for need in needs_of_profile(profile)}
    return resolve_profile(profile, secrets)


# What must outlive a restart


def workload_as_dict(workload: Workload | None) -> dict[str, Any]:
    """Write what was seen of a workload at launch, to be remembered in a status."""
    if workload is None:
        return {}
    return {
        "workload": {
            "name": workload.name,
            "namespace": workload.namespace,
            "pods": list(workload.pods),
            "containers": [list(each) for each in workload.containers],
            "persistentVolumeClaims": {
                pod: dict(claims) for pod, claims in workload.persistent_volume_claims.items()
            },
        }
    }


def parse_workload(facts: Mapping[str, Any]) -> Workload | None:
    """Read what `workload_as_dict` wrote."""
    data = facts.get("workload")
    if not data:
        return None
    return Workload(
        name=data["name"],
        namespace=data["namespace"],
        pods=tuple(data["pods"]),
        containers=tuple(tuple(each) for each in data["containers"]),
        persistent_volume_claims=data["persistentVolumeClaims"],
    )
