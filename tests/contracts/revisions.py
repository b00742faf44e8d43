"""Contract of clusters with our definitions: CompositionRevisions are immutable."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import Invalid
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.cluster import Cluster

REVISIONS = GroupVersionResource("apiextensions.crossplane.io", "v1", "compositionrevisions")


def check_revisions_are_immutable_except_for_their_number(cluster: Cluster) -> None:
    step = {"step": "a", "functionRef": {"name": "f"}}
    spec = {
        "revision": 2,
        "mode": "Pipeline",
        "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XBucket"},
        "pipeline": [step],
    }
    cluster.create(
        {
            "apiVersion": REVISIONS.api_version,
            "kind": "CompositionRevision",
            "metadata": {"name": "fixed"},
            "spec": spec,
        }
    )
    changes: list[dict[str, Any]] = [
        {"revision": 1},
        {"mode": "Resources"},
        {"pipeline": [{**step, "step": "b"}]},
        {"pipeline": [step, {**step, "step": "b"}]},
        {"pipeline": None},
        {"compositeTypeRef": {"kind": "XOther"}},
        {"writeConnectionSecretsToNamespace": "other"},
        {"environment": {"a": 1}},
    ]
    for change in changes:
        with pytest.raises(Invalid):
            cluster.patch(REVISIONS, "fixed", {"spec": change})
    risen = cluster.patch(REVISIONS, "fixed", {"spec": {"revision": 3}})
    assert risen["spec"] == {**spec, "revision": 3}
