"""Patches: validated in advance, and prepared for repeated use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kanister_py.core.kube.field_paths import (
    FieldPath,
    FieldPathError,
    MergeOptions,
    parse_field_path,
)
from kanister_py.functions.composition.patch_and_transform import string_transforms, transforms
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    first_problem,
    invalid,
    required,
)
from kanister_py.functions.composition.patch_and_transform.transforms import (
    check_transform,
    compile_transforms,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    Document,
    Unresolved,
    settled,
)

FROM_COMPOSITE: Final = "FromCompositeFieldPath"
COMBINE_FROM_COMPOSITE: Final = "CombineFromComposite"
PATCH_SET: Final = "PatchSet"

COMPOSITE: Final = 0
ENVIRONMENT: Final = 1
COMPOSED: Final = 2
# Source and target of every type.
_ENDS: Final[Mapping[str, tuple[int, int]]] = {
    FROM_COMPOSITE: (COMPOSITE, COMPOSED),
    COMBINE_FROM_COMPOSITE: (COMPOSITE, COMPOSED),
    "FromEnvironmentFieldPath": (ENVIRONMENT, COMPOSED),
    "CombineFromEnvironment": (ENVIRONMENT, COMPOSED),
    "ToCompositeFieldPath": (COMPOSED, COMPOSITE),
    "CombineToComposite": (COMPOSED, COMPOSITE),
    "ToEnvironmentFieldPath": (COMPOSED, ENVIRONMENT),
    "CombineToEnvironment": (COMPOSED, ENVIRONMENT),
}
_ENDS_BESIDE_RESOURCES: Final[Mapping[str, tuple[int, int]]] = {
    FROM_COMPOSITE: (COMPOSITE, ENVIRONMENT),
    COMBINE_FROM_COMPOSITE: (COMPOSITE, ENVIRONMENT),
    "ToEnvironmentFieldPath": (COMPOSITE, ENVIRONMENT),
    "ToCompositeFieldPath": (ENVIRONMENT, COMPOSITE),
    "CombineToComposite": (ENVIRONMENT, COMPOSITE),
    "FromEnvironmentFieldPath": (ENVIRONMENT, COMPOSITE),
}
_COMBINED: Final = frozenset(kind for kind in _ENDS if kind.startswith("Combine"))

_MERGES: Final[Mapping[str, MergeOptions | None]] = {
    "Replace": None,
    "MergeObjects": MergeOptions(keep_map_values=True),
    "MergeObject": MergeOptions(keep_map_values=True),
    "MergeObjectsAppendArrays": MergeOptions(keep_map_values=True, append_slice=True),
    "ForceMergeObjects": MergeOptions(),
    "ForceMergeObjectsAppendArrays": MergeOptions(append_slice=True),
    "AppendArray": MergeOptions(append_slice=True),
}


def type_of(patch: Mapping[str, Any]) -> str:
    return patch.get("type") or FROM_COMPOSITE


# Validation


def check_patch(patch: Mapping[str, Any], go_type: str) -> Problem | None:
    """Return the problem of a patch, without running anything.

    The transforms and policies of a combining patch are only checked when it runs.
    """
    kind = type_of(patch)
    if kind in _COMBINED:
        return _check_combined(patch, kind)
    if kind == PATCH_SET:
        if go_type != "ComposedPatch":
            detail = f"patch type *v1beta1.{go_type} does not support patch of type {kind}"
            return invalid("type", kind, detail)
        if not patch.get("patchSetName"):
            return required("patchSetName", f"patchSetName must be set for patch type {kind}")
    elif kind not in _ENDS:
        return invalid("type", kind, "unknown patch type", (*_ENDS, PATCH_SET))
    elif not patch.get("fromFieldPath"):
        return required("fromFieldPath", f"fromFieldPath must be set for patch type {kind}")
    transforms = patch.get("transforms")
    if transforms:
        problem = first_problem("transforms", transforms, check_transform)
        if problem is not None:
            return problem
    policy = patch.get("policy", {})
    for name, allowed in (("toFieldPath", _MERGES), ("fromFieldPath", ("Optional", "Required"))):
        if name in policy and policy[name] not in allowed:
            field, detail = f"policy.{name}Policy", f"unknown {name}Policy"
            return invalid(field, policy[name], detail, allowed)
    return None


def _check_combined(patch: Mapping[str, Any], kind: str) -> Problem | None:
    combine = patch.get("combine")
    if combine is None:
        return required("combine", f"combine must be set for patch type {kind}")
    if not patch.get("toFieldPath", patch.get("fromFieldPath")):
        return required("toFieldPath", f"toFieldPath must be set for patch type {kind}")
    problem = _check_combine(combine)
    return problem and problem.inside("combine")


def _check_combine(combine: Mapping[str, Any]) -> Problem | None:
    strategy = combine.get("strategy", "")
    if not strategy:
        return required("strategy", "a combine strategy must be provided")
    if strategy != "string":
        return invalid("strategy", strategy, "unknown strategy type", ("string",))
    if "string" not in combine:
        return required("string", f"string must be set for combine strategy {strategy}")
    if not combine.get("variables"):
        return required("variables", "at least one variable must be provided")
    for at, variable in enumerate(combine["variables"]):
        if not variable.get("fromFieldPath"):
            return required(
                f"variables[{at}].fromFieldPath",
                "fromFieldPath must be set for each combine variable",
            )
    return None


def check_environment_patch(patch: Mapping[str, Any], at: int) -> Problem | None:
    """Return the problem of a patch between composite resource and environment."""
    kind = type_of(patch)
    if kind not in _ENDS_BESIDE_RESOURCES:
        field, detail = f"patches[{at}][type]", "invalid environment patch type"
        return invalid(field, kind, detail, _ENDS_BESIDE_RESOURCES)
    problem = check_patch(patch, "EnvironmentPatch")
    return problem and problem.inside(f"patches[{at}]")


# Application


class _Unreadable(FieldPath):
    """Invalid path, which raises its error when it is used."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__((), text)

    def get(self, obj: Any) -> Any:
        return parse_field_path(self.text).get(obj)

    def find(self, obj: Any) -> Any:
        return parse_field_path(self.text).find(obj)

    def set(self, obj: dict[str, Any], value: Any) -> None:
        parse_field_path(self.text).set(obj, value)

    def expand(self, obj: Any) -> list[FieldPath]:
        return parse_field_path(self.text).expand(obj)


def _path_of(text: str) -> FieldPath:
    try:
        return parse_field_path(text)
    except FieldPathError:
        return _Unreadable(text)


Read: TypeAlias = Callable[[Document], Any]


class Patch:
    """Patch that is prepared for repeated use."""

    def __init__(self, patch: Mapping[str, Any], *, is_beside_resources: bool = False) -> None:
        self.type = type_of(patch)
        ends = _ENDS_BESIDE_RESOURCES if is_beside_resources else _ENDS
        self.source, self.target = ends[self.type]
        policy = patch.get("policy", {})
        self.is_required = policy.get("fromFieldPath") == "Required"
        # For a combining patch, this is only reported when it runs.
        policy_name = policy.get("toFieldPath", "Replace")
        self._merge = _MERGES.get(policy_name)
        self._unknown_policy = None if policy_name in _MERGES else policy_name
        is_combined = self.type in _COMBINED
        to = patch.get("toFieldPath", patch.get("fromFieldPath", ""))
        self._to = _path_of(to)
        self._writes_to_all = "[*]" in to and not is_combined
        self._read = _reader_of_several(patch, self._merge) if is_combined else _reader(patch)

    def apply(self, source: Document, target: Document) -> None:
        """Read a value from one document and write it to another.

        Raises FieldNotFound if the value is missing; all other errors are permanent.
        """
        value = self._read(source)
        if self._unknown_policy is not None:
            raise Unresolved(f"invalid patch policy {self._unknown_policy}")
        if self._writes_to_all:
            self._write_to_all(target, value)
            return
        try:
            target.write(self._to, value, self._merge)
            target.written()
        except FieldPathError as error:
            raise type(error)(f"cannot patch to object: {error}") from error
        except Unresolved as error:
            raise Unresolved(f"cannot patch to object: {error}") from error

    def _write_to_all(self, target: Document, value: Any) -> None:
        paths = self._to.expand(target.data)
        if not paths:
            raise Unresolved(f"cannot expand ToFieldPath {self._to.text}")
        for path in paths:
            target.write(path, settled(value), self._merge)
        target.written()


def _reader(patch: Mapping[str, Any]) -> Read:
    """Return a function that reads and transforms the value of a patch."""
    path = _path_of(patch.get("fromFieldPath", ""))
    transforms: Sequence[Mapping[str, Any]] = patch.get("transforms", ())
    if not transforms:
        return lambda source: settled(path.get(source.data))
    resolve = compile_transforms(transforms)
    return lambda source: settled(resolve(source.read(path)))


def _reader_of_several(patch: Mapping[str, Any], merge: MergeOptions | None) -> Read:
    combine = patch["combine"]
    paths = [_path_of(variable["fromFieldPath"]) for variable in combine["variables"]]
    format_ = string_transforms.compile_format(combine["string"].get("fmt", ""))
    resolve = transforms.compile_transforms(patch.get("transforms", ()))

    def read(source: Document) -> Any:
        value = resolve(format_([source.read(path) for path in paths]))
        return settled(value) if merge is None else value

    return read
