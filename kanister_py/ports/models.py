"""Base models for arguments and outputs of blueprint functions."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from kanister_py.core.models import Model


class Args(Model):
    """Arguments of a function, one field per argument.

    A field without a default is required; `Field(description=…)` documents it. `image_pull_policy`
    here is `imagePullPolicy` in a blueprint.
    """

    needs_repository: ClassVar = False
    """Whether the Profile must name a store that supports restic repositories."""

    model_config = ConfigDict(extra="forbid")


class Outputs(Model):
    """Outputs of a function for later phases, one field per key."""

    model_config = ConfigDict(extra="forbid")


class AnyOutputs(Outputs):
    """Outputs with arbitrary keys, such as the output of a command."""

    model_config = ConfigDict(extra="allow")
