"""Plans of inputs: parsed, validated and prepared once, then reused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from json import JSONEncoder
from typing import Any, Final, NamedTuple

from kanister_py.functions.composition.fields import InputInvalid, decode_error, decode_input
from kanister_py.functions.composition.patch_and_transform.connection import (
    SecretReference,
    check_connection_detail,
)
from kanister_py.functions.composition.patch_and_transform.fields import FIELDS, fill_defaults
from kanister_py.functions.composition.patch_and_transform.patches import (
    PATCH_SET,
    Patch,
    check_environment_patch,
    check_patch,
    type_of,
)
from kanister_py.functions.composition.patch_and_transform.problems import (
    InvalidInput,
    Problem,
    first_problem,
    required,
)
from kanister_py.functions.composition.patch_and_transform.readiness import check_readiness_check
from kanister_py.weighted_cache import WeightedCache


class Template(NamedTuple):
    """Resource to compose."""

    name: str
    base: Any
    """None if an earlier step must have composed the resource."""
    patches: tuple[Patch, ...]
    details: tuple[Mapping[str, str], ...]
    checks: tuple[Mapping[str, Any], ...]


class Plan(NamedTuple):
    """Complete content of an input."""

    resources: tuple[Template, ...]
    environment: tuple[Patch, ...]
    secret: SecretReference
    unresolved: str = ""
    """Reason why references to patch sets cannot be resolved."""
    has_integers: bool = False
    """Whether whole numbers are integers everywhere, and never doubles."""


_encode: Final = JSONEncoder(sort_keys=True, separators=(",", ":")).encode
# A plan takes about five times the memory of its input as JSON, and references the objects
# of the input, which take eight times as much.
_BYTES_PER_CHARACTER: Final = 13
_PLANS: Final = WeightedCache[tuple[bool, bytes], Plan](32 << 20)


def plan_for(function_input: Any) -> Plan:
    """Return the plan of an input. Raises `InvalidInput` if it is invalid."""
    return _cached_plan(function_input, is_strict=False)


def strict_plan_for(function_input: Any) -> Plan:
    """Return the plan from v0.2.0 on: published defaults, and whole numbers as integers."""
    return _cached_plan(function_input, is_strict=True)


def _cached_plan(function_input: Any, *, is_strict: bool) -> Plan:
    try:
        text = _encode(function_input)
    except (TypeError, ValueError, RecursionError):  # not JSON, or nested too deeply
        return _compile_plan(function_input, is_strict=is_strict)
    # The key is the content: callers in Go send the keys of a map in random order.
    key = (is_strict, sha256(text.encode(errors="surrogatepass")).digest())
    plan = _PLANS.get(key)
    if plan is None:
        plan = _compile_plan(function_input, is_strict=is_strict)
        _PLANS.put(key, plan, len(text) * _BYTES_PER_CHARACTER)
    return plan


def _compile_plan(function_input: Any, *, is_strict: bool) -> Plan:
    decoded = _decoded(function_input)
    return (
        _plan_of(fill_defaults(decoded))._replace(has_integers=True)
        if is_strict
        else _plan_of(decoded)
    )


def _decoded(function_input: Any) -> dict[str, Any]:
    try:
        return decode_input(function_input, FIELDS)
    except InputInvalid as error:
        raise InvalidInput(
            "cannot get Function input: cannot get function input "
            f"{decode_error('v1beta1.Resources', error)}"
        ) from error


def _plan_of(decoded: Mapping[str, Any]) -> Plan:
    problem = _check_input(decoded)
    if problem is not None:
        raise InvalidInput(f"invalid Function input: {problem}", problem)
    secret = SecretReference(decoded.get("writeConnectionSecretToRef", {}))
    environment = tuple(
        Patch(patch, is_beside_resources=True)
        for patch in decoded.get("environment", {}).get("patches", ())
    )
    sets = {
        patch_set["name"]: tuple(map(Patch, patch_set.get("patches", ())))
        for patch_set in decoded.get("patchSets", ())
    }
    templates = []
    for resource in decoded.get("resources", ()):
        patches: list[Patch] = []
        for patch in resource.get("patches", ()):
            if type_of(patch) != PATCH_SET:
                patches.append(Patch(patch))
                continue
            name = patch["patchSetName"]
            if name not in sets:
                return Plan((), (), secret, f"cannot find PatchSet by name {name}")
            patches += sets[name]
        templates.append(
            Template(
                resource["name"],
                resource.get("base"),
                tuple(patches),
                tuple(resource.get("connectionDetails", ())),
                tuple(resource.get("readinessChecks", ())),
            )
        )
    return Plan(tuple(templates), environment, secret)


# Validation


def _check_input(decoded: Mapping[str, Any]) -> Problem | None:
    for patch_set in decoded.get("patchSets", ()):
        # Like in the original, the message does not contain the name of the set.
        problem = _check_named(patch_set, "PatchSetPatch")
        if problem is not None:
            return problem
    environment = decoded.get("environment", {}).get("patches", ())
    if not decoded.get("resources") and not environment:
        return required("resources", "resources or environment patches are required")
    problem = first_problem("resources", decoded.get("resources", ()), _check_template)
    if problem is not None:
        return problem
    for at, patch in enumerate(environment):
        problem = check_environment_patch(patch, at)
        if problem is not None:
            return problem.inside("environment")
    reference = decoded.get("writeConnectionSecretToRef", {})
    problem = _check_patches(reference, "ConnectionSecretPatch")
    return problem and problem.inside("writeConnectionSecretToRef")


def _check_patches(parent: Mapping[str, Any], go_type: str) -> Problem | None:
    patches = parent.get("patches", ())
    return first_problem("patches", patches, partial(check_patch, go_type=go_type))


def _check_named(parent: Mapping[str, Any], go_type: str) -> Problem | None:
    if not parent.get("name"):
        return required("name", "name is required")
    return _check_patches(parent, go_type)


def _check_template(template: Mapping[str, Any]) -> Problem | None:
    details, checks = (template.get(key, ()) for key in ("connectionDetails", "readinessChecks"))
    return (
        _check_named(template, "ComposedPatch")
        or first_problem("connectionDetails", details, check_connection_detail)
        or first_problem("readinessChecks", checks, check_readiness_check)
    )
