"""What may a step hand in to function-environment-configs?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class LabelMatcher(_Part):
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


class Reference(_Part):
    """One object by its name."""

    name: str = Field(description="Name of the object")


class Selector(_Part):
    """EnvironmentConfigs by their labels."""

    mode: Literal["Single", "Multiple"] = Field(
        default="Single", description="Exactly one, or as many as there are"
    )
    min_match: int | None = Field(default=None, description="Fewer than these are fatal")
    max_match: int | None = Field(default=None, description="More than these are cut off")
    sort_by_field_path: str = Field(
        default="metadata.name", description="Field path by whose value they are put in order"
    )
    match_labels: list[LabelMatcher] = Field(default=[], description="Labels to look for")


class EnvironmentSource(_Part):
    """Which EnvironmentConfigs, and where their data goes."""

    type: Literal["Reference", "Selector"] = Field(
        default="Reference", description="By name or by labels"
    )
    ref: Reference | None = Field(default=None, description="The one that is meant")
    selector: Selector | None = Field(default=None, description="Those that are meant")
    to_field_path: str | None = Field(
        default=None, description="Field path of the environment where the data goes; its root"
    )


class Policy(_Part):
    """What becomes of references that lead nowhere."""

    resolution: Literal["Required", "Optional"] = Field(
        default="Required", description="Whether a reference that leads nowhere is fatal"
    )


class Spec(_Part):
    """What is merged into the environment, and over what."""

    default_data: dict[str, Any] | None = Field(
        default=None, description="What holds where nothing else says anything"
    )
    environment_configs: list[EnvironmentSource] | None = Field(
        default=None, description="What is merged, the last wins; without it nothing is done"
    )
    policy: Policy | None = Field(default=None, description="Rules for all of them")


class Input(_Part):
    """Which EnvironmentConfigs make up the environment."""

    api_version: str = Field(
        default="environmentconfigs.fn.crossplane.io/v1beta1", description="Not looked at"
    )
    kind: str = Field(default="Input", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    spec: Spec | None = Field(default=None, description="What is wanted")
