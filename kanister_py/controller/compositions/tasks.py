"""Tasks in the work queue of the compositions part."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.revisions.policy import XrdRules
from kanister_py.executor.watch_cache import ObjectKey


class Role(StrEnum):
    """Role in which an object is reconciled."""

    DEFINITION = "CompositeResourceDefinition"
    COMPOSITION = "Composition"
    COMPOSITION_REVISION = "CompositionRevision"
    FUNCTION = "Function"
    REVISION = "FunctionRevision"
    COMPOSITE = "CompositeResource"
    CLAIM = "Claim"


class Task(NamedTuple):
    """Object to reconcile."""

    role: Role
    resource: GroupVersionResource
    key: ObjectKey

    def __str__(self) -> str:
        return str(self.key)


class Kind(NamedTuple):
    """A kind of composite resource, as its definition describes it."""

    api_version: str
    kind: str
    is_legacy: bool
    rules: XrdRules
    connection_secret_keys: tuple[str, ...] = ()
    claim_kind: str = ""
    """The kind of its claims; empty if it has none."""
