"""Arguments and outputs as authors of functions declare them: models of pydantic."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

# A model is built when it is first used: most of those that are imported never are.
_CONFIG: Final = ConfigDict(
    frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True
)


class Args(BaseModel):
    """What a function takes, one field for each argument.

    A field without a default is required; `Field(description=…)` documents it.
    `image_pull_policy` here is `imagePullPolicy` in a blueprint.
    """

    needs_repository: ClassVar = False
    """Whether the Profile must name a store in which restic can have a repository."""

    model_config = _CONFIG


class Outputs(BaseModel):
    """What a function gives to later phases, one field for each key."""

    model_config = _CONFIG


class AnyOutputs(Outputs):
    """Outputs under keys that only the blueprint knows, such as those a command prints."""

    model_config = ConfigDict(extra="allow")
