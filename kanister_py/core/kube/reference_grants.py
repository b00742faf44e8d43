"""ReferenceGrants: permission for runs to name objects in other namespaces.

A run of an ActionSet acts with the permissions of the controller. Outside of the controller's
namespace it may name objects of its own namespace only, unless the owner of another namespace
grants it more with a `ReferenceGrant` there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.parts import namespace_of, spec_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.models import ClosedModel, Items, NonEmptyText

KIND: Final = "ReferenceGrant"
REFERENCE_GRANTS: Final = GroupVersionResource("kanister-py.io", "v1alpha1", "referencegrants")


class Target(NamedTuple):
    """An object that a run names. `namespace` is empty for cluster-scoped objects."""

    group: str
    kind: str
    namespace: str
    name: str = ""

    def __str__(self) -> str:
        place = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.kind} {place}".strip()


class ReferenceNotGranted(UsageError, reason="ReferenceNotGranted"):
    """A run names an object outside of its namespace, and no grant allows it."""

    def __init__(self, target: Target, own: str) -> None:
        if target.namespace:
            hint = (
                f"an object of kind {KIND} in namespace {target.namespace} can allow it: "
                f"from namespace {own} to kind {target.kind}"
            )
        else:
            hint = "it is cluster-scoped, create the ActionSet in the controller's namespace"
        super().__init__(f"{target} is outside of namespace {own}, where the ActionSet is; {hint}")
        self.target = target


class GrantedFrom(ClosedModel):
    """Namespace whose ActionSets may use a grant."""

    namespace: NonEmptyText = Field(description="Name of the namespace.")


class GrantedTo(ClosedModel):
    """Objects that a grant opens: all of a kind, or the one with a name."""

    group: str = Field(description="API group; empty for core kinds such as Secret.")
    kind: NonEmptyText = Field(description="Kind of the objects, such as Secret or Deployment.")
    name: str = Field("", description="Name of the one object that is opened; without it, all.")


class Grant(ClosedModel):
    """Specification of a ReferenceGrant."""

    from_: Items[GrantedFrom] = Field(
        alias="from", description="Namespaces whose ActionSets may use this grant."
    )
    to: Items[GrantedTo] = Field(description="Objects of this namespace that they may name.")

    def allows(self, own: str, target: Target) -> bool:
        """Return True if runs of namespace `own` may name the target."""
        return any(source.namespace == own for source in self.from_) and any(
            (opened.group, opened.kind) == (target.group, target.kind)
            and opened.name in ("", target.name)
            for opened in self.to
        )


def parse_grant(obj: Mapping[str, Any]) -> Grant | None:
    """Parse a ReferenceGrant. Return None if it is invalid, so that it grants nothing."""
    try:
        return Grant.model_validate(spec_of(obj))
    except ValidationError:
        return None


def is_granted(grants: Iterable[Mapping[str, Any]], own: str, target: Target) -> bool:
    """Return True if one of the ReferenceGrants opens the target to runs of a namespace."""
    parsed = [parse_grant(obj) for obj in grants if namespace_of(obj) == target.namespace]
    return any(grant is not None and grant.allows(own, target) for grant in parsed)
