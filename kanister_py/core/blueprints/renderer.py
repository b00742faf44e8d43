"""The renderer of a Blueprint's templates."""

from __future__ import annotations

from kanister_py.core.blueprints.language import engine_of
from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.objects.documents import Path
from kanister_py.core.templates.render import Origin, Renderer
from kanister_py.gotemplate import Effects


def renderer_of(blueprint: Blueprint, name: str, effects: Effects) -> Renderer:
    """Make what renders the texts of one action of a Blueprint."""
    choice = engine_of(blueprint)
    origin = _origin_of(blueprint, name)
    return Renderer(choice.engine, effects, is_sure=choice.is_sure, origin=origin)


def _origin_of(blueprint: Blueprint, name: str) -> Origin:
    action, found = blueprint.actions.get(name, Action()), blueprint.found
    phases = tuple(phase.name for phase in action.phases)
    if found is None:
        return Origin(name, phases)

    def place_of(path: Path, line: int) -> str:
        at = found.line_of(("actions", name, *path), line)
        return f"{found.document.file}:{at}" if at else found.document.file

    return Origin(name, phases, place_of)
