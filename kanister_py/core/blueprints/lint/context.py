"""What does lint hold blueprints against?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.semver import Version


@dataclass(frozen=True, slots=True)
class Context:
    """The functions there are, the releases that are asked about, and how strict to be.

    `at` names other releases of packages than the installed ones.
    """

    registry: Registry[FunctionEntry]
    at: Mapping[str, Version] = field(default_factory=lambda: MappingProxyType({}))
    is_strict: bool = False

    @property
    def function_names(self) -> list[str]:
        return [
            family.function
            for family in self.registry
            if family.candidates[0].kind is FunctionKind.BLUEPRINT
        ]
