"""Inventory of the revisions in a cluster and their users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.compositions.definitions import machinery_of, read_definition
from kanister_py.core.compositions.endpoints import BUILTIN, scheme_of
from kanister_py.core.compositions.installed import run_by_package
from kanister_py.core.errors import NoMatch, NotFound, UsageError
from kanister_py.core.kube.parts import labels_of, spec_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.registry.entries import FunctionEntry, FunctionRevision, Registry
from kanister_py.core.registry.reference import revision_summary
from kanister_py.core.revisions.collection import (
    Holder,
    Users,
    pipeline_of,
    users_of_composition,
    users_of_function,
)
from kanister_py.core.revisions.functions import is_marked_in_process, revision_of
from kanister_py.core.revisions.identity import COMPOSITION_NAME_LABEL
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from kanister_py.core.revisions.lifecycles import with_lifecycles
from kanister_py.core.revisions.policy import RevisionFacts, selection_of
from kanister_py.executor.count_uses import list_all
from kanister_py.ports.cluster import Cluster, KubeObject

COMPOSITION: Final = "CompositionRevision"
FUNCTION: Final = "FunctionRevision"


class ListedRevision(NamedTuple):
    """One revision in a cluster. `uses` contains its users, grouped by the way of using it."""

    kind: str
    owner: str
    name: str
    number: int
    is_newest: bool
    object: KubeObject
    uses: Mapping[str, Sequence[str]] = {}
    function: FunctionRevision | None = None

    @property
    def state(self) -> str:
        """Routable, active or inactive for functions; newest or older for compositions."""
        if self.function is None:
            return "newest" if self.is_newest else "older"
        if self.function.is_routable:
            return "routable"
        return str(self.function.desired_state).lower()

    def as_data(self) -> dict[str, Any]:
        """Return the revision for JSON and YAML output."""
        metadata = self.object["metadata"]
        data: dict[str, Any] = {
            "kind": self.kind,
            "of": self.owner,
            "name": self.name,
            "revision": self.number,
            "state": self.state,
            "labels": dict(labels_of(self.object)),
            "created": str(metadata.get("creationTimestamp") or ""),
            "usedBy": {way: list(who) for way, who in self.uses.items()},
        }
        if self.function is not None:
            data |= revision_summary(self.function)
            data["image"] = str(spec_of(self.object).get("image") or "")
            data["endpoint"] = self.function.endpoint
            data["healthy"] = self.function.is_healthy
            data["desiredState"] = str(self.function.desired_state)
        return data


class Inventory(NamedTuple):
    """All revisions of a cluster by kind, owner and number, newest first."""

    revisions: tuple[ListedRevision, ...]
    functions: Mapping[str, KubeObject]

    def find(self, name: str) -> ListedRevision:
        """Return the revision with this name, of any kind."""
        matching = [revision for revision in self.revisions if revision.name == name]
        if not matching:
            existing = ", ".join(sorted(revision.name for revision in self.revisions)[:10])
            raise UsageError(
                f"Revision {name} does not exist; existing revisions: {existing or 'none'}",
                reason="RevisionNotFound",
            )
        return matching[0]


def read_inventory(
    cluster: Cluster, entries: Registry[FunctionEntry], *, composed: bool = True
) -> Inventory:
    """Read all revisions, the support levels of their versions, and their users.

    Without `composed`, only revisions of functions are returned. Their users are Compositions, so
    no composite resources have to be read.
    """
    revised = _all(cluster, COMPOSITION_REVISIONS)
    called = _all(cluster, FUNCTION_REVISIONS)
    holders = _holders(cluster) if composed else []
    compositions = _all(cluster, COMPOSITIONS)
    pipelines = [pipeline_of(manifest) for manifest in (*compositions, *revised)]
    facts = [_facts(revision) for revision in revised] if composed else []
    listed: list[ListedRevision] = []
    for owner in sorted({fact.composition for fact in facts}):
        users = users_of_composition(owner, facts, holders)
        listed += _listed(COMPOSITION, owner, revised, users, COMPOSITION_NAME_LABEL)
    revisions = {revision.name: revision for revision in _with_support(called, entries)}
    for owner in sorted({revision.function for revision in revisions.values()}):
        of_this = [revision for revision in revisions.values() if revision.function == owner]
        users = users_of_function(owner, of_this, pipelines)
        objects = [obj for obj in called if revisions[obj["metadata"]["name"]].function == owner]
        listed += _listed(FUNCTION, owner, objects, users, "", revisions)
    functions = {function["metadata"]["name"]: function for function in _all(cluster, FUNCTIONS)}
    return Inventory(tuple(listed), functions)


def _with_support(
    called: Sequence[KubeObject], entries: Registry[FunctionEntry]
) -> Iterator[FunctionRevision]:
    """Yield revisions of functions with their versions and the support of these versions."""
    by_function: dict[str, list[FunctionRevision]] = defaultdict(list)
    for obj in called:
        revision = revision_of(obj)
        if is_marked_in_process(obj) or scheme_of(revision.endpoint) == BUILTIN:
            here = run_by_package(revision, entries, obj)
            # Use the health that the controller has stored, which may be of another release.
            revision = here._replace(
                endpoint=revision.endpoint, is_healthy=revision.is_healthy, trouble=revision.trouble
            )
        by_function[revision.function].append(revision)
    for revisions in by_function.values():
        yield from with_lifecycles(revisions)


def _listed(
    kind: str,
    owner: str,
    objects: Sequence[KubeObject],
    users: Users,
    label: str,
    functions: Mapping[str, FunctionRevision] | None = None,
) -> Iterator[ListedRevision]:
    of_this = [obj for obj in objects if not label or labels_of(obj).get(label, "") == owner]
    ordered = sorted(of_this, key=_rank, reverse=True)
    for place, obj in enumerate(ordered):
        name = obj["metadata"]["name"]
        uses = {way: tuple(sorted(who)) for way, who in sorted(users.get(name, {}).items())}
        function = functions[name] if functions is not None else None
        yield ListedRevision(kind, owner, name, _rank(obj)[0], place == 0, obj, uses, function)


def _rank(obj: KubeObject) -> tuple[int, str]:
    return int(spec_of(obj).get("revision") or 0), obj["metadata"]["name"]


def _facts(obj: KubeObject) -> RevisionFacts:
    labels = labels_of(obj)
    number, name = _rank(obj)
    return RevisionFacts(name, str(labels.get(COMPOSITION_NAME_LABEL) or ""), number, labels)


def _holders(cluster: Cluster) -> list[Holder]:
    """Read all composite resources, with their selections of revisions."""
    holders: list[Holder] = []
    for obj in _all(cluster, DEFINITIONS):
        definition, _problems = read_definition(obj)
        spec = definition.spec
        kind = spec.names.kind
        api_version = f"{spec.group}/{definition.target_version}"
        try:
            resource = cluster.resource_for(api_version, kind).gvr
        except NoMatch:
            # The kind is not served, so there are no resources.
            continue
        for xr in _all(cluster, resource):
            metadata = xr["metadata"]
            place = metadata.get("namespace")
            name = f"{place}/{metadata['name']}" if place else metadata["name"]
            selection = selection_of(machinery_of(xr, legacy=definition.is_legacy))
            holders.append(Holder(f"{kind}/{name}", selection, spec.rules))
    return holders


def _all(cluster: Cluster, resource: GroupVersionResource) -> list[KubeObject]:
    """Read all objects of a kind; none if the kind is not installed."""
    try:
        return list(list_all(cluster, resource, [""]))
    except NotFound:
        return []
