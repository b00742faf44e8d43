"""CompositeResourceDefinitions (XRDs): their model, and checks of their names and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, WithJsonSchema

from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.models import ApiModel, Choice, Items, TextMap, read_partly
from kanister_py.core.revisions.policy import XrdRules
from kanister_py.core.yaml.documents import Document

MACHINERY_KEY: Final = "crossplane"
DEFINITION_KIND: Final = "CompositeResourceDefinition"


class Scope(StrEnum):
    """Scope of composite resources.

    LegacyCluster is the scope of Crossplane v1: resources can have claims, and the fields that
    select a Composition are directly in `spec`, not in `spec.crossplane`.
    """

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"
    LEGACY_CLUSTER = "LegacyCluster"


class DefinitionMetadata(ApiModel):
    """Metadata of a definition, as far as it is read."""

    name: str = ""
    uid: str = ""

    other_keys: ClassVar = (
        *("labels", "annotations", "generateName", "generation", "resourceVersion"),
        *("creationTimestamp", "deletionTimestamp", "finalizers", "ownerReferences"),
        *("managedFields", "selfLink", "deletionGracePeriodSeconds"),
    )


class ResourceNames(ApiModel):
    """Names of a kind of resource."""

    kind: str = ""
    plural: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: Items[str] = ()
    categories: Items[str] = ()


class VersionSchema(ApiModel):
    """Schema of a version, as its author wrote it."""

    open_api_v3_schema: dict[str, Any] | None = Field(None, alias="openAPIV3Schema")


class DefinitionVersion(ApiModel):
    """One version of a kind of composite resource."""

    name: str = ""
    served: bool = False
    referenceable: bool = False
    deprecated: bool = False
    deprecation_warning: str = ""
    schema_: VersionSchema = Field(
        VersionSchema(), alias="schema", description="Schema of the version."
    )
    subresources: dict[str, Any] = Field(default_factory=dict)
    additional_printer_columns: Items[dict[str, Any]] = ()


class NamedReference(ApiModel):
    """Reference to a Composition."""

    name: str = ""


class ResourceMetadata(ApiModel):
    """Metadata for the CRDs of a definition."""

    labels: TextMap = Field(default_factory=dict)
    annotations: TextMap = Field(default_factory=dict)


class DefinitionSpec(ApiModel):
    """Kinds that a definition describes, and rules for their Compositions."""

    group: str = ""
    # The CRD lists the values of each API version: v2 has no legacy resources.
    scope: Annotated[Choice[Scope], WithJsonSchema({"type": "string"})] | None = None
    names: ResourceNames = Field(ResourceNames(), description="Names of the composite resources.")
    claim_names: ResourceNames | None = Field(
        None, description="Names of the claims. Only for the scope LegacyCluster."
    )
    versions: Items[DefinitionVersion] = ()
    metadata: ResourceMetadata = Field(
        ResourceMetadata(), description="Labels and annotations of the CRDs that are created."
    )
    conversion: dict[str, Any] | None = None
    connection_secret_keys: Items[str] = ()
    default_composition_ref: NamedReference = Field(
        NamedReference(),
        description="Composition of composite resources that do not choose one.",
    )
    enforced_composition_ref: NamedReference = Field(
        NamedReference(),
        description="Composition of all composite resources. Overrides their own choice.",
    )
    default_composition_revision_selector: dict[str, Any] | None = None
    default_composition_update_policy: str = ""
    enforce_composition_update_policy: str = ""
    default_composite_delete_policy: str = ""

    @property
    def rules(self) -> XrdRules:
        """Rules for the Compositions of the definition's resources."""
        return XrdRules(
            self.default_composition_ref.name,
            self.enforced_composition_ref.name,
            self.default_composition_revision_selector,
            self.default_composition_update_policy,
            self.enforce_composition_update_policy,
        )


class Definition(ApiModel):
    """A kind of composite resource."""

    api_version: str = ""
    kind: str = ""
    metadata: DefinitionMetadata = DefinitionMetadata()
    spec: DefinitionSpec = DefinitionSpec()

    other_keys: ClassVar = ("status",)

    @property
    def scope(self) -> Scope:
        """Scope of the definition's resources. Its API version decides if it names none."""
        if self.spec.scope is not None:
            return self.spec.scope
        is_second = self.api_version.endswith("/v2")
        return Scope.NAMESPACED if is_second else Scope.LEGACY_CLUSTER

    @property
    def is_legacy(self) -> bool:
        return self.scope is Scope.LEGACY_CLUSTER

    @property
    def target_version(self) -> str:
        """Version in which resources are stored, and which Compositions name."""
        names = (version.name for version in self.spec.versions if version.referenceable)
        return next(names, "")


def read_definition(obj: Mapping[str, Any]) -> tuple[Definition, list[tuple[str, str]]]:
    """Read a definition from a cluster, and its problems as paths and messages.

    A definition with problems must not be used. Fields with a wrong type are left out.
    """
    partial = read_partly(Definition, Document.of(obj))
    problems = [(problem.path, problem.message) for problem in partial.problems.values()]
    return partial.value, [*problems, *_problems_of(partial.value)]


def _problems_of(definition: Definition) -> Iterator[tuple[str, str]]:
    spec = definition.spec
    name = definition.metadata.name
    required_name = f"{spec.names.plural}.{spec.group}"
    if name != required_name:
        yield "metadata.name", f"Must be {required_name}, the plural and the group, not {name}"
    elif len(name) > MAX_LABEL:
        yield "metadata.name", f"Must have no more than {MAX_LABEL} characters"
    stored = [version for version in spec.versions if version.referenceable]
    if len(stored) != 1:
        yield "spec.versions", f"Exactly one must be referenceable, not {len(stored)}"
    if spec.claim_names is not None and not definition.is_legacy:
        yield "spec.claimNames", f"Claims are only for the scope {Scope.LEGACY_CLUSTER}"


def machinery_of(resource: Mapping[str, Any], *, legacy: bool) -> Mapping[str, Any]:
    """Return the fields of a composite resource that select its Composition, in either layout."""
    spec = mapping_of(resource.get("spec"))
    return spec if legacy else mapping_of(spec.get(MACHINERY_KEY))
