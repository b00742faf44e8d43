"""Composite resources of a cluster, read as trees of the resources that they are composed of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.core.compositions.definitions import Definition, machinery_of, read_definition
from kanister_py.core.compositions.naming import RESOURCE_NAME
from kanister_py.core.errors import Forbidden, NoMatch, NotFound, UsageError
from kanister_py.core.kube.parts import (
    annotations_of,
    condition_of,
    maps_in,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, DEFINITIONS

if TYPE_CHECKING:
    from kanister_py.executor.revision_inventory import Inventory
    from kanister_py.ports.cluster import Cluster, KubeObject

# The messages of failed steps and of fatal results name the step in this form.
_STEP_IN_MESSAGE: Final = re.compile(r'[Pp]ipeline step "([^"]*)"')


class Step(NamedTuple):
    """A step of a pipeline with the revision of its function that ran last.

    `runs` names the version of that revision, `status` its support.
    """

    name: str
    function: str
    revision: str = ""
    runs: str = ""
    status: str = ""

    def as_data(self) -> dict[str, Any]:
        keys = ("step", "function", "functionRevision", "runs", "status")
        return {key: text for key, text in zip(keys, self, strict=True) if text}


class Composite(NamedTuple):
    """The part of a node that only composite resources have."""

    composition: str
    revision: str
    steps: Sequence[Step] = ()
    failed_step: str = ""

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "composition": self.composition,
            "compositionRevision": self.revision,
            "pipeline": [step.as_data() for step in self.steps],
        }
        if self.failed_step:
            data["failedStep"] = self.failed_step
        return data


class Node(NamedTuple):
    """A resource of the tree. `step_name` is its name in the pipeline.

    `synced` and `ready` are the statuses of these conditions, empty without such a condition.
    """

    api_version: str
    kind: str
    name: str
    namespace: str
    step_name: str = ""
    synced: str = ""
    ready: str = ""
    message: str = ""
    composite: Composite | None = None
    children: Sequence[Node] = ()

    def all_nodes(self) -> Iterator[Node]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.all_nodes()

    def as_data(self) -> dict[str, Any]:
        keys = ("apiVersion", "kind", "name", "namespace", "resourceName")
        data: dict[str, Any] = {key: text for key, text in zip(keys, self, strict=False) if text}
        state = {"synced": self.synced, "ready": self.ready, "message": self.message}
        data |= {key: text for key, text in state.items() if text}
        if self.composite is not None:
            data |= self.composite.as_data()
            data["resources"] = [child.as_data() for child in self.children]
        return data


class CompositeKinds:
    """The kinds of composite resources that the definitions of a cluster make."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._definitions: dict[tuple[str, str], Definition] = {}
        for obj in cluster.list(DEFINITIONS):
            definition, _problems = read_definition(obj)
            spec = definition.spec
            self._definitions |= {
                (f"{spec.group}/{version.name}", spec.names.kind): definition
                for version in spec.versions
            }

    def definition_of(self, obj: KubeObject) -> Definition | None:
        """Return the definition of a composite resource, None for another object."""
        return self._definitions.get((str(obj.get("apiVersion")), str(obj.get("kind"))))

    def find(self, text: str, namespace: str) -> KubeObject:
        """Return the composite resource that `[KIND/]NAME` names."""
        kind, _, name = text.rpartition("/")
        xrs = list(self._with_name(kind.lower(), name, namespace))
        if len(xrs) == 1:
            return xrs[0]
        if xrs:
            choices = ", ".join(f"{xr['kind'].lower()}/{name}" for xr in xrs)
            raise UsageError(f"Several kinds have a resource {name}; use one of {choices}")
        raise UsageError(
            f"There is no composite resource {text} in namespace {namespace} or in the cluster "
            f"scope; kinds are {self._kind_names() or 'not defined'}",
            reason="CompositeResourceNotFound",
        )

    def _with_name(self, kind: str, name: str, namespace: str) -> Iterator[KubeObject]:
        for definition in self._unique():
            spec = definition.spec
            plural = spec.names.plural
            if kind and kind not in (spec.names.kind.lower(), plural, f"{plural}.{spec.group}"):
                continue
            api_version = f"{spec.group}/{definition.target_version}"
            try:
                resource = self._cluster.resource_for(api_version, spec.names.kind)
                place = namespace if resource.is_namespaced else ""
                yield self._cluster.get(resource.gvr, name, namespace=place)
            except NotFound:
                # Includes NoMatch: a kind that is not served has no resources.
                continue

    def _unique(self) -> list[Definition]:
        return list(
            {id(definition): definition for definition in self._definitions.values()}.values()
        )

    def _kind_names(self) -> str:
        return ", ".join(sorted(definition.spec.names.kind for definition in self._unique()))


def read_tree(
    cluster: Cluster, kinds: CompositeKinds, xr: KubeObject, inventory: Inventory
) -> Node:
    """Read a composite resource with everything that it is composed of."""
    return _Reader(cluster, kinds, inventory).read(xr, set())


class _Reader:
    def __init__(self, cluster: Cluster, kinds: CompositeKinds, inventory: Inventory) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._inventory = inventory

    def read(self, obj: KubeObject, ancestors: set[str]) -> Node:
        """Read an object; `ancestors` are the uids above it, which guard against a cycle."""
        synced, ready = condition_of(obj, "Synced"), condition_of(obj, "Ready")
        node = Node(
            str(obj.get("apiVersion")),
            str(obj.get("kind")),
            name_of(obj),
            namespace_of(obj),
            str(annotations_of(obj).get(RESOURCE_NAME) or ""),
            str(synced.get("status") or ""),
            str((ready or condition_of(obj, "Available")).get("status") or ""),
            _message_of(synced, ready),
        )
        definition = self._kinds.definition_of(obj)
        uid = str(obj["metadata"].get("uid") or "")
        if definition is None or uid in ancestors:
            return node
        machinery = machinery_of(obj, legacy=definition.is_legacy)
        children = [
            self._read_reference(reference, namespace_of(obj), ancestors | {uid})
            for reference in maps_in(machinery, "resourceRefs")
            if reference.get("name")
        ]
        composite = self._composite(machinery, str(synced.get("message") or ""))
        return node._replace(composite=composite, children=children)

    def _read_reference(
        self, reference: Mapping[str, Any], namespace: str, ancestors: set[str]
    ) -> Node:
        api_version, kind = str(reference.get("apiVersion")), str(reference.get("kind"))
        name = str(reference["name"])
        namespace = namespace or str(reference.get("namespace") or "")
        try:
            resource = self._cluster.resource_for(api_version, kind)
            place = namespace if resource.is_namespaced else ""
            return self.read(self._cluster.get(resource.gvr, name, namespace=place), ancestors)
        except NoMatch:
            message = "The cluster does not have this kind"
        except NotFound:
            message = "Does not exist"
        except Forbidden:
            message = "You are not allowed to read it"
        return Node(api_version, kind, name, namespace, message=message)

    def _composite(self, machinery: Mapping[str, Any], message: str) -> Composite:
        def name_in(key: str) -> str:
            reference = machinery.get(key)
            return str(reference.get("name") or "") if isinstance(reference, Mapping) else ""

        revision_name = name_in("compositionRevisionRef")
        steps: list[Step] = []
        if revision_name:
            try:
                revision = self._cluster.get(COMPOSITION_REVISIONS, revision_name)
            except (NotFound, Forbidden):
                pass
            else:
                steps = list(self._steps(revision))
        match = _STEP_IN_MESSAGE.search(message)
        failed = match[1] if match else ""
        return Composite(
            name_in("compositionRef"),
            revision_name,
            steps,
            failed if any(step.name == failed for step in steps) else "",
        )

    def _steps(self, revision: KubeObject) -> Iterator[Step]:
        # The controller records here which revision of a function each step called.
        called = {
            str(record.get("step")): str(record.get("functionRevision") or "")
            for record in maps_in(status_of(revision), "composedWith")
        }
        listed = {entry.name: entry.as_data() for entry in self._inventory.revisions}
        for step in maps_in(spec_of(revision), "pipeline"):
            name = str(step.get("step") or "")
            function = step.get("functionRef")
            function_revision = called.get(name, "")
            data = listed.get(function_revision, {})
            yield Step(
                name,
                str(function.get("name") or "") if isinstance(function, Mapping) else "",
                function_revision,
                str(data.get("runs") or ""),
                str(data.get("status") or ""),
            )


def _message_of(*conditions: Mapping[str, Any]) -> str:
    """Return the message of the first condition that is not true."""
    for condition in conditions:
        if condition.get("status") not in (None, "True"):
            text = str(condition.get("message") or condition.get("reason") or "")
            return " ".join(text.split())
    return ""
