"""Conditions of Wait and WaitV2 on Kubernetes objects."""

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
    """Condition on the state of one object."""

    condition: str = Field(
        default="",
        description="A template that renders to `true` once the object has the desired state.",
    )
    object_reference: ObjectReference = Field(
        default_factory=ObjectReference, description="The object to check."
    )


class Conditions(Args):
    """Conditions to wait for."""

    any_of: list[Condition] = Field(
        default_factory=list, description="Conditions of which at least one must hold."
    )
    all_of: list[Condition] = Field(
        default_factory=list, description="Conditions that must all hold at the same time."
    )


def _readable(text: str) -> str:
    try:
        # A template is a duration only after it has been rendered.
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
"""Check of a condition; the path is the condition's position in the arguments."""

UNMET: Final = (ApiError, InvalidJSONPath, RenderFailed, TemplateError)
"""Errors that may pass: the condition cannot be evaluated in the current state of the object."""


def paths_of(conditions: Conditions) -> Iterable[tuple[Condition, Path]]:
    """Yield every condition with its path in the arguments."""
    for key, several in (("anyOf", conditions.any_of), ("allOf", conditions.all_of)):
        for index, condition in enumerate(several):
            yield condition, ("conditions", key, index)


def access_of(args: Mapping[str, Any]) -> list[Access]:
    """Return the permissions that a wait needs."""
    conditions = args.get("conditions")
    several = [
        condition
        for key in ("anyOf", "allOf")
        for condition in (conditions.get(key) if isinstance(conditions, Mapping) else None) or ()
        if isinstance(condition, Mapping)
    ]
    return [
        access
        for condition in several
        for access in access_to(condition.get("objectReference"), "get", "list", "watch")
    ]


def seconds_of(function: str, timeout: str) -> float:
    """Parse the timeout of a wait."""
    try:
        return parse_seconds(timeout)
    except InvalidDuration as error:
        message = f"Failed to parse timeout: {error.message}"
        problem = ArgProblem("timeout", message, "type", "a duration", timeout)
        raise InvalidArgs(function, [problem]) from error


def fetch_of(ctx: PhaseContext, reference: ObjectReference) -> KubeObject:
    """Fetch the object of a condition."""
    check_address(reference)
    check_scope(ctx.cluster, reference.gvr, reference.namespace)
    return ctx.cluster.get(reference.gvr, reference.name, namespace=reference.namespace)


def rendered(
    ctx: PhaseContext, params: Params, reference: ObjectReference, path: Path
) -> ObjectReference:
    """Render the templates in a reference."""
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
    """Wait until conditions hold. The error at a timeout contains the last reason why not.

    A condition that cannot be evaluated ends the current check of all conditions, unless
    `goes_on_after_failure` is set.
    """
    any_of = [path for path in paths_of(conditions) if path[1][1] == "anyOf"]
    all_of = [path for path in paths_of(conditions) if path[1][1] == "allOf"]
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


# Functions of kubectl's templates in addition to Go's built-in ones


@go_function("func(interface{}, ...interface{}) bool")
def _exists(item: Value, *indices: Value) -> bool:
    for index in indices:
        element = _inside(item, index)
        if element is None:
            return False
        item = element
    return item is not None


def _inside(item: Value, index: Value) -> Any:
    """Value at an index or a key; None if there is none."""
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
    """Convert an object to the form in kubectl's templates: every number is a float64."""
    if isinstance(value, dict):
        return {key: as_kubectl_sees(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sees(element) for element in value]
    return float(value) if type(value) is int else value
