"""What may a step hand in to function-go-templating?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kanister_py.functions.composition.described import Environment, FileSystem, Inline, Part


class Delims(Part):
    """Other delimiters than {{ and }}; both or none."""

    left: str | None = Field(default=None, description="What opens an action")
    right: str | None = Field(default=None, description="What closes an action")


class GoTemplate(Part):
    """Where the template comes from, and how it is read."""

    api_version: str = Field(
        default="gotemplating.fn.crossplane.io/v1beta1", description="Not looked at"
    )
    kind: str = Field(default="GoTemplate", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    source: Literal["Inline", "FileSystem", "Environment"] = Field(
        description="Where the template is"
    )
    inline: Inline | None = Field(default=None, description="With the source Inline")
    file_system: FileSystem | None = Field(default=None, description="With the source FileSystem")
    environment: Environment | None = Field(default=None, description="With the source Environment")
    delims: Delims | None = Field(default=None, description="Other delimiters")
    options: list[str] | None = Field(
        default=None,
        description="Options of Go's templates: missingkey=error, zero, default or invalid",
    )
    ttl: str | None = Field(
        default=None, description="How long the answer holds, such as 5m; one minute if unset"
    )
