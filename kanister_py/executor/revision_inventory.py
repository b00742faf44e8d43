"""Inventory of revisions: those in a cluster, and the users of each."""

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
from kanister_py.executor.find_uses import every
from kanister_py.ports.cluster import Cluster, KubeObject

COMPOSITION: Final = "CompositionRevision"
FUNCTION: Final = "FunctionRevision"


class ListedRevision(NamedTuple):
    """One revision in a cluster. `uses` holds its users by their way of using it."""

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
        """Whether a revision of a function serves, or one of a composition is in force."""
        if self.function is None:
            return "newest" if self.is_newest else "older"
        if self.function.is_routable:
            return "routable"
        return str(self.function.desired_state).lower()

    def as_data(self) -> dict[str, Any]:
        """Give the revision as JSON and YAML outputs show it."""
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
    """All revisions of a cluster, by kind, owner and number, the newest first."""

    revisions: tuple[ListedRevision, ...]
    functions: Mapping[str, KubeObject]

    def find(self, name: str) -> ListedRevision:
        """Give the revision of a name, of whichever kind."""
        found = [each for each in self.revisions if each.name == name]
        if not found:
            there = ", ".join(sorted(each.name for each in self.revisions)[:10])
            raise UsageError(
                f"There is no revision {name}; there is {there or 'no revision at all'}",
                reason="RevisionNotFound",
            )
        return found[0]


def read_inventory(
    cluster: Cluster, entries: Registry[FunctionEntry], *, composed: bool = True
) -> Inventory:
    """Read every revision, the support of its version, and all users of one.

    Without `composed` those of functions alone: compositions name their users, and no
    composite resource has to be read.
    """
    revised = _all(cluster, COMPOSITION_REVISIONS)
    called = _all(cluster, FUNCTION_REVISIONS)
    holders = _holders(cluster) if composed else []
    compositions = _all(cluster, COMPOSITIONS)
    pipelines = [pipeline_of(each) for each in (*compositions, *revised)]
    facts = [_facts(each) for each in revised] if composed else []
    found: list[ListedRevision] = []
    for owner in sorted({each.composition for each in facts}):
        users = users_of_composition(owner, facts, holders)
        found += _known(COMPOSITION, owner, revised, users, COMPOSITION_NAME_LABEL)
    revisions = {each.name: each for each in _judged(called, entries)}
    for owner in sorted({each.function for each in revisions.values()}):
        of_this = [each for each in revisions.values() if each.function == owner]
        users = users_of_function(owner, of_this, pipelines)
        objects = [each for each in called if revisions[each["metadata"]["name"]].function == owner]
        found += _known(FUNCTION, owner, objects, users, "", revisions)
    functions = {each["metadata"]["name"]: each for each in _all(cluster, FUNCTIONS)}
    return Inventory(tuple(found), functions)


def _judged(
    called: Sequence[KubeObject], entries: Registry[FunctionEntry]
) -> Iterator[FunctionRevision]:
    """Give revisions of functions with the versions they run and the support of these."""
    by_function: dict[str, list[FunctionRevision]] = defaultdict(list)
    for obj in called:
        revision = revision_of(obj)
        if is_marked_in_process(obj) or scheme_of(revision.endpoint) == BUILTIN:
            here = run_by_package(revision, entries, obj)
            # How it fares is for the controller to say, which may be of another release.
            revision = here._replace(
                endpoint=revision.endpoint, is_healthy=revision.is_healthy, trouble=revision.trouble
            )
        by_function[revision.function].append(revision)
    for revisions in by_function.values():
        yield from with_lifecycles(revisions)


def _known(
    kind: str,
    owner: str,
    objects: Sequence[KubeObject],
    users: Users,
    label: str,
    functions: Mapping[str, FunctionRevision] | None = None,
) -> Iterator[ListedRevision]:
    of_this = [each for each in objects if not label or labels_of(each).get(label, "") == owner]
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
    """Read the holders of revisions: all resources of all kinds that definitions make."""
    holders: list[Holder] = []
    for obj in _all(cluster, DEFINITIONS):
        definition, _problems = read_definition(obj)
        spec = definition.spec
        kind = spec.names.kind
        api_version = f"{spec.group}/{definition.target_version}"
        try:
            resource = cluster.resource_for(api_version, kind).gvr
        except NoMatch:
            # Not served: there can be none.
            continue
        for xr in _all(cluster, resource):
            metadata = xr["metadata"]
            place = metadata.get("namespace")
            name = f"{place}/{metadata['name']}" if place else metadata["name"]
            selection = selection_of(machinery_of(xr, legacy=definition.is_legacy))
            holders.append(Holder(f"{kind}/{name}", selection, spec.rules))
    return holders


def _all(cluster: Cluster, resource: GroupVersionResource) -> list[KubeObject]:
    """Read all objects of a kind; one that is not installed has none."""
    try:
        return list(every(cluster, resource, [""]))
    except NotFound:
        return []
