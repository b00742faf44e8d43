"""Texts of a Blueprint that may be templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint, Phase
from kanister_py.core.yaml.documents import Path

DEFER = -1
"""Index that stands for the deferPhase."""


class Text(NamedTuple):
    """Text that is rendered: its path in the action, its phase and its role.

    `phase` is the index of the phase, DEFER for the deferPhase, and None for texts rendered at the
    end of the action. `role` is args, if, objects, artifacts or condition. A condition is always a
    Go template, rendered with the object that the `objectReference` next to it names.
    """

    text: str
    path: Path
    phase: int | None
    role: str


def texts_of(action: Action) -> Iterator[Text]:
    """Yield every rendered text of an action, in file order."""
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
        for key, child in value.items():
            yield Text(key, (*path, key), index, "args")
            if is_condition(value, key) and isinstance(child, str):
                yield Text(child, (*path, key), index, "condition")
            else:
                yield from _texts_in(child, (*path, key), index)
    elif isinstance(value, list | tuple):
        for index2, child in enumerate(value):
            yield from _texts_in(child, (*path, index2), index)


def is_condition(mapping: Mapping[str, Any], key: str) -> bool:
    """Return whether `key` holds a condition for the object referenced in the same mapping."""
    return key == "condition" and "objectReference" in mapping


def has_templates(blueprint: Blueprint) -> bool:
    """Return whether any text, including conditions, may be a template."""
    return any(
        "{" in text.text for action in blueprint.actions.values() for text in texts_of(action)
    )


def templates_of(blueprint: Blueprint) -> Iterator[str]:
    """Yield every text that may be a template in the Blueprint's engine, so no conditions."""
    for action in blueprint.actions.values():
        for text in texts_of(action):
            if "{" in text.text and text.role != "condition":
                yield text.text
