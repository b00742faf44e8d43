"""What do the inputs of several functions have in common, as people are told of them?"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """A map whose members are known by the names they have in JSON; others are refused."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class LabelMatcher(Part):
    """One label to look for."""

    type: Literal["FromCompositeFieldPath", "Value"] = Field(
        default="FromCompositeFieldPath", description="Where the value comes from"
    )
    key: str = Field(description="Key of the label")
    value_from_field_path: str | None = Field(
        default=None, description="Field path of the observed composite resource"
    )
    from_field_path_policy: Literal["Required", "Optional"] = Field(
        default="Required", description="Whether a label may be left out where nothing is"
    )
    value: str | None = Field(default=None, description="The value itself")


class Reference(Part):
    """One object by its name."""

    name: str = Field(description="Name of the object")


class Policy(Part):
    """What becomes of references that lead nowhere."""

    resolution: Literal["Required", "Optional"] = Field(
        default="Required", description="Whether a reference that leads nowhere is fatal"
    )


class Inline(Part):
    """A template in the input itself."""

    template: str | None = Field(default=None, description="The template")
    templates: list[str] | None = Field(
        default=None, description="Several, which become one; `template` comes before them"
    )


class FileSystem(Part):
    """A template in files."""

    dir_path: str = Field(
        description="Folder below KANISTER_PY_TEMPLATE_ROOT whose files, in the order of their "
        "names, become the template"
    )


class Environment(Part):
    """A template in the environment of the composition."""

    key: str = Field(description="Key of the environment that holds the template")
