"""Share of a replica: which of all that could be looked at is its own."""

from __future__ import annotations

from typing import Final

from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.machine.known_objects import Seen
from kanister_py.controller.machine.shards import Shards

_SPREAD: Final = frozenset({Role.COMPOSITE, Role.CLAIM})


class Share:
    """Composite resources and claims are spread by their UID; all else is one replica's."""

    def __init__(self, shards: Shards, seen: Seen) -> None:
        self._shards = shards
        self._seen = seen

    def owns(self, task: Task) -> bool:
        """Say whether an object is this replica's to look at. One that is gone is everybody's."""
        if self._shards.count == 1:
            return True
        if task.role not in _SPREAD:
            return self._shards.owns_whole
        found = self._seen.known(task.resource, task.key)
        return found is None or self._shards.owns(str(found["metadata"].get("uid") or ""))
