"""Arguments and outputs of blueprint functions: the models that authors derive theirs from."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from kanister_py.core.models import Model


class Args(Model):
    """What a function takes, one field for each argument.

    A field without a default is required; `Field(description=…)` documents it.
    `image_pull_policy` here is `imagePullPolicy` in a blueprint.
    """

    needs_repository: ClassVar = False
    """Whether the Profile must name a store in which restic can have a repository."""

    model_config = ConfigDict(extra="forbid")


class Outputs(Model):
    """What a function gives to later phases, one field for each key."""

    model_config = ConfigDict(extra="forbid")


class AnyOutputs(Outputs):
    """Outputs under keys that only the blueprint knows, such as those a command prints."""

    model_config = ConfigDict(extra="allow")
