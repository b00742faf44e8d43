"""Requirement source: the resources, schemas and Secrets that a pipeline's steps ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kanister_py.core.compositions.messages import Data


class RequirementSource(Protocol):
    """Source of resources, schemas and credentials. What is not there is no error."""

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        """Find what a selector of the protocol selects, in the order of namespace and name."""

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        """Give the OpenAPI schema of a kind, with nothing in it that refers elsewhere."""

    def fetch_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Give the data of a Secret in base64."""

    def fetch_config_map(self, namespace: str, name: str) -> Data | None:
        """Give a ConfigMap, for a composition that refers to it."""
