"""Partitions: assignment of objects to one of several controllers.

An object belongs to the partition that its label names. Objects without the label belong to the
controller without a partition. A run stays in the partition in which it began.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.kube.parts import annotations_of, labels_of

PARTITION_LABEL: Final = "kanister-py.io/partition"

NAMESPACES: Final = "kanister-py.io/namespaces"
ACTS_ON: Final = "kanister-py.io/acts-on"
_ALL: Final = "*"
ACTION_SETS: Final = "actionsets"
COMPOSITIONS: Final = "compositions"


def labelled_partition(obj: Mapping[str, Any]) -> str:
    """Return the partition in the label of an object, or an empty string."""
    return str(labels_of(obj).get(PARTITION_LABEL) or "")


def partition_label_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the partition label for an object created on behalf of this one, if any."""
    partition = labelled_partition(obj)
    return {PARTITION_LABEL: partition} if partition else {}


def partition_of(actionset: Mapping[str, Any]) -> str:
    """Return the partition of an ActionSet: after its start, the partition that started it."""
    status = actionset.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if state in (None, "", "pending"):
        return labelled_partition(actionset)
    return str((read_status_data(actionset) or {}).get("partition") or "")


class Scope(NamedTuple):
    """Objects that a controller manages. Empty `namespaces` mean all namespaces."""

    partition: str = ""
    namespaces: tuple[str, ...] = ()
    kinds: Collection[str] = (ACTION_SETS,)

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations that announce this scope to other controllers."""
        annotations = {
            ACTS_ON: ",".join(self.kinds),
            NAMESPACES: ",".join(self.namespaces) or _ALL,
        }
        if self.partition:
            annotations[PARTITION_LABEL] = self.partition
        return annotations

    def overlap_with(self, other: Scope) -> str:
        """Describe the objects that both scopes contain, or return an empty string."""
        if self.partition != other.partition:
            return ""
        of_partition = f" of partition {self.partition}" if self.partition else ""
        if ACTION_SETS in self.kinds and ACTION_SETS in other.kinds:
            shared = {*self.namespaces} & {*other.namespaces}
            if not self.namespaces or not other.namespaces:
                shared = {*self.namespaces, *other.namespaces}
                where = f"namespace {', '.join(sorted(shared))}" if shared else "all namespaces"
                return f"ActionSets{of_partition} in {where}"
            if shared:
                return f"ActionSets{of_partition} in namespace {', '.join(sorted(shared))}"
        if COMPOSITIONS in self.kinds and COMPOSITIONS in other.kinds:
            return f"composite resources{of_partition}"
        return ""


def scope_of_lease(lease: Mapping[str, Any]) -> Scope | None:
    """Return the scope of the controller that holds a Lease; None if it is another program's."""
    announced = annotations_of(lease)
    if ACTS_ON not in announced or NAMESPACES not in announced:
        return None
    namespaces = announced[NAMESPACES]
    return Scope(
        announced.get(PARTITION_LABEL, ""),
        () if namespaces == _ALL else tuple(namespaces.split(",")),
        announced[ACTS_ON].split(","),
    )
