"""What may a step hand in to function-go-templating?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class Inline(_Part):
    """A template in the input itself."""

    template: str | None = Field(default=None, description="The template")
    templates: list[str] | None = Field(
        default=None, description="Several, which become one; `template` comes before them"
    )


class FileSystem(_Part):
    """A template in files."""

    dir_path: str = Field(
        description="Folder below KANISTER_PY_TEMPLATE_ROOT whose files, in the order of their "
        "names, become the template"
    )


class Environment(_Part):
    """A template in the environment of the composition."""

    key: str = Field(description="Key of the environment that holds the template")


class Delims(_Part):
    """Other delimiters than {{ and }}; both or none."""

    left: str | None = Field(default=None, description="What opens an action")
    right: str | None = Field(default=None, description="What closes an action")


class GoTemplate(_Part):
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
