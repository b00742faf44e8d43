"""Uses of functions on a cluster, counted from paginated lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.actionsets.uses import Tally, runs_of, uses_of, versions_in_composition
from kanister_py.core.errors import Forbidden, NotFound
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, GroupVersionResource
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.revisions.kinds import COMPOSITIONS, FUNCTIONS
from kanister_py.executor.refused_reads import RefusedReads
from kanister_py.ports.cluster import Cluster, KubeObject

_PAGE: Final = 200


def list_all(
    cluster: Cluster, resource: GroupVersionResource, namespaces: Sequence[str]
) -> Iterator[KubeObject]:
    """Yield all objects of a kind, read page by page; an empty namespace means all namespaces."""
    for namespace in namespaces:
        token = ""
        while True:
            page = cluster.list(resource, namespace=namespace, limit=_PAGE, continue_token=token)
            yield from page.items
            token = page.continue_token
            if not token:
                break


def tally_uses(
    cluster: Cluster,
    registry: Registry[FunctionEntry],
    namespaces: Sequence[str],
    refused: RefusedReads,
) -> Tally:
    """Count the versions that Blueprints, ActionSets and Compositions use."""
    tally = Tally()
    for blueprint in list_all(cluster, BLUEPRINTS, namespaces):
        tally.add_blueprint(uses_of(blueprint, registry))
    for actionset in list_all(cluster, ACTION_SETS, namespaces):
        tally.add_actionset(runs_of({**actionset, "status": read_status_data(actionset)}))
    for versions in _composed_with(cluster, registry, refused):
        tally.add_composition(versions)
    return tally


def _composed_with(
    cluster: Cluster, registry: Registry[FunctionEntry], refused: RefusedReads
) -> Iterator[list[tuple[str, str]]]:
    """Yield the versions that Compositions use; none if they may not be read or have no CRD."""
    try:
        listed = refused.read(lambda: list(list_all(cluster, FUNCTIONS, [""])), FUNCTIONS)
        functions = [
            {**function, "kind": "Function", "apiVersion": FUNCTIONS.api_version}
            for function in listed
        ]
        for obj in list_all(cluster, COMPOSITIONS, [""]):
            composition = {**obj, "kind": "Composition"}
            yield list(versions_in_composition(composition, functions, registry))
    except (NotFound, Forbidden):
        return
