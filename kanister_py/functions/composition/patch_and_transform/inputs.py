"""What does an input ask for? Read, checked and made ready once, then used many times."""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.functions.composition.answering import NotShaped
from kanister_py.functions.composition.patch_and_transform.connection import (
    SecretReference,
    check_connection_detail,
)
from kanister_py.functions.composition.patch_and_transform.decoding import decode_input
from kanister_py.functions.composition.patch_and_transform.mending import mended
from kanister_py.functions.composition.patch_and_transform.patches import (
    PATCH_SET,
    Patch,
    check_environment_patch,
    check_patch,
    compile_patches,
    type_of,
)
from kanister_py.functions.composition.patch_and_transform.problems import (
    InvalidInput,
    Problem,
    required,
)
from kanister_py.functions.composition.patch_and_transform.readiness import (
    check_readiness_check,
)


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
    """The plans of the inputs seen last."""

    def __init__(self, make: Callable[[Any], Plan]) -> None:
        self._make = make
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()
        self._kept_bytes = 0
        self._lock = Lock()

    def plan_for(self, given: Any) -> Plan:
        try:
            # What is written alike is alike, true and 1 told apart. An equal input that
            # shares other parts of itself may be written otherwise, and gets a plan of its own.
            key = marshal.dumps(given)
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


def plan_input(given: Any) -> Plan:
    """Make an input ready; `InvalidInput` says what is wrong with it."""
    return _plan_of(_decoded(given))


def plan_mended(given: Any) -> Plan:
    """The same as from v0.2.0 on: with published defaults, and whole numbers as integers."""
    return _plan_of(mended(_decoded(given)))._replace(has_integers=True)


plan_for = _Plans(plan_input).plan_for
mended_plan_for = _Plans(plan_mended).plan_for


def _decoded(given: Any) -> dict[str, Any]:
    try:
        return decode_input(given)
    except NotShaped as error:
        raise InvalidInput(
            "cannot get Function input: cannot get function input *v1beta1.Resources "
            "from *v1.RunFunctionRequest: cannot unmarshal JSON from *structpb.Struct "
            f"into *v1beta1.Resources: json: {error}"
        ) from error


def _plan_of(decoded: Mapping[str, Any]) -> Plan:
    problem = _check_input(decoded)
    if problem is not None:
        raise InvalidInput(f"invalid Function input: {problem}")
    secret = SecretReference(decoded.get("writeConnectionSecretToRef", {}))
    environment = tuple(
        Patch(each, is_beside_resources=True)
        for each in decoded.get("environment", {}).get("patches", ())
    )
    sets = {
        each["name"]: compile_patches(each.get("patches", ()))
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
    for each in decoded.get("patchSets", ()):
        # Which set it is has never been told.
        problem = _check_patch_set(each)
        if problem is not None:
            return problem
    environment = decoded.get("environment", {}).get("patches", ())
    if not decoded.get("resources") and not environment:
        return required("resources", "resources or environment patches are required")
    for at, each in enumerate(decoded.get("resources", ())):
        problem = _check_template(each)
        if problem is not None:
            return problem.inside(f"resources[{at}]")
    for at, each in enumerate(environment):
        problem = check_environment_patch(each, at)
        if problem is not None:
            return problem.inside("environment")
    return _check_reference(decoded.get("writeConnectionSecretToRef", {}))


def _check_patch_set(patch_set: Mapping[str, Any]) -> Problem | None:
    if not patch_set.get("name"):
        return required("name", "name is required")
    return _check_patches(patch_set, "PatchSetPatch")


def _check_patches(parent: Mapping[str, Any], go_type: str) -> Problem | None:
    for at, patch in enumerate(parent.get("patches", ())):
        problem = check_patch(patch, go_type)
        if problem is not None:
            return problem.inside(f"patches[{at}]")
    return None


def _check_template(template: Mapping[str, Any]) -> Problem | None:
    if not template.get("name"):
        return required("name", "name is required")
    problem = _check_patches(template, "ComposedPatch")
    if problem is not None:
        return problem
    for key, check in (
        ("connectionDetails", check_connection_detail),
        ("readinessChecks", check_readiness_check),
    ):
        for at, each in enumerate(template.get(key, ())):
            problem = check(each)
            if problem is not None:
                return problem.inside(f"{key}[{at}]")
    return None


def _check_reference(reference: Mapping[str, Any]) -> Problem | None:
    problem = _check_patches(reference, "ConnectionSecretPatch")
    return problem and problem.inside("writeConnectionSecretToRef")
