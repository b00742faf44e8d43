"""What may a step hand in to function-auto-ready?"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kanister_py.functions.composition.described import Part


class Input(Part):
    """How composed resources are told to be ready."""

    api_version: str = Field(
        default="autoready.fn.crossplane.io/v1beta1", description="Not looked at"
    )
    kind: str = Field(default="Input", description="Not looked at")
    metadata: dict[str, Any] | None = Field(default=None, description="Not looked at")
    ttl: str | None = Field(
        default=None, description="How long the answer holds, such as 5m; one minute if unset"
    )
    cel_health_check_customization: dict[str, str] | None = Field(
        default=None,
        description="For kinds such as apps_v1_Deployment a CEL expression over `object` that "
        "says whether it is ready",
    )
    cel_health_check_customization_from: str | None = Field(
        default=None, description="Field path of the context where there are more of them"
    )
