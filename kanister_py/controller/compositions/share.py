"""Share of the composite resources: which a replica composes, and what it keeps of all others.

Composite resources and claims are spread by their UID, all else is one replica's. What is
composed goes with what composes it, as far as an object says so itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

from kanister_py.controller.compositions.children import ADOPTED
from kanister_py.controller.compositions.served_kinds import Served
from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.machine.held_shards import HeldShards
from kanister_py.controller.machine.known_objects import Seen, Slim
from kanister_py.controller.machine.watch_cache import ObjectKey, key_of
from kanister_py.core.compositions.definitions import MACHINERY_KEY, machinery_of
from kanister_py.core.kube.parts import annotations_of, controller_of, labels_of, spec_of
from kanister_py.core.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    GroupVersionResource,
)
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    ENDPOINT_SLICES,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from kanister_py.core.revisions.policy import WISHES
from kanister_py.ports.cluster import KubeObject

_SPREAD: Final = frozenset({Role.COMPOSITE, Role.CLAIM})
MACHINERY: Final = frozenset(
    {
        *(DEFINITIONS, CUSTOM_RESOURCE_DEFINITIONS, COMPOSITIONS, COMPOSITION_REVISIONS),
        *(FUNCTIONS, FUNCTION_REVISIONS, ENDPOINT_SLICES, DEPLOYMENTS),
    }
)
"""What composing stands on: each replica keeps all of it."""

ServedOf = Callable[[GroupVersionResource], Served | None]
IsTracked = Callable[[GroupVersionResource, ObjectKey, Any], bool]


class Share:
    """What of all composite resources, and of what they compose, is this replica's."""

    def __init__(
        self, shards: HeldShards, seen: Seen, served_of: ServedOf, is_tracked: IsTracked
    ) -> None:
        self._shards = shards
        self._seen = seen
        self._served_of = served_of
        self._is_tracked = is_tracked
        self._lock = Lock()
        self._slim_ones: WeakValueDictionary[str, Slim] = WeakValueDictionary()
        """One for all composite resources that hold the same."""

    def owns(self, task: Task) -> bool:
        """Say whether an object is this replica's to look at.

        A composite resource that is not known is everybody's: each forgets what it knew of it.
        """
        if self._shards.count == 1:
            return True
        if task.role not in _SPREAD:
            return self._shards.owns_whole
        found = self._seen.known(task.resource, task.key)
        if found is None:
            return task.role is Role.COMPOSITE
        return self._shards.owns(str(found["metadata"].get("uid") or ""))

    def keep(self, resource: GroupVersionResource, obj: KubeObject) -> KubeObject | None:
        """Say what is kept of an object, of which everything can be asked for at any time.

        Kept whole is what this replica composes, what that is composed of, whatever it
        depends on by name, and what no composite resource is known to have composed.
        """
        if resource in MACHINERY:
            return obj
        served = self._served_of(resource)
        if isinstance(obj, Slim):
            is_needed = "claimRef" in obj["spec"] or self._shards.holds_whole
            return obj if is_needed else None
        composer = annotations_of(obj).get(ADOPTED) or (controller_of(obj) or {}).get("uid")
        uids = [composer] if composer else []
        if served is not None:
            uids.append(obj["metadata"].get("uid"))
        if not uids or any(self._shards.holds(str(each or "")) for each in uids):
            return obj
        if self._is_tracked(resource, key_of(obj), labels_of(obj)):
            return obj
        if served is None or resource != served.resource:
            return None
        is_claimed = bool(spec_of(obj).get("claimRef"))
        return self._slim(obj, served) if is_claimed or self._shards.holds_whole else None

    def _slim(self, obj: KubeObject, served: Served) -> Slim:
        """Keep the reference to the claim, and which revision of a Composition is held."""
        is_legacy = served.kind.is_legacy
        machinery = machinery_of(obj, legacy=is_legacy)
        wishes = {key: machinery[key] for key in WISHES if key in machinery}
        spec: dict[str, Any] = wishes if is_legacy else {MACHINERY_KEY: wishes}
        claim = spec_of(obj).get("claimRef")
        if claim:
            return Slim(metadata={}, spec={**spec, "claimRef": claim})
        text = json.dumps(spec, sort_keys=True)
        with self._lock:
            found = self._slim_ones.get(text)
            if found is None:
                found = self._slim_ones[text] = Slim(metadata={}, spec=spec)
            return found
