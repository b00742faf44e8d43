"""Plans of inputs: read, checked and made ready once, then used many times."""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.functions.composition.fields import NotShaped, shaped, unreadable
from kanister_py.functions.composition.patch_and_transform.connection import (
    SecretReference,
    check_connection_detail,
)
from kanister_py.functions.composition.patch_and_transform.fields import FIELDS, mended
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


class Template(NamedTuple):
    """One resource to be made."""

    name: str
    base: Any
    """None: an earlier step must have made it."""
    patches: tuple[Patch, ...]
    details: tuple[Mapping[str, str], ...]
    checks: tuple[Mapping[str, Any], ...]


class Plan(NamedTuple):
    """All that an input asks for."""

    resources: tuple[Template, ...]
    environment: tuple[Patch, ...]
    secret: SecretReference
    unresolved: str = ""
    """Why the sets of patches cannot be put in their places."""
    has_integers: bool = False
    """Whole numbers are integers wherever they are read, and doubles nowhere."""


# Enough for the compositions of a cluster; what is kept is bounded by what came in.
_MAX_PLANS: Final = 128
_MAX_KEPT_BYTES: Final = 32 * 1024 * 1024


class _Plans:
    def __init__(self, make: Callable[[Any], Plan]) -> None:
        self._make = make
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()
        self._kept_bytes = 0
        self._lock = Lock()

    def plan_for(self, given: Any) -> Plan:
        try:
            # What is written alike is alike, but true is not 1. Later versions of the format
            # write equal inputs in different ways: by what holds on to their parts besides.
            key = marshal.dumps(given, 2)
        except ValueError:  # too deep, or no JSON
            return self._make(given)
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
        plan = self._make(given)
        with self._lock:
            if key not in self._plans and len(key) <= _MAX_KEPT_BYTES:
                self._plans[key] = plan
                self._kept_bytes += len(key)
            while len(self._plans) > _MAX_PLANS or self._kept_bytes > _MAX_KEPT_BYTES:
                self._kept_bytes -= len(self._plans.popitem(last=False)[0])
        return plan


plan_for = _Plans(lambda given: _plan_of(_decoded(given))).plan_for
"""Makes an input ready; `InvalidInput` says what is wrong with it."""
mended_plan_for = _Plans(
    lambda given: _plan_of(mended(_decoded(given)))._replace(has_integers=True)
).plan_for
"""The same as from v0.2.0 on: with published defaults, and whole numbers as integers."""


def _decoded(given: Any) -> dict[str, Any]:
    try:
        return shaped(given, FIELDS)
    except NotShaped as error:
        raise InvalidInput(
            "cannot get Function input: cannot get function input "
            f"{unreadable('v1beta1.Resources', error)}"
        ) from error


def _plan_of(decoded: Mapping[str, Any]) -> Plan:
    problem = _check_input(decoded)
    if problem is not None:
        raise InvalidInput(f"invalid Function input: {problem}", problem)
    secret = SecretReference(decoded.get("writeConnectionSecretToRef", {}))
    environment = tuple(
        Patch(each, is_beside_resources=True)
        for each in decoded.get("environment", {}).get("patches", ())
    )
    sets = {
        each["name"]: tuple(map(Patch, each.get("patches", ())))
        for each in decoded.get("patchSets", ())
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


# Checking


def _check_input(decoded: Mapping[str, Any]) -> Problem | None:
    for patch_set in decoded.get("patchSets", ()):
        # Which set it is has never been named.
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
