"""Accessors for present, empty and missing parts of an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kanister_py.core.kube import parts

_READERS = [
    parts.metadata_of,
    parts.spec_of,
    parts.status_of,
    parts.name_of,
    parts.namespace_of,
    parts.labels_of,
    parts.annotations_of,
    parts.conditions_of,
    parts.owners_of,
]


@pytest.mark.parametrize("read", _READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({}, id="missing"),
        pytest.param({"metadata": {}, "spec": {}, "status": {}}, id="empty"),
        pytest.param({"metadata": None, "spec": None, "status": None}, id="null"),
    ],
)
def test_missing_part_is_empty(read: Callable[[dict[str, Any]], Any], obj: dict[str, Any]) -> None:
    part = read(obj)
    assert part is not None
    assert not part


def test_null_part_is_empty() -> None:
    named = ("name", "namespace", "labels", "annotations", "ownerReferences")
    obj = {"metadata": dict.fromkeys(named), "status": {"conditions": None}}
    assert [read(obj) for read in _READERS[3:]] == ["", "", {}, {}, (), ()]


def test_existing_part_is_returned() -> None:
    metadata = {
        "name": "db",
        "namespace": "shop",
        "labels": {"app": "db"},
        "annotations": {"by": "hand"},
        "ownerReferences": [{"uid": "1"}],
    }
    obj = {"metadata": metadata, "spec": {"a": 1}, "status": {"conditions": [{"type": "Ready"}]}}
    assert [read(obj) for read in _READERS] == [
        metadata,
        {"a": 1},
        {"conditions": [{"type": "Ready"}]},
        "db",
        "shop",
        {"app": "db"},
        {"by": "hand"},
        [{"type": "Ready"}],
        [{"uid": "1"}],
    ]


def test_name_is_always_a_string() -> None:
    obj = {"metadata": {"name": 5, "namespace": True}}
    assert (parts.name_of(obj), parts.namespace_of(obj)) == ("5", "True")


def test_missing_condition_is_empty_and_not_true() -> None:
    ready, synced = {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}
    obj = {"status": {"conditions": [ready, synced]}}
    assert parts.condition_of(obj, "Synced") == synced
    assert parts.condition_of(obj, "Healthy") == {}
    assert [parts.is_true(obj, name) for name in ("Ready", "Synced", "Healthy")] == [
        True,
        False,
        False,
    ]
