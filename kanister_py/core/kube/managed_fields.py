"""Field managers of server-side apply: ownership of fields, and what an apply makes of it.

Sets of fields are kept as Kubernetes writes them (`FieldsV1`): a tree of dicts
whose keys are `f:name`, `k:{"name":"web"}`, `v:"value"`. A node without
children, or one that holds `.`, is itself in the set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import ApiError, Cause, UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.merge_rules import MergeRule


class ApplyConflict(ApiError, UsageError, reason="Conflict", code=409):
    """Fields to be applied belong to other field managers, and force was not asked for.

    `conflicts` are pairs of manager and path of the field.
    """

    def __init__(
        self, conflicts: Sequence[tuple[str, str]], *, resource: str = "", name: str = ""
    ) -> None:
        found = sorted(conflicts)
        managers = dict.fromkeys(manager for manager, _ in found)
        details = "; ".join(
            f'conflict with "{manager}": '
            + ", ".join(path for owner, path in found if owner == manager)
            for manager in managers
        )
        count = f"{len(found)} conflict{'s' if len(found) != 1 else ''}"
        causes = [
            Cause(path, f'conflict with "{manager}"', "FieldManagerConflict")
            for manager, path in found
        ]
        super().__init__(
            f"Apply failed with {count}: {details}", resource=resource, name=name, causes=causes
        )
        self.conflicts = tuple(found)


FieldSet: TypeAlias = dict[str, Any]

_SELF: Final = "."
_DEEP: Final = frozenset({dict, list})
_MANY_UPDATES: Final = 10

# What the cluster writes itself belongs to no manager.
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
    """Name one item of a list that is merged; None if it cannot be distinguished."""
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
    """Name every item of a list; None if it can only be taken whole."""
    if not (rule.is_set or rule.list_keys):
        return None
    found: dict[str, Any] = {}
    for item in items:
        key = _key_of_item(item, rule)
        if key is None or key in found:
            return None
        found[key] = item
    return found


def fields_of(value: Any, rule: MergeRule) -> FieldSet:
    """Say which fields a value sets."""
    if not value or rule.is_atomic:
        return {}
    # Exact types: this runs for every field of every write.
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
    """Say which fields of an object a manager can own."""
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
    """Say which fields were set anew or otherwise, and which are gone.

    None stands for the empty set: an empty tree would mean the field itself.
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
    """Say which fields are in either set."""
    merged: FieldSet = dict(left)
    for key, inside in right.items():
        if key == _SELF:
            merged[key] = {}
        elif merged.get(key) and inside:
            merged[key] = union(merged[key], inside)
        elif key in merged and (merged[key] or inside):
            # A field that is in its set itself, and has fields inside that are, too.
            merged[key] = {_SELF: {}, **merged[key], **inside}
        else:
            merged[key] = inside
    return merged


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Say which fields are in the first set and not in the second."""
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
            rest = difference(inside, other or {_SELF: {}})
            if rest:
                kept[key] = {} if rest.keys() == {_SELF} else rest
    return kept


def covering(fields: FieldSet, changed: FieldSet) -> FieldSet:
    """Say which owned fields a change touches: the same, or one that holds what was changed.

    A manager may own a field whole (an empty map, a value that was plain) which
    now has fields of its own.
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
    """Write every field of a set as people read it: `.spec.containers[name="web"].image`."""
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
    """Who writes, and how: one entry of `managedFields`."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


Ownership: TypeAlias = dict[Manager, tuple[FieldSet, str]]
"""What each manager owns, and since when."""


def read_managed_fields(entries: Sequence[Mapping[str, Any]] | None) -> Ownership:
    """Read the entries of an object's metadata."""
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
    """Write the entries of an object's metadata: who applies first, then by age."""
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
    """Say who owns what after a plain write: what the writer changed is the writer's."""
    if before is None:
        return {manager: (fields_of_object(after, rule), now)}
    changed, gone = changes_between(before, after, rule)
    taken = _without_unowned(changed or {})
    lost = _without_unowned(gone or {})
    result: Ownership = {}
    for owner, (fields, time) in ownership.items():
        kept = difference(fields, lost) if lost else fields
        if owner != manager and taken:
            kept = difference(kept, covering(kept, taken))
        if kept:
            result[owner] = (kept, time)
    if taken:
        mine = result.get(manager, ({}, ""))[0]
        result[manager] = (union(mine, taken), now)
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
    """The object after an apply, and who owns what in it."""

    object: dict[str, Any]
    ownership: Ownership


def apply_fields(
    live: Mapping[str, Any] | None,
    ownership: Ownership,
    wanted: Mapping[str, Any],
    rule: MergeRule,
    manager: Manager,
    now: str,
    *,
    force: bool,
) -> Applied:
    """Say what an object looks like after a manager applied what it wants.

    Fields of other managers that would change are conflicts, unless forced:
    then they change hands. What the manager applied before and no longer wants
    goes, if no other manager owns it.
    """
    mine = fields_of_object(wanted, rule)
    before = dict(live or {})
    merged = _merged(before, wanted, rule) if live is not None else copy_json(wanted)
    changed, _ = changes_between(before, merged, rule)
    taken = _without_unowned(changed or {})
    others = {owner: held for owner, held in ownership.items() if owner != manager}
    conflicts = [
        (owner.name, path)
        for owner, (fields, _) in others.items()
        for path in paths_of(covering(fields, taken))
    ]
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    result: Ownership = {}
    for owner, (fields, time) in others.items():
        kept = difference(fields, covering(fields, taken)) if taken else fields
        if kept:
            result[owner] = (kept, time)
    previous, since = ownership.get(manager, ({}, now))
    dropped = difference(previous, _with_parents(mine))
    for fields, _ in result.values():
        dropped = _without_shared(dropped, fields)
    if dropped:
        _remove_fields(merged, dropped, rule)
    if mine:
        result[manager] = (mine, since if previous == mine else now)
    return Applied(merged, result)


def _with_parents(fields: FieldSet) -> FieldSet:
    """Own with every field the maps that it is in: what was an empty map is still wanted."""
    return {
        key: {_SELF: {}, **_with_parents(inside)} if inside else inside
        for key, inside in fields.items()
    }


def _without_shared(dropped: FieldSet, held: FieldSet) -> FieldSet:
    """Leave out what other managers hold, and whatever holds something of theirs."""
    kept: FieldSet = {}
    for key, inside in dropped.items():
        other = held.get(key)
        if key == _SELF:
            if not held:
                kept[key] = {}
        elif other is None:
            kept[key] = inside
        elif inside and other:
            rest = _without_shared(inside, other)
            if rest:
                kept[key] = rest
    return kept


def _merged(before: Any, wanted: Any, rule: MergeRule) -> Any:
    if not rule.is_atomic:
        if isinstance(before, Mapping) and isinstance(wanted, Mapping):
            merged = {key: copy_json(value) for key, value in before.items() if key not in wanted}
            for key, value in wanted.items():
                merged[key] = (
                    _merged(before[key], value, rule.child(key))
                    if key in before
                    else copy_json(value)
                )
            return merged
        if isinstance(before, list) and isinstance(wanted, list):
            old, new = _items_by_key(before, rule), _items_by_key(wanted, rule)
            if old is not None and new is not None:
                return _merged_items(old, new, rule.item or rule)
    return copy_json(wanted)


def _merged_items(old: Mapping[str, Any], new: Mapping[str, Any], inside: MergeRule) -> list[Any]:
    """Merge two lists: items keep the places they have, new ones come after their neighbours."""

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
    """Take fields out of a value, and with them the maps and lists that are left empty."""
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
