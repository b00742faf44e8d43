"""PrepareData v0.1.0: like v0.0.0, but a failed command fails the phase."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from kanister_py.functions.blueprint.prepare_data.v0_0_0 import PrepareData, PrepareDataArgs


class PrepareDataArgsV010(PrepareDataArgs):
    """Arguments of PrepareData from v0.1.0 on."""

    fail_on_error: bool = Field(
        default=True, description="Whether the phase fails if the command fails."
    )


class PrepareDataV010(PrepareData):
    """Runs a command in a new pod with volumes mounted.

    Like v0.0.0, except that a failed command fails the phase unless `failOnError` is false.
    """

    version: ClassVar = "v0.1.0"
    Args = PrepareDataArgsV010
