"""Pydantic models of Functions and FunctionRevisions, as they are written in manifests."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from kanister_py.core.models import ApiModel, Choice, Items, NonEmptyText, TextMap
from kanister_py.core.registry.entries import DesiredState
from kanister_py.core.revisions.activation import ActivationPolicy


class PullPolicy(StrEnum):
    """When a package is pulled."""

    IF_NOT_PRESENT = "IfNotPresent"
    ALWAYS = "Always"
    NEVER = "Never"


class PackageMetadata(ApiModel):
    """Metadata of a Function or FunctionRevision, as far as it is read."""

    name: NonEmptyText
    labels: TextMap = Field(default_factory=dict)
    annotations: TextMap = Field(default_factory=dict)

    other_keys: ClassVar = ("namespace", "uid", "generateName", "ownerReferences", "finalizers")


class PullSecret(ApiModel):
    """Reference to a Secret with the credentials of a registry."""

    name: str = Field("", description="Name of the Secret.")


class RuntimeConfigReference(ApiModel):
    """Reference to the configuration of a function's pods."""

    api_version: str = Field(
        "", description="apiVersion of the configuration; pkg.crossplane.io/v1beta1 if left out."
    )
    kind: str = Field(
        "", description="Kind of the configuration; DeploymentRuntimeConfig if left out."
    )
    name: NonEmptyText = Field(description="Name of the configuration.")


class PackageSpec(ApiModel):
    """Settings that a Function passes to its revisions."""

    package_pull_policy: Choice[PullPolicy] | None = Field(
        None, description="When the package is pulled: IfNotPresent, Always or Never."
    )
    package_pull_secrets: Items[PullSecret] = Field(
        (), description="Secrets with credentials of the registry."
    )
    ignore_crossplane_constraints: bool = Field(
        False, description="Install the package even if it asks for another version of Crossplane."
    )
    skip_dependency_resolution: bool = Field(
        False, description="Do not install the packages that the package depends on."
    )
    common_labels: TextMap = Field(
        default_factory=dict, description="Labels of everything that is created for the function."
    )
    common_annotations: TextMap = Field(
        default_factory=dict,
        description="Annotations of everything that is created for the function.",
    )
    runtime_config_ref: RuntimeConfigReference | None = Field(
        None, description="Configuration of the function's pods."
    )


class FunctionSpec(PackageSpec):
    """The package of a function, and how its revisions are kept."""

    package: str = Field("", description="Package, as a reference with a tag or a digest.")
    revision_activation_policy: Choice[ActivationPolicy] = Field(
        ActivationPolicy.AUTOMATIC,
        description="Whether a new revision becomes active by itself: Automatic or Manual.",
    )
    revision_history_limit: int | None = Field(
        None,
        ge=0,
        description="Number of revisions that are kept; 0 keeps all. As many as may be active if "
        "left out.",
    )
    active_revision_limit: int = Field(
        1, ge=1, description="Number of revisions that serve at the same time."
    )


class PackageObject(ApiModel):
    """Fields that a Function and a FunctionRevision have in common."""

    api_version: str = ""
    kind: str = ""
    metadata: PackageMetadata

    other_keys: ClassVar = ("status",)


class FunctionObject(PackageObject):
    """A function of compositions, as a package that is kept installed."""

    spec: FunctionSpec = Field(
        default_factory=FunctionSpec, description="The package, and how its revisions are kept."
    )


def _inactive_if_empty(value: Any) -> Any:
    return DesiredState.INACTIVE if value == "" else value


class FunctionRevisionSpec(PackageSpec):
    """One package of a function."""

    desired_state: Annotated[Choice[DesiredState], BeforeValidator(_inactive_if_empty)] = Field(
        DesiredState.INACTIVE, description="Whether the revision serves: Active or Inactive."
    )
    image: str = Field("", description="Package of the revision.")
    revision: int = Field(
        1, ge=0, description="Number of the revision; of those that serve, the highest is used."
    )
    tls_server_secret_name: str = Field(
        "", description="Secret with the certificate that the function serves with."
    )
    tls_client_secret_name: str = Field(
        "", description="Secret with the certificate that the function uses as a client."
    )


class FunctionRevisionObject(PackageObject):
    """One revision of a function."""

    spec: FunctionRevisionSpec = Field(
        default_factory=FunctionRevisionSpec, description="The package of the revision."
    )
