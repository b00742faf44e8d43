"""The language of a Blueprint's templates."""

from __future__ import annotations

from kanister_py.core.blueprints.model import Blueprint
from kanister_py.core.blueprints.texts import templates_of
from kanister_py.core.templates.engines import EngineChoice, choose_engine


def engine_of(blueprint: Blueprint) -> EngineChoice:
    """Say in which language a Blueprint's templates are written."""
    return choose_engine(blueprint.metadata.annotations, templates_of(blueprint))
