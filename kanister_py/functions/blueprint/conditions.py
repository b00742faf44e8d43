"""Conditions of Wait and WaitV2: whether objects of the cluster are as a blueprint wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field

from kanister_py.core.errors import ApiError, UsageError, WaitTimedOut
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.jsonpath import InvalidJSONPath
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import RenderFailed
from kanister_py.core.yaml.documents import Path
from kanister_py.core.yaml.weak import ArgProblem, InvalidArgs
from kanister_py.functions.blueprint.references import (
    ObjectReference,
    access_to,
    check_address,
    check_scope,
)
from kanister_py.gotemplate.functions import FunctionTable, GoError, go_function
from kanister_py.gotemplate.sprig.encoding import decode_base64
from kanister_py.gotemplate.types import Kind
from kanister_py.gotemplate.values import Value, from_bytes, kind_of
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class Condition(Args):
    """What one object shall be like."""

    condition: str = Field(
        default="",
        description="A template that renders to `true` once the object has the desired state.",
    )
    object_reference: ObjectReference = Field(
        default_factory=ObjectReference, description="The object to check."
    )


class Conditions(Args):
    """What is waited for."""

    any_of: list[Condition] = Field(
        default_factory=list, description="Conditions of which at least one must hold."
    )
    all_of: list[Condition] = Field(
        default_factory=list, description="Conditions that must all hold at the same time."
    )


def _readable(text: str) -> str:
    try:
        # A template becomes a time only when it is rendered.
        if "{" not in text:
            parse_seconds(text)
    except InvalidDuration as error:
        raise ValueError(f"no time: Failed to parse timeout: {error.message}") from error
    return text


class WaitArgs(Args):
    """Arguments of Wait and WaitV2."""

    timeout: Annotated[str, AfterValidator(_readable)] = Field(
        description="The maximum time to wait, such as `5m` or `240s`.",
        json_schema_extra={"pattern": "([0-9]+[smh])+"},
    )
    conditions: Conditions = Field(
        description="The conditions to wait for: `anyOf` and `allOf`, lists of entries with a "
        "`condition` and an `objectReference`. The wait succeeds once one condition of `anyOf` "
        "or all conditions of `allOf` hold. Without any condition, the wait never succeeds."
    )


Check: TypeAlias = Callable[[Condition, Path], bool]
"""Says whether a condition holds; the path is where it stands in the args."""

UNMET: Final = (ApiError, InvalidJSONPath, RenderFailed, TemplateError)
"""What keeps a condition from being judged for now: the object may be another one soon."""


def paths_of(conditions: Conditions) -> Iterable[tuple[Condition, Path]]:
    """Give every condition with its place in the args."""
    for key, several in (("anyOf", conditions.any_of), ("allOf", conditions.all_of)):
        for index, each in enumerate(several):
            yield each, ("conditions", key, index)


def access_of(args: Mapping[str, Any]) -> list[Access]:
    """Say which rights a wait takes."""
    conditions = args.get("conditions")
    several = [
        each
        for key in ("anyOf", "allOf")
        for each in (conditions.get(key) if isinstance(conditions, Mapping) else None) or ()
        if isinstance(each, Mapping)
    ]
    return [
        access
        for each in several
        for access in access_to(each.get("objectReference"), "get", "list", "watch")
    ]


def seconds_of(function: str, timeout: str) -> float:
    """Read how long to wait."""
    try:
        return parse_seconds(timeout)
    except InvalidDuration as error:
        message = f"Failed to parse timeout: {error.message}"
        problem = ArgProblem("timeout", message, "type", "a duration", timeout)
        raise InvalidArgs(function, [problem]) from error


def fetch_of(ctx: PhaseContext, reference: ObjectReference) -> KubeObject:
    """Read the object that a condition is about."""
    check_address(reference)
    check_scope(ctx.cluster, reference.gvr, reference.namespace)
    return ctx.cluster.get(reference.gvr, reference.name, namespace=reference.namespace)


def rendered(
    ctx: PhaseContext, params: Params, reference: ObjectReference, path: Path
) -> ObjectReference:
    """Give a reference without its templates."""
    values = reference.model_dump(by_alias=True)
    return ObjectReference.model_validate(ctx.renderer.value(values, params, path))


def wait_for(
    ctx: PhaseContext,
    conditions: Conditions,
    seconds: float,
    check: Check,
    *,
    goes_on_after_failure: bool = False,
) -> None:
    """Wait until conditions hold, and say in the error what kept the last look from it.

    A condition that cannot be judged ends a look, unless it `goes_on_after_failure`.
    """
    any_of = [each for each in paths_of(conditions) if each[1][1] == "anyOf"]
    all_of = [each for each in paths_of(conditions) if each[1][1] == "allOf"]
    why = ""

    def holds(condition: Condition, path: Path) -> bool:
        nonlocal why
        try:
            return check(condition, path)
        except UNMET as error:
            why = why or error.message
            return False

    def look() -> bool:
        nonlocal why
        why = ""
        for condition, path in any_of:
            if holds(condition, path):
                return True
            if why and not goes_on_after_failure:
                return False
        return bool(all_of) and all(holds(condition, path) for condition, path in all_of)

    try:
        ctx.wait(look, timeout_seconds=seconds, what="the condition to be met")
    except WaitTimedOut as error:
        message = f"Failed to wait for {error.what} within {error.timeout_seconds:g} s"
        raise UsageError(f"{why}: {message}" if why else message, reason=error.reason) from error


# What kubectl's templates may call besides Go's builtins


@go_function("func(interface{}, ...interface{}) bool")
def _exists(item: Value, *indices: Value) -> bool:
    for index in indices:
        found = _inside(item, index)
        if found is None:
            return False
        item = found
    return item is not None


def _inside(item: Value, index: Value) -> Any:
    """What stands at an index or a key; None if nothing does."""
    if isinstance(item, dict):
        return item.get(index) if isinstance(index, str) else None
    if isinstance(item, str | list):
        is_index = kind_of(index) in _WHOLE and 0 <= int(index) < len(item)
        return item[int(index)] if is_index else None
    return None


_WHOLE: Final = frozenset(
    {
        Kind.INT,
        Kind.INT8,
        Kind.INT16,
        Kind.INT32,
        Kind.INT64,
        Kind.UINT,
        Kind.UINT8,
        Kind.UINT16,
        Kind.UINT32,
        Kind.UINT64,
    }
)


@go_function("func(string) (string, error)")
def _base64decode(text: str) -> str:
    try:
        return from_bytes(decode_base64(text))
    except GoError as error:
        raise GoError(f"base64 decode failed: {error}") from error


KUBECTL: Final = {"exists": _exists, "base64decode": _base64decode}
KUBECTL_FUNCTIONS: Final = FunctionTable(KUBECTL)


def as_kubectl_sees(value: Any) -> Any:
    """Give an object as kubectl's templates see it: every number is a float64."""
    if isinstance(value, dict):
        return {key: as_kubectl_sees(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sees(each) for each in value]
    return float(value) if type(value) is int else value
