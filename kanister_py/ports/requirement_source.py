"""Source of the resources, schemas and Secrets that pipeline steps request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kanister_py.core.compositions.messages import Data


class RequirementSource(Protocol):
    """Source of resources, schemas and credentials. Missing objects are not an error."""

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        """Return the resources that match a selector, ordered by namespace and name."""

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        """Return the OpenAPI schema of a kind, with all references resolved."""

    def fetch_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return the data of a Secret in base64."""

    def fetch_config_map(self, namespace: str, name: str) -> Data | None:
        """Return a ConfigMap that a composition refers to."""
