"""Choice of function versions that can read the artifacts of an ActionSet.

A restore may be newer than its backup: a later version may declare that it reads the
artifacts of an old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.choose import choose_version, requested_version
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.versions.deprecation import Support
from kanister_py.executor.preflight import unread_artifacts


def choose_reader(
    registry: Registry[FunctionEntry],
    blueprint: Blueprint,
    action: Action,
    artifacts: Mapping[str, Mapping[str, Any]],
    preferred: str = "",
) -> str:
    """Return a `preferredVersion` with which all phases of an action can read the artifacts.

    This is `preferred` if possible. If no version can read them, the error for `preferred` is
    raised.
    """
    reads = list(reads_of_action(action, engine_of(blueprint).engine))

    def why_not(version: str) -> KanisterError | None:
        for _path, phase in action.every_phase():
            try:
                requested = requested_version(phase.func_version, version)
                choice = choose_version(registry, phase.func, requested)
            except KanisterError as error:
                return error
            unread = next(unread_artifacts(choice, artifacts, reads), None)
            if unread is not None:
                return unread
        return None

    wrong = why_not(preferred)
    if wrong is None:
        return preferred
    for version in _candidates(registry, action):
        if why_not(version) is None:
            return version
    raise wrong


def _candidates(registry: Registry[FunctionEntry], action: Action) -> Iterator[str]:
    yield ""
    is_deprecated = {
        candidate.version: candidate.support_at() is Support.DEPRECATED
        for _path, phase in action.every_phase()
        if phase.func in registry
        for candidate in registry.family(phase.func).candidates
        if candidate.support_at() in (Support.SERVED, Support.DEPRECATED)
    }
    ordered = sorted(is_deprecated, reverse=True)
    # Supported versions first, each group from the newest to the oldest.
    yield from map(str, sorted(ordered, key=is_deprecated.__getitem__))
