"""Functions of blueprints: choice of versions and loading of their code."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from kanister_py.core.registry.choose import (
    Choice,
    RequestedVersion,
    choose_version,
    requested_version,
)
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.semver import Version
from kanister_py.ports.function import Func

_MOST_CHOICES: Final = 1024


class FunctionSource:
    """Registry of the functions of blueprints, with a loader of their code.

    Successful choices and loaded code are cached for the life of the process.
    """

    def __init__(
        self,
        registry: Registry[FunctionEntry],
        load: Callable[[FunctionEntry], type[Func]],
        is_strict: bool = False,
    ) -> None:
        self.registry: Final = registry
        self.choose: Final = lru_cache(_MOST_CHOICES)(self._choose)
        self.choose_again: Final = lru_cache(_MOST_CHOICES)(self._choose_again)
        self._load = load
        self._is_strict = is_strict
        self._loaded: dict[tuple[str, Version], type[Func]] = {}

    def _choose(self, function: str, func_version: str, preferred: str) -> Choice[FunctionEntry]:
        """Choose a version of a function. Raises a KanisterError if there is none."""
        return choose_version(
            self.registry,
            function,
            requested_version(func_version, preferred),
            strict=self._is_strict,
            kind=FunctionKind.BLUEPRINT,
        )

    def _choose_again(self, function: str, version: str) -> Choice[FunctionEntry]:
        """Return the version that a run chose earlier. Raises a KanisterError if it is gone."""
        return choose_version(
            self.registry, function, RequestedVersion(version, "this run"), strict=True
        )

    def load(self, entry: FunctionEntry) -> type[Func]:
        """Return the code of a version."""
        key = (entry.function, entry.version)
        code = self._loaded.get(key)
        if code is None:
            code = self._loaded[key] = self._load(entry)
        return code
