"""What may a step hand in to function-extra-resources?"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kanister_py.functions.composition.described import LabelMatcher, Part, Policy, Reference


class Selector(Part):
    """Resources by their labels."""

    min_match: int | None = Field(default=None, description="Fewer than these are fatal")
    max_match: int | None = Field(default=None, description="More than these are cut off")
    sort_by_field_path: str = Field(
        default="metadata.name", description="Field path by whose value they are put in order"
    )
    match_labels: list[LabelMatcher] = Field(default=[], description="Labels to look for")


class ResourceSource(Part):
    """Which resources, and under which name."""

    type: Literal["Reference", "Selector"] = Field(
        default="Reference", description="By name or by labels"
    )
    kind: str = Field(description="Kind of the resources")
    api_version: str = Field(description="API version of the resources")
    namespace: str | None = Field(default=None, description="Their namespace")
    into: str = Field(description="Key under which they are put into the context")
    ref: Reference | None = Field(default=None, description="The one that is meant")
    selector: Selector | None = Field(default=None, description="Those that are meant")


class Context(Part):
    """Where what is found goes."""

    key: str = Field(
        default="apiextensions.crossplane.io/extra-resources", description="Key of the context"
    )


class Spec(Part):
    """What is fetched."""

    extra_resources: list[ResourceSource] = Field(default=[], description="What is fetched")
    policy: Policy | None = Field(default=None, description="Rules for all of them")
    context: Context | None = Field(default=None, description="Where what is found goes")


class Input(Part):
    """Which resources are fetched for the steps after this one."""

    api_version: str = Field(
        default="extra-resources.fn.crossplane.io/v1beta1", description="Not looked at"
    )
    kind: str = Field(default="Input", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    spec: Spec | None = Field(default=None, description="What is wanted")
