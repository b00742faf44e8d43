"""Uses of functions on a cluster, counted page by page."""

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


def every(
    cluster: Cluster, resource: GroupVersionResource, namespaces: Sequence[str]
) -> Iterator[KubeObject]:
    """Read all objects of a kind page by page; an empty namespace means all of them."""
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
    for blueprint in every(cluster, BLUEPRINTS, namespaces):
        tally.add_blueprint(uses_of(blueprint, registry))
    for actionset in every(cluster, ACTION_SETS, namespaces):
        tally.add_actionset(runs_of({**actionset, "status": read_status_data(actionset)}))
    for versions in _composed_with(cluster, registry, refused):
        tally.add_composition(versions)
    return tally


def _composed_with(
    cluster: Cluster, registry: Registry[FunctionEntry], refused: RefusedReads
) -> Iterator[list[tuple[str, str]]]:
    """Give the versions that each Composition, on a cluster that has some, would get."""
    try:
        listed = refused.read(lambda: list(every(cluster, FUNCTIONS, [""])), FUNCTIONS)
        functions = [
            {**each, "kind": "Function", "apiVersion": FUNCTIONS.api_version} for each in listed
        ]
        for each in every(cluster, COMPOSITIONS, [""]):
            whole = {**each, "kind": "Composition"}
            yield list(versions_in_composition(whole, functions, registry))
    except (NotFound, Forbidden):
        return
