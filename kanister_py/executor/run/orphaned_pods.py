"""Pods that attempts of phases left behind. They are found by the run keys in their labels."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.status import Place, Status
from kanister_py.core.errors import Conflict, Forbidden, KanisterError, NotFound
from kanister_py.core.kube.names import run_key
from kanister_py.core.kube.parts import labels_of, status_of
from kanister_py.core.kube.resources import PODS
from kanister_py.executor.phase_context import ATTEMPT_LABEL, RUN_LABEL
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.executor.run.header import Header, replay_outcomes
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)
_MOST_KEYS_IN_SELECTOR: Final = 40


def run_keys(uid: str, status: Status) -> Iterator[str]:
    """Yield the key of every attempt that a run has started."""
    for at, action in enumerate(status.actions):
        phases = [(Place(at, index), phase) for index, phase in enumerate(action.phases)]
        if action.deferred is not None:
            phases.append((Place(at, -1), action.deferred))
        for place, phase in phases:
            for attempt in range(1, phase.attempt + 1):
                yield run_key(uid, at, place.phase_index, attempt)


def delete_pods_of_attempts(
    cluster: Cluster,
    keys: Sequence[str],
    namespaces: Sequence[str],
    owner: str,
    refused: RefusedReads,
    *,
    is_confined: bool = False,
) -> None:
    """Delete all pods with one of these run keys.

    All namespaces are searched, or only `namespaces` if the run is confined or listing all pods is
    forbidden. A pod that cannot be deleted is logged with the name of its `owner`.
    """
    for at in range(0, len(keys), _MOST_KEYS_IN_SELECTOR):
        some = ",".join(keys[at : at + _MOST_KEYS_IN_SELECTOR])
        for label in (RUN_LABEL, ATTEMPT_LABEL):
            selector = f"createdBy=kanister,{label} in ({some})"
            pods = _pods_matching(cluster, selector, namespaces, refused, is_confined=is_confined)
            for pod in pods:
                _delete_pod(cluster, pod, owner)


def _pods_matching(
    cluster: Cluster,
    selector: str,
    namespaces: Iterable[str],
    refused: RefusedReads,
    *,
    is_confined: bool,
) -> Iterator[KubeObject]:
    if not is_confined:
        try:
            yield from refused.read(lambda: cluster.list(PODS, label_selector=selector).items, PODS)
            return
        except Forbidden:
            pass
        except NotFound:
            return
    for namespace in namespaces:
        try:
            yield from cluster.list(PODS, namespace=namespace, label_selector=selector).items
        except KanisterError as error:
            _LOG.warning("Cannot list pods in %s: %s", namespace, error.message)


def _delete_pod(cluster: Cluster, pod: KubeObject, owner: str) -> None:
    metadata = pod["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if metadata.get("deletionTimestamp"):
        return
    try:
        cluster.delete(PODS, name, namespace=namespace, uid=metadata["uid"], grace_period_seconds=0)
    except (NotFound, Conflict):
        return
    except KanisterError as error:
        _LOG.warning(
            "Pod %s/%s of ActionSet %s was not deleted, delete it manually: %s",
            namespace,
            name,
            owner,
            error.message,
        )


_Recorded = tuple[str, Mapping[str, Any], tuple[Outcome, ...]]


def delete_pods_of_ended(
    cluster: Cluster, runs: Iterable[str], read: Callable[[str], _Recorded]
) -> None:
    """Delete active pods of ended runs from an embedded cluster that is stored in a folder.

    A process that was killed may have left such pods, and the cluster would start them again. Runs
    are only read if there are active pods of runs. Runs that cannot be read are ignored.
    """
    pods = [
        pod
        for pod in cluster.list(PODS).items
        if RUN_LABEL in labels_of(pod) and status_of(pod).get("phase") not in _ENDED
    ]
    if not pods:
        return
    keys: set[str] = set()
    for name in runs:
        with suppress(KanisterError):
            _, header, outcomes = read(name)
            stated = Header.of(header)
            status = replay_outcomes(stated, outcomes)[1]
            if status.is_final:
                keys.update(run_keys(str(stated.actionset["metadata"]["uid"]), status))
    for pod in pods:
        labels, metadata = labels_of(pod), pod["metadata"]
        if labels.get(RUN_LABEL) in keys or labels.get(ATTEMPT_LABEL) in keys:
            cluster.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], grace_period_seconds=0
            )


_ENDED: Final = frozenset({"Succeeded", "Failed"})
