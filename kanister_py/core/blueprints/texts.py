"""Texts of a Blueprint that may be templates, and what renders them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.yaml.documents import Path

DEFER = -1
"""Stands for the deferPhase where phases are counted."""


class Text(NamedTuple):
    """A text that is rendered, and where: its path in the action, its phase, and its role.

    `phase` counts from zero, is DEFER for the deferPhase, and None for what is
    rendered at the end of the action. `role` is args, if, objects, artifacts or
    condition: that one is a Go template over the object whose reference stands beside
    it, whatever the Blueprint's other templates are.
    """

    text: str
    path: Path
    phase: int | None
    role: str


def texts_of(action: Action) -> Iterator[Text]:
    """Go through every text of an action that is rendered, in the order of the file."""
    for path, phase in action.every_phase():
        index = path[-1] if isinstance(path[-1], int) else DEFER
        yield from _texts_of_phase(phase, path, index)
    for name, artifact in action.output_artifacts.items():
        here: Path = ("outputArtifacts", name)
        for key, value in artifact.key_value.items():
            yield Text(value, (*here, "keyValue", key), None, "artifacts")
        if artifact.kopia_snapshot:
            yield Text(artifact.kopia_snapshot, (*here, "kopiaSnapshot"), None, "artifacts")


def _texts_of_phase(phase: Phase, path: Path, index: int) -> Iterator[Text]:
    if phase.if_:
        yield Text(phase.if_, (*path, "if"), index, "if")
    for name, reference in phase.objects.items():
        for key, value in reference.as_dict().items():
            if value:
                yield Text(value, (*path, "objects", name, key), index, "objects")
    yield from _texts_in(phase.args, (*path, "args"), index)


def _texts_in(value: Any, path: Path, index: int) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(value, path, index, "args")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield Text(key, (*path, key), index, "args")
            if is_condition(value, key) and isinstance(each, str):
                yield Text(each, (*path, key), index, "condition")
            else:
                yield from _texts_in(each, (*path, key), index)
    elif isinstance(value, list | tuple):
        for at, each in enumerate(value):
            yield from _texts_in(each, (*path, at), index)


def is_condition(beside: Mapping[str, Any], key: str) -> bool:
    """Say whether what stands under a key is a template over the object referred to beside it."""
    return key == "condition" and "objectReference" in beside


def has_templates(blueprint: Blueprint) -> bool:
    """Say whether any text may be a template, conditions included."""
    return any(
        "{" in each.text for action in blueprint.actions.values() for each in texts_of(action)
    )


def templates_of(blueprint: Blueprint) -> Iterator[str]:
    """Give every text of a Blueprint that may be a template in its language."""
    for action in blueprint.actions.values():
        for each in texts_of(action):
            if "{" in each.text and each.role != "condition":
                yield each.text
