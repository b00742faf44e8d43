"""Readers: the version that an ActionSet has to prefer, so that its phases read its artifacts.

A restore outlives its backup: what an old version wrote, a later one that says so reads.
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
    """Give the preferred version with which an action reads artifacts: the given one if it does.

    Raises what is wrong where none does.
    """
    reads = list(reads_of_action(action, engine_of(blueprint).engine))

    def why_not(version: str) -> KanisterError | None:
        for _path, phase in action.every_phase():
            try:
                asked = requested_version(phase.func_version, version)
                choice = choose_version(registry, phase.func, asked)
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
    found = {
        each.version: each.support_at() is Support.DEPRECATED
        for _path, phase in action.every_phase()
        if phase.func in registry
        for each in registry.family(phase.func).candidates
        if each.support_at() in (Support.SERVED, Support.DEPRECATED)
    }
    ordered = sorted(found, reverse=True)
    yield from (str(each) for each in sorted(ordered, key=lambda each: found[each]))
