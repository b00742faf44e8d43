"""Field managers of server-side apply: ownership of fields, and the result of an apply.

Sets of fields have the form of `FieldsV1` in Kubernetes: a tree of dicts with keys
`f:name`, `k:{"name":"web"}`, `v:"value"`. A node without children, or with the
key `.`, is itself in the set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import ApiError, Cause, UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.merge_rules import MergeRule


class ApplyConflict(ApiError, UsageError, reason="Conflict", code=409):
    """Applied fields belong to other field managers, and `force` was not set.

    `conflicts` are pairs of a manager and the path of a field.
    """

    def __init__(
        self, conflicts: Sequence[tuple[str, str]], *, resource: str = "", name: str = ""
    ) -> None:
        pairs = sorted(conflicts)
        managers = dict.fromkeys(manager for manager, _ in pairs)
        details = "; ".join(
            f'conflict with "{manager}": '
            + ", ".join(path for owner, path in pairs if owner == manager)
            for manager in managers
        )
        count = f"{len(pairs)} conflict{'s' if len(pairs) != 1 else ''}"
        causes = [
            Cause(path, f'conflict with "{manager}"', "FieldManagerConflict")
            for manager, path in pairs
        ]
        super().__init__(
            f"Apply failed with {count}: {details}", resource=resource, name=name, causes=causes
        )
        self.conflicts = tuple(pairs)


FieldSet: TypeAlias = dict[str, Any]

_SELF: Final = "."
_DEEP: Final = frozenset({dict, list})
_MANY_UPDATES: Final = 10

# Fields that the cluster writes belong to no manager.
_UNOWNED_METADATA: Final = (
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:clusterName",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
)


def _key_of_item(item: Any, rule: MergeRule) -> str | None:
    """Return the key of an item in a merged list, or None if it has no key."""
    if rule.is_set:
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(item, Mapping):
        return None
    key = {}
    for name in rule.list_keys:
        value = item.get(name, rule.key_defaults.get(name))
        if value is not None:
            key[name] = value
    if not key:
        return None
    return "k:" + json.dumps(key, separators=(",", ":"), ensure_ascii=False)


def _items_by_key(items: Sequence[Any], rule: MergeRule) -> dict[str, Any] | None:
    """Return the items of a list by their keys, or None if the list is atomic."""
    if not (rule.is_set or rule.list_keys):
        return None
    by_key: dict[str, Any] = {}
    for item in items:
        key = _key_of_item(item, rule)
        if key is None or key in by_key:
            return None
        by_key[key] = item
    return by_key


def fields_of(value: Any, rule: MergeRule) -> FieldSet:
    """Return the fields that a value sets."""
    if not value or rule.is_atomic:
        return {}
    # Exact types are faster than isinstance, and this runs for every field of every write.
    kind = type(value)
    if kind is dict:
        return {
            f"f:{key}": fields_of(inside, rule.child(key)) if type(inside) in _DEEP else {}
            for key, inside in value.items()
        }
    if kind is list:
        by_key = _items_by_key(value, rule)
        if by_key is None:
            return {}
        if rule.is_set:
            return {key: {} for key in by_key}
        inside = rule.item or rule
        return {key: {_SELF: {}, **fields_of(item, inside)} for key, item in by_key.items()}
    return {}


def fields_of_object(obj: Mapping[str, Any], rule: MergeRule) -> FieldSet:
    """Return the fields of an object that a manager can own."""
    return _without_unowned(fields_of(obj, rule))


def _without_unowned(fields: FieldSet) -> FieldSet:
    fields.pop("f:apiVersion", None)
    fields.pop("f:kind", None)
    metadata = fields.get("f:metadata")
    if metadata is not None:
        for name in _UNOWNED_METADATA:
            metadata.pop(name, None)
        if not metadata:
            del fields["f:metadata"]
    return fields


def changes_between(
    before: Any, after: Any, rule: MergeRule
) -> tuple[FieldSet | None, FieldSet | None]:
    """Return two sets: the added or changed fields, and the removed fields.

    None is the empty set, since an empty tree is the field itself.
    """
    if before == after and type(before) is type(after):
        return None, None
    if not rule.is_atomic:
        if type(before) is dict and type(after) is dict and before and after:
            pairs = (
                (
                    f"f:{key}",
                    key in before,
                    before.get(key),
                    key in after,
                    after.get(key),
                    rule.child(key),
                )
                for key in {**before, **after}
                if key not in before or key not in after or before[key] != after[key]
            )
            return _gather(pairs)
        if type(before) is list and type(after) is list and before and after:
            old, new = _items_by_key(before, rule), _items_by_key(after, rule)
            if old is not None and new is not None:
                inside = rule.item or rule
                pairs = (
                    (key, key in old, old.get(key), key in new, new.get(key), inside)
                    for key in {**old, **new}
                )
                return _gather(pairs)
    gone = fields_of(before, rule)
    return fields_of(after, rule), gone or None


def _gather(
    pairs: Iterator[tuple[str, bool, Any, bool, Any, MergeRule]],
) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    gone: FieldSet = {}
    for key, was, before, is_now, after, rule in pairs:
        if not was:
            changed[key] = _owned(key, fields_of(after, rule))
        elif not is_now:
            gone[key] = _owned(key, fields_of(before, rule))
        else:
            inner_changed, inner_gone = changes_between(before, after, rule)
            if inner_changed is not None:
                changed[key] = inner_changed
            if inner_gone is not None:
                gone[key] = inner_gone
    return changed or None, gone or None


def _owned(key: str, fields: FieldSet) -> FieldSet:
    return {_SELF: {}, **fields} if key.startswith("k:") else fields


# Sets


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in either set."""
    merged: FieldSet = dict(left)
    for key, inside in right.items():
        if key == _SELF:
            merged[key] = {}
        elif merged.get(key) and inside:
            merged[key] = union(merged[key], inside)
        elif key in merged and (merged[key] or inside):
            # The field itself is in a set, and so are fields below it.
            merged[key] = {_SELF: {}, **merged[key], **inside}
        else:
            merged[key] = inside
    return merged


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in the first set but not in the second."""
    kept: FieldSet = {}
    for key, inside in left.items():
        other = right.get(key)
        if key == _SELF:
            if _SELF not in right:
                kept[key] = inside
        elif other is None:
            kept[key] = inside
        elif not inside:
            if other and _SELF not in other:
                kept[key] = inside
        else:
            remaining = difference(inside, other or {_SELF: {}})
            if remaining:
                kept[key] = {} if remaining.keys() == {_SELF} else remaining
    return kept


def covering(fields: FieldSet, changed: FieldSet) -> FieldSet:
    """Return the owned fields that a change affects: the same fields, or parents of them.

    A manager may own a whole field (an empty map, a scalar) that now has fields below it.
    """
    kept: FieldSet = {}
    for key, inside in fields.items():
        other = changed.get(key)
        if other is None:
            continue
        if key == _SELF or not inside:
            if not other or _SELF in other or key != _SELF:
                kept[key] = {}
            continue
        both = inside if not other else covering(inside, other)
        if both:
            kept[key] = both
    return kept


def paths_of(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the fields in a set, such as `.spec.containers[name="web"].image`."""
    for key, inside in fields.items():
        if key == _SELF:
            yield prefix
            continue
        path = prefix + _path_element(key)
        if inside:
            yield from paths_of(inside, path)
        else:
            yield path


def _path_element(key: str) -> str:
    kind, _, text = key.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    pairs: dict[str, Any] = json.loads(text)
    keys = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(pairs.items()))
    return f"[{keys}]"


# Managers


class Manager(NamedTuple):
    """Manager and operation of one entry in `managedFields`."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


Ownership: TypeAlias = dict[Manager, tuple[FieldSet, str]]
"""Owned fields and time of the last change, by manager."""


def read_managed_fields(entries: Sequence[Mapping[str, Any]] | None) -> Ownership:
    """Parse the `managedFields` of an object."""
    return {
        Manager(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        ): (entry.get("fieldsV1") or {}, entry.get("time", ""))
        for entry in entries or ()
    }


def write_managed_fields(ownership: Ownership) -> list[dict[str, Any]]:
    """Build the `managedFields` of an object: Apply before Update, then by age."""
    order = sorted(
        ownership.items(), key=lambda item: (item[0].operation, item[1][1], item[0].name)
    )
    return [
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, (fields, time) in order
    ]


def after_update(
    ownership: Ownership,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    rule: MergeRule,
    manager: Manager,
    now: str,
) -> Ownership:
    """Return the ownership after a create or update: changed fields go to the writer."""
    if before is None:
        return {manager: (fields_of_object(after, rule), now)}
    changed, gone = changes_between(before, after, rule)
    claimed = _without_unowned(changed or {})
    lost = _without_unowned(gone or {})
    result: Ownership = {}
    for owner, (fields, time) in ownership.items():
        kept = difference(fields, lost) if lost else fields
        if owner != manager and claimed:
            kept = difference(kept, covering(kept, claimed))
        if kept:
            result[owner] = (kept, time)
    if claimed:
        own = result.get(manager, ({}, ""))[0]
        result[manager] = (union(own, claimed), now)
    return _few_updates(result)


def _few_updates(ownership: Ownership) -> Ownership:
    updates = [manager for manager in ownership if manager.operation == "Update"]
    if len(updates) <= _MANY_UPDATES:
        return ownership
    updates.sort(key=lambda manager: ownership[manager][1])
    merged: FieldSet = {}
    time = ""
    for manager in updates[: len(updates) - _MANY_UPDATES + 1]:
        fields, time = ownership.pop(manager)
        merged = union(merged, fields)
    ancient = Manager("ancient-changes", "Update", updates[0].api_version)
    ownership[ancient] = (merged, time)
    return ownership


class Applied(NamedTuple):
    """The object after an apply, and its ownership."""

    object: dict[str, Any]
    ownership: Ownership


def apply_fields(
    live: Mapping[str, Any] | None,
    ownership: Ownership,
    applied: Mapping[str, Any],
    rule: MergeRule,
    manager: Manager,
    now: str,
    *,
    force: bool,
) -> Applied:
    """Return an object after a server-side apply.

    Changes to fields of other managers raise `ApplyConflict`; with `force`, the fields
    change owner. Fields that the manager applied before but no longer applies are removed
    if no other manager owns them.
    """
    own = fields_of_object(applied, rule)
    before = dict(live or {})
    merged = _merged(before, applied, rule) if live is not None else copy_json(applied)
    changed, _ = changes_between(before, merged, rule)
    claimed = _without_unowned(changed or {})
    other_managers = {owner: held for owner, held in ownership.items() if owner != manager}
    conflicts = [
        (owner.name, path)
        for owner, (fields, _) in other_managers.items()
        for path in paths_of(covering(fields, claimed))
    ]
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    result: Ownership = {}
    for owner, (fields, time) in other_managers.items():
        kept = difference(fields, covering(fields, claimed)) if claimed else fields
        if kept:
            result[owner] = (kept, time)
    previous, since = ownership.get(manager, ({}, now))
    dropped = difference(previous, _with_parents(own))
    for fields, _ in result.values():
        dropped = _without_shared(dropped, fields)
    if dropped:
        _remove_fields(merged, dropped, rule)
    if own:
        result[manager] = (own, since if previous == own else now)
    return Applied(merged, result)


def _with_parents(fields: FieldSet) -> FieldSet:
    """Add the parents of all fields, so that a formerly empty map is not removed."""
    return {
        key: {_SELF: {}, **_with_parents(inside)} if inside else inside
        for key, inside in fields.items()
    }


def _without_shared(dropped: FieldSet, held: FieldSet) -> FieldSet:
    """Leave out fields that another manager owns, and their parents."""
    kept: FieldSet = {}
    for key, inside in dropped.items():
        other = held.get(key)
        if key == _SELF:
            if not held:
                kept[key] = {}
        elif other is None:
            kept[key] = inside
        elif inside and other:
            remaining = _without_shared(inside, other)
            if remaining:
                kept[key] = remaining
    return kept


def _merged(before: Any, applied: Any, rule: MergeRule) -> Any:
    if not rule.is_atomic:
        if isinstance(before, Mapping) and isinstance(applied, Mapping):
            merged = {key: copy_json(value) for key, value in before.items() if key not in applied}
            for key, value in applied.items():
                merged[key] = (
                    _merged(before[key], value, rule.child(key))
                    if key in before
                    else copy_json(value)
                )
            return merged
        if isinstance(before, list) and isinstance(applied, list):
            old, new = _items_by_key(before, rule), _items_by_key(applied, rule)
            if old is not None and new is not None:
                return _merged_items(old, new, rule.item or rule)
    return copy_json(applied)


def _merged_items(old: Mapping[str, Any], new: Mapping[str, Any], inside: MergeRule) -> list[Any]:
    """Merge two lists. Existing items keep their order, new ones follow their predecessors."""

    def merged_item(key: str) -> Any:
        return _merged(old[key], new[key], inside) if key in old else copy_json(new[key])

    merged: list[Any] = []
    waiting = list(new)
    for key, item in old.items():
        if key not in new:
            merged.append(copy_json(item))
        elif key in waiting:
            upto = waiting.index(key) + 1
            merged.extend(map(merged_item, waiting[:upto]))
            del waiting[:upto]
    merged.extend(map(merged_item, waiting))
    return merged


def _remove_fields(value: Any, fields: FieldSet, rule: MergeRule) -> None:
    """Remove fields from a value, and maps and lists that become empty."""
    if isinstance(value, dict):
        for key, inside in fields.items():
            name = key[2:]
            if not key.startswith("f:") or name not in value:
                continue
            if not inside:
                del value[name]
                continue
            _remove_fields(value[name], inside, rule.child(name))
            if value[name] in ({}, []):
                del value[name]
    elif isinstance(value, list):
        for key, inside in fields.items():
            for index, item in enumerate(value):
                if _key_of_item(item, rule) != key:
                    continue
                if not inside or _SELF in inside:
                    del value[index]
                else:
                    _remove_fields(item, inside, rule.item or rule)
                break
