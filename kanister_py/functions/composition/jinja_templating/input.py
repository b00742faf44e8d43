"""What may a step hand in to function-jinja-templating?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kanister_py.functions.composition.described import Environment, FileSystem, Inline, Part


class JinjaTemplate(Part):
    """Where the template comes from, and how it is read."""

    api_version: str = Field(
        default="jinjatemplating.fn.kanister-py.io/v1alpha1", description="Not looked at"
    )
    kind: str = Field(default="JinjaTemplate", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    source: Literal["Inline", "FileSystem", "Environment"] = Field(
        description="Where the template is"
    )
    inline: Inline | None = Field(default=None, description="With the source Inline")
    file_system: FileSystem | None = Field(default=None, description="With the source FileSystem")
    environment: Environment | None = Field(default=None, description="With the source Environment")
    ttl: str | None = Field(
        default=None, description="How long the answer holds, such as 5m; one minute if unset"
    )
