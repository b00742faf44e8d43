"""PrepareData v0.1.0: as v0.0.0, but a command that fails fails the phase."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from kanister_py.functions.blueprint.prepare_data.v0_0_0 import PrepareData, PrepareDataArgs


class PrepareDataArgsV010(PrepareDataArgs):
    """What PrepareData takes from v0.1.0 on."""

    fail_on_error: bool = Field(
        default=True, description="Whether the phase fails when the command does."
    )


class PrepareDataV010(PrepareData):
    """Runs a command in a new pod that has volumes mounted.

    As v0.0.0, but the phase fails when its command fails, unless `failOnError` is false.
    """

    version: ClassVar = "v0.1.0"
    Args = PrepareDataArgsV010
