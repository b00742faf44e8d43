"""Tasks of the controller of compositions: which object is looked at, and as what."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kanister_py.controller.machine.watch_cache import ObjectKey
from kanister_py.core.objects.resources import GroupVersionResource


class Role(StrEnum):
    """As what an object is looked at."""

    DEFINITION = "CompositeResourceDefinition"
    COMPOSITION = "Composition"
    COMPOSITION_REVISION = "CompositionRevision"
    FUNCTION = "Function"
    REVISION = "FunctionRevision"
    COMPOSITE = "CompositeResource"
    CLAIM = "Claim"


class Task(NamedTuple):
    """One object that must be looked at."""

    role: Role
    resource: GroupVersionResource
    key: ObjectKey

    def __str__(self) -> str:
        return str(self.key)
