"""What may a step hand in to function-environment-configs?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kanister_py.functions.composition.described import LabelMatcher, Part, Policy, Reference


class EnvironmentLabelMatcher(LabelMatcher):
    """One label to look for; the environment that is there already may say its value."""

    type: Literal["FromCompositeFieldPath", "FromEnvironmentFieldPath", "Value"] = Field(  # type: ignore[assignment]  # one word more than elsewhere
        default="FromCompositeFieldPath", description="Where the value comes from"
    )
    value_from_field_path: str | None = Field(
        default=None,
        description="Field path of the observed composite resource, or of the environment",
    )


class Selector(Part):
    """EnvironmentConfigs by their labels."""

    mode: Literal["Single", "Multiple"] = Field(
        default="Single", description="Exactly one, or as many as there are"
    )
    min_match: int | None = Field(default=None, description="Fewer than these are fatal")
    max_match: int | None = Field(default=None, description="More than these are cut off")
    sort_by_field_path: str = Field(
        default="metadata.name", description="Field path by whose value they are put in order"
    )
    match_labels: list[EnvironmentLabelMatcher] = Field(
        default=[], description="Labels to look for"
    )


class EnvironmentSource(Part):
    """Which EnvironmentConfigs, and where their data goes."""

    type: Literal["Reference", "Selector"] = Field(
        default="Reference", description="By name or by labels"
    )
    ref: Reference | None = Field(default=None, description="The one that is meant")
    selector: Selector | None = Field(default=None, description="Those that are meant")
    to_field_path: str | None = Field(
        default=None, description="Field path of the environment where the data goes; its root"
    )


class Spec(Part):
    """What is merged into the environment, and over what."""

    default_data: dict[str, Any] | None = Field(
        default=None, description="What holds where nothing else says anything"
    )
    environment_configs: list[EnvironmentSource] | None = Field(
        default=None, description="What is merged, the last wins; without it nothing is done"
    )
    policy: Policy | None = Field(default=None, description="Rules for all of them")


class Input(Part):
    """Which EnvironmentConfigs make up the environment."""

    api_version: str = Field(
        default="environmentconfigs.fn.crossplane.io/v1beta1", description="Not looked at"
    )
    kind: str = Field(default="Input", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    spec: Spec | None = Field(default=None, description="What is wanted")
