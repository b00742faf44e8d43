"""Parts of an object, read alike whether they are there, empty or missing."""

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
def test_what_an_object_does_not_have_reads_as_empty(
    read: Callable[[dict[str, Any]], Any], obj: dict[str, Any]
) -> None:
    found = read(obj)
    assert found is not None
    assert not found


def test_what_is_null_inside_reads_as_empty_too() -> None:
    named = ("name", "namespace", "labels", "annotations", "ownerReferences")
    obj = {"metadata": dict.fromkeys(named), "status": {"conditions": None}}
    assert [read(obj) for read in _READERS[3:]] == ["", "", {}, {}, (), ()]


def test_what_an_object_has_is_read_from_its_place() -> None:
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


def test_a_name_is_a_text_whatever_a_file_says() -> None:
    obj = {"metadata": {"name": 5, "namespace": True}}
    assert (parts.name_of(obj), parts.namespace_of(obj)) == ("5", "True")


def test_a_condition_that_is_not_there_is_empty_and_not_true() -> None:
    ready, synced = {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}
    obj = {"status": {"conditions": [ready, synced]}}
    assert parts.condition_of(obj, "Synced") == synced
    assert parts.condition_of(obj, "Healthy") == {}
    assert [parts.is_true(obj, each) for each in ("Ready", "Synced", "Healthy")] == [
        True,
        False,
        False,
    ]
