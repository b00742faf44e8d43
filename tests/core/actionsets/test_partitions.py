"""Partitions of controllers, and overlaps of their scopes."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.actionsets.partitions import (
    ACTION_SETS,
    COMPOSITIONS,
    PARTITION_LABEL,
    Scope,
    partition_of,
    scope_of_lease,
)
from kanister_py.core.actionsets.stored_status import STATUS_ANNOTATION


@pytest.mark.parametrize(
    ("labels", "status", "expected"),
    [
        pytest.param({}, None, "", id="no label and no status"),
        pytest.param({PARTITION_LABEL: "red"}, None, "red", id="a label before it begins"),
        pytest.param(
            {PARTITION_LABEL: "red"}, {"state": "pending"}, "red", id="a label while it waits"
        ),
        pytest.param(
            {PARTITION_LABEL: "blue"},
            {"state": "running", "partition": "red"},
            "red",
            id="a label that changed in mid-run",
        ),
        pytest.param(
            {},
            {"state": "running", "partition": "red"},
            "red",
            id="a label that was removed in mid-run",
        ),
        pytest.param(
            {PARTITION_LABEL: "red"}, {"state": "running"}, "", id="a label that came in mid-run"
        ),
        pytest.param(
            {PARTITION_LABEL: "blue"},
            {"state": "complete", "partition": "red"},
            "red",
            id="an ActionSet that ended",
        ),
    ],
)
def test_run_stays_in_the_partition_that_started_it(
    labels: dict[str, str], status: Any, expected: str
) -> None:
    assert partition_of({"metadata": {"labels": labels}, "status": status}) == expected


def test_recorded_partition_is_read_from_the_annotation() -> None:
    metadata = {"annotations": {STATUS_ANNOTATION: '{"partition": "red"}'}}
    assert partition_of({"metadata": metadata, "status": {"state": "running"}}) == "red"


BOTH = (ACTION_SETS, COMPOSITIONS)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(Scope(), Scope(), "ActionSets in all namespaces", id="everything by both"),
        pytest.param(
            Scope(namespaces=("a",)),
            Scope(),
            "ActionSets in namespace a",
            id="one namespace and all of them",
        ),
        pytest.param(
            Scope("red", ("a", "b", "c")),
            Scope("red", ("d", "c", "b")),
            "ActionSets of partition red in namespace b, c",
            id="some namespaces of a partition",
        ),
        pytest.param(Scope(namespaces=("a",)), Scope(namespaces=("b",)), "", id="other namespaces"),
        pytest.param(Scope("red"), Scope("blue"), "", id="other partitions"),
        pytest.param(Scope("red"), Scope(), "", id="a partition and no partition"),
        pytest.param(
            Scope(kinds=(ACTION_SETS,)), Scope(kinds=(COMPOSITIONS,)), "", id="other kinds"
        ),
        pytest.param(
            Scope("red", ("a",), BOTH),
            Scope("red", ("b",), BOTH),
            "composite resources of partition red",
            id="composite resources, which know no namespaces",
        ),
    ],
)
def test_overlap_of_two_scopes_is_described(one: Scope, other: Scope, expected: str) -> None:
    assert one.overlap_with(other) == other.overlap_with(one) == expected


@pytest.mark.parametrize(
    "scope", [Scope(kinds=[ACTION_SETS]), Scope("red", ("a", "b"), [ACTION_SETS, COMPOSITIONS])]
)
def test_lease_announces_the_scope_of_its_holder(scope: Scope) -> None:
    assert scope_of_lease({"metadata": {"annotations": scope.annotations}}) == scope


def test_lease_of_another_program_has_no_scope() -> None:
    assert scope_of_lease({"metadata": {}}) is None
