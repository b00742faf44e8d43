"""What may a step hand in to function-patch-and-transform? For documentation: it reads by hand."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kanister_py.functions.composition.described import Part


class Variable(Part):
    """One value that is combined."""

    from_field_path: str = Field(description="Where it stands")


class StringCombine(Part):
    """A text with the variables in it."""

    fmt: str = Field(description="Format of Go's Sprintf, such as %s-%s")


class Combine(Part):
    """Several values become one."""

    variables: list[Variable] = Field(description="The values, in order")
    strategy: Literal["string"] = Field(description="How they become one")
    string: StringCombine | None = Field(default=None, description="With the strategy string")


class Math(Part):
    """A calculation with whole numbers."""

    type: Literal["Multiply", "ClampMin", "ClampMax"] = Field(description="Which one")
    multiply: int | None = Field(default=None, description="Factor of Multiply")
    clamp_min: int | None = Field(default=None, description="Least value of ClampMin")
    clamp_max: int | None = Field(default=None, description="Greatest value of ClampMax")


class Pattern(Part):
    """One pattern, and what comes out when it fits."""

    type: Literal["literal", "regexp"] = Field(description="How it is compared")
    literal: str | None = Field(default=None, description="The text itself")
    regexp: str | None = Field(default=None, description="Regular expression of RE2")
    result: Any = Field(default=None, description="What comes out, of any type")


class Match(Part):
    """The first pattern that fits says what comes out."""

    patterns: list[Pattern] = Field(default=[], description="The patterns, in order")
    fallback_value: Any = Field(default=None, description="What comes out if none fits")
    fallback_to: Literal["Value", "Input"] = Field(
        default="Value", description="Whether that, or the input, comes out if none fits"
    )


class Regexp(Part):
    """A part of a text that fits."""

    match: str = Field(description="Regular expression of RE2")
    group: int = Field(default=0, description="Which group of it; 0 is all of it")


class Join(Part):
    """The texts of a list, one behind the other."""

    separator: str = Field(description="What stands between them")


class Replace(Part):
    """One text in place of another."""

    search: str = Field(description="What is looked for")
    replace: str = Field(description="What comes in its place")


class String(Part):
    """What is done to a text."""

    type: Literal["Format", "Convert", "TrimPrefix", "TrimSuffix", "Regexp", "Join", "Replace"] = (
        Field(description="Which one")
    )
    fmt: str | None = Field(default=None, description="Format of Go's Sprintf, with Format")
    convert: (
        Literal[
            "ToUpper",
            "ToLower",
            "ToBase64",
            "FromBase64",
            "ToJson",
            "ToSha1",
            "ToSha256",
            "ToSha512",
            "ToAdler32",
        ]
        | None
    ) = Field(default=None, description="With Convert")
    trim: str | None = Field(default=None, description="With TrimPrefix and TrimSuffix")
    regexp: Regexp | None = Field(default=None, description="With Regexp")
    join: Join | None = Field(default=None, description="With Join")
    replace: Replace | None = Field(default=None, description="With Replace")


class Convert(Part):
    """A value of another type."""

    to_type: Literal["string", "int", "int64", "bool", "float64", "object", "array"] = Field(
        description="Which type"
    )
    format: Literal["none", "quantity", "json"] = Field(
        default="none", description="How a text is read"
    )


class Transform(Part):
    """One step of what is done to a value on its way."""

    type: Literal["map", "match", "math", "string", "convert"] = Field(description="Which kind")
    map: dict[str, Any] | None = Field(default=None, description="What comes out for each text")
    match: Match | None = Field(default=None, description="With the type match")
    math: Math | None = Field(default=None, description="With the type math")
    string: String | None = Field(default=None, description="With the type string")
    convert: Convert | None = Field(default=None, description="With the type convert")


class Policy(Part):
    """Rules of one patch."""

    from_field_path: Literal["Optional", "Required"] = Field(
        default="Optional", description="Whether the value must be there"
    )
    to_field_path: str | None = Field(
        default=None,
        description="Replace, MergeObjects, MergeObjectsAppendArrays, ForceMergeObjects or "
        "ForceMergeObjectsAppendArrays; Replace if unset",
    )


class Patch(Part):
    """A value that goes from one place to another."""

    type: str = Field(
        default="FromCompositeFieldPath",
        description="From or ToCompositeFieldPath, From or ToEnvironmentFieldPath, CombineFrom or "
        "CombineToComposite, CombineFrom or CombineToEnvironment, PatchSet",
    )
    from_field_path: str | None = Field(default=None, description="Where the value stands")
    to_field_path: str | None = Field(
        default=None, description="Where it goes; where it stands, if unset"
    )
    combine: Combine | None = Field(default=None, description="With the types Combine…")
    transforms: list[Transform] | None = Field(
        default=None, description="What is done to it on the way, in order"
    )
    policy: Policy | None = Field(default=None, description="Rules")


class ComposedPatch(Patch):
    """A patch of a composed resource, or a set of them."""

    patch_set_name: str | None = Field(default=None, description="With the type PatchSet")


class ConnectionDetail(Part):
    """One connection detail of the composite resource."""

    name: str = Field(description="Its key")
    type: Literal["FromConnectionSecretKey", "FromFieldPath", "FromValue"] = Field(
        description="Where it comes from"
    )
    from_connection_secret_key: str | None = Field(default=None, description="Key of the Secret")
    from_field_path: str | None = Field(default=None, description="Field of the resource")
    value: str | None = Field(default=None, description="The value itself")


class MatchCondition(Part):
    """A condition in a status."""

    type: str = Field(description="Its type")
    status: str = Field(description="Its status, such as True")


class ReadinessCheck(Part):
    """One thing that must hold for a resource to be ready."""

    type: Literal[
        "NonEmpty",
        "MatchString",
        "MatchInteger",
        "MatchTrue",
        "MatchFalse",
        "MatchCondition",
        "None",
    ] = Field(description="Which kind")
    field_path: str | None = Field(default=None, description="The field that is looked at")
    match_string: str | None = Field(default=None, description="With MatchString")
    match_integer: int | None = Field(default=None, description="With MatchInteger")
    match_condition: MatchCondition | None = Field(default=None, description="With MatchCondition")


class ComposedTemplate(Part):
    """One composed resource."""

    name: str = Field(description="Its name in the composition")
    base: dict[str, Any] | None = Field(
        default=None, description="What it looks like; unset, an earlier step must have made it"
    )
    patches: list[ComposedPatch] | None = Field(default=None, description="In order")
    connection_details: list[ConnectionDetail] | None = Field(
        default=None, description="What it adds to those of the composite resource"
    )
    readiness_checks: list[ReadinessCheck] | None = Field(
        default=None, description="All must hold; unset, its condition Ready"
    )


class PatchSet(Part):
    """Patches that several resources share."""

    name: str = Field(description="Name of the set")
    patches: list[Patch] = Field(description="In order")


class Environment(Part):
    """Patches between the composite resource and the environment."""

    patches: list[Patch] | None = Field(default=None, description="Before those of resources")


class ConnectionSecret(Part):
    """The Secret of the connection details, for composite resources without claims."""

    name: str | None = Field(default=None, description="Its name")
    namespace: str | None = Field(default=None, description="Its namespace")
    patches: list[Patch] | None = Field(default=None, description="Onto name and namespace")


class Resources(Part):
    """What is composed."""

    api_version: str = Field(default="pt.fn.crossplane.io/v1beta1", description="Not looked at")
    kind: str = Field(default="Resources", description="Not looked at")
    metadata: Any = Field(default=None, description="Not looked at")
    patch_sets: list[PatchSet] | None = Field(default=None, description="Patches to be shared")
    environment: Environment | None = Field(default=None, description="Patches of the environment")
    resources: list[ComposedTemplate] | None = Field(default=None, description="What is composed")
    write_connection_secret_to_ref: ConnectionSecret | None = Field(
        default=None, description="Where the connection details go"
    )
