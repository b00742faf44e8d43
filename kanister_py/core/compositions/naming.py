"""Names of composed resources, and the labels of their owners."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha1, sha256
from typing import Any
from uuid import UUID

from kanister_py.core.kube.names import (
    MAX_LABEL,
    dns_subdomain_problem,
    path_segment_problem,
)
from kanister_py.core.kube.parts import annotations_of, metadata_of, name_of
from kanister_py.core.kube.resources import group_version_of

RESOURCE_NAME = "crossplane.io/composition-resource-name"
COMPOSITE = "crossplane.io/composite"
CLAIM_NAME = "crossplane.io/claim-name"
CLAIM_NAMESPACE = "crossplane.io/claim-namespace"
OWNED_LABELS = (COMPOSITE, CLAIM_NAME, CLAIM_NAMESPACE)
"""Labels that are removed from a composed resource when the XR releases it."""

COMPOSITE_MANAGER = "apiextensions.crossplane.io/composite"
COMPOSED_MANAGER = "apiextensions.crossplane.io/composed"

_HASH_LENGTH = 12
_RBAC_KINDS = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})


def child_name(generate_name: str, owner_uid: str, resource: str) -> str:
    """Return the name of a composed resource. It is the same in every run.

    A long prefix is cut so that the name stays a valid DNS label. Exactly one dash
    separates prefix and hash.
    """
    digest = sha256(f"{owner_uid}{resource}".encode()).hexdigest()[:_HASH_LENGTH]
    prefix = generate_name.rstrip("-")[: MAX_LABEL - _HASH_LENGTH - 1].rstrip("-")
    return f"{prefix}-{digest}" if prefix else digest


def uid_of_rendered(xr: Mapping[str, Any]) -> str:
    """Return a UID for an XR without one, derived from its kind and name."""
    metadata = metadata_of(xr)
    name = "\0".join(
        (
            f"{xr.get('apiVersion')}, Kind={xr.get('kind')}",
            metadata.get("namespace") or "",
            metadata.get("name") or "",
        )
    )
    # A UUID of version 5 in the namespace of all zeros.
    digest = sha1(bytes(16) + name.encode(), usedforsecurity=False).digest()
    return str(UUID(bytes=digest[:16], version=5))


def composed_manager(xr: Mapping[str, Any]) -> str:
    """Return the field manager for applying the composed resources of an XR."""
    group = group_version_of(str(xr.get("apiVersion")))[0]
    name = name_of(xr)
    text = f"{name}{xr.get('kind')}.{group}"
    return f"{COMPOSED_MANAGER}/{sha256(text.encode()).hexdigest()}"


def is_valid_name(name: str, api_version: str, kind: str) -> bool:
    """Return whether a name is valid for its kind. RBAC roles allow almost any name."""
    is_role = kind in _RBAC_KINDS and api_version.startswith("rbac.authorization.k8s.io/")
    return not (path_segment_problem if is_role else dns_subdomain_problem)(name)


def resource_name_of(obj: Mapping[str, Any]) -> str:
    """Return the name of a composed resource within its XR, or an empty string."""
    annotations = annotations_of(obj)
    name = annotations.get(RESOURCE_NAME)
    return name if isinstance(name, str) else ""
