"""Partitions: which of several controllers an object belongs to.

An object belongs to the partition that its label names; without the label it belongs to the
controller that runs without a partition. A run stays with the partition it began in.
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
    """Return the partition that the label of an object names; empty without the label."""
    return str(labels_of(obj).get(PARTITION_LABEL) or "")


def partition_label_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the label to put on an object that is made for this one; empty without one."""
    partition = labelled_partition(obj)
    return {PARTITION_LABEL: partition} if partition else {}


def partition_of(actionset: Mapping[str, Any]) -> str:
    """Return the partition of an ActionSet: once it has begun, the one that began it."""
    status = actionset.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if state in (None, "", "pending"):
        return labelled_partition(actionset)
    return str((read_status_data(actionset) or {}).get("partition") or "")


class Scope(NamedTuple):
    """Objects that a controller acts on. Without `namespaces` it watches all of them."""

    partition: str = ""
    namespaces: tuple[str, ...] = ()
    kinds: Collection[str] = (ACTION_SETS,)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that tell other controllers about this scope."""
        found = {
            ACTS_ON: ",".join(self.kinds),
            NAMESPACES: ",".join(self.namespaces) or _ALL,
        }
        return {**found, PARTITION_LABEL: self.partition} if self.partition else found

    def overlap_with(self, other: Scope) -> str:
        """Describe the objects that both act on; empty if there are none."""
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
    """Read the scope of the holder of a Lease; None for a Lease of another program."""
    found = annotations_of(lease)
    if ACTS_ON not in found or NAMESPACES not in found:
        return None
    namespaces = found[NAMESPACES]
    return Scope(
        found.get(PARTITION_LABEL, ""),
        () if namespaces == _ALL else tuple(namespaces.split(",")),
        found[ACTS_ON].split(","),
    )
