"""Events of a watch that are left out unread: only what is surely of another namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kanister_py.adapters.cluster_kube.watches import is_of


def event(kind: str = "MODIFIED", namespace: str = "theirs", **metadata: Any) -> dict[str, Any]:
    named = {**metadata, "name": "a", "namespace": namespace, "resourceVersion": "7"}
    return {"type": kind, "object": {"kind": "ActionSet", "metadata": named}}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(line(event()), True, id="what changed elsewhere"),
        pytest.param(line(event("DELETED")), True, id="what went elsewhere"),
        pytest.param(line(event(namespace="ours")), False, id="what changed here"),
        pytest.param(
            line(event(labels={"namespace": "theirs"}, namespace="ours")),
            False,
            id="a label that names another namespace",
        ),
        pytest.param(
            line(event(labels={"namespace": "ours"})),
            False,
            id="what elsewhere names this namespace is read to be sure",
        ),
        pytest.param(
            line(
                event(annotations={"last": '{"metadata":{"namespace":"theirs"}}'}, namespace="ours")
            ),
            False,
            id="another namespace within a text",
        ),
        pytest.param(
            json.dumps(event(namespace="theirs")).encode(), False, id="JSON with spaces in it"
        ),
        pytest.param(
            line(event(namespace="theirs")).replace(b'"theirs"', b' "ours"')
            + b'"namespace":"theirs"',
            False,
            id="JSON with a space in one place",
        ),
        pytest.param(
            line({"type": "BOOKMARK", "object": {"metadata": {}}}), False, id="a bookmark"
        ),
        pytest.param(
            line({"type": "ERROR", "object": {"details": {"namespace": "theirs"}}}),
            False,
            id="an error",
        ),
    ],
)
def test_an_event_is_left_out_only_if_it_is_surely_of_another_namespace(
    data: bytes, want: bool
) -> None:
    assert is_of(data, lambda namespace: namespace != "ours") is want
