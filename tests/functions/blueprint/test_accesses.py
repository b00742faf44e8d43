"""Permissions that functions declare."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.kube.access import merged
from kanister_py.functions.blueprint.create_csi_snapshot.v0_0_0 import CreateCSISnapshot
from kanister_py.functions.blueprint.create_csi_snapshot_static.v0_0_0 import (
    CreateCSISnapshotStatic,
)
from kanister_py.functions.blueprint.delete_csi_snapshot.v0_0_0 import DeleteCSISnapshot
from kanister_py.functions.blueprint.delete_csi_snapshot_content.v0_0_0 import (
    DeleteCSISnapshotContent,
)
from kanister_py.functions.blueprint.http_request.v0_1_0 import HTTPRequest
from kanister_py.functions.blueprint.kube_ops.v0_0_0 import KubeOps
from kanister_py.functions.blueprint.kube_ops.v0_1_0 import KubeOpsV010
from kanister_py.functions.blueprint.restore_csi_snapshot.v0_0_0 import RestoreCSISnapshot
from kanister_py.functions.blueprint.scale_workload.v0_0_0 import ScaleWorkload
from kanister_py.functions.blueprint.scale_workload.v0_1_0 import ScaleWorkloadV010
from kanister_py.functions.blueprint.wait.v0_0_0 import Wait
from kanister_py.functions.blueprint.wait_v2.v0_1_0 import WaitV2V010
from kanister_py.ports.function import Func

WHERE = {"namespace": "db", "name": "mine"}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
STORAGE_CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
CLAIM = {"apiVersion": "v1", "resource": "persistentvolumeclaims", "name": "{{ .Options.pvc }}"}
CONDITIONS = {"anyOf": [{"condition": "", "objectReference": {**CLAIM, "namespace": "db"}}]}


@pytest.mark.parametrize(
    ("function", "args", "want"),
    [
        pytest.param(
            KubeOps,
            {"operation": "delete", "objectReference": CLAIM, "namespace": "db"},
            ["get, list, watch, delete persistentvolumeclaims {{ .Options.pvc }} in db"],
            id="a deletion",
        ),
        pytest.param(
            KubeOps,
            {"operation": "patch", "objectReference": {**CLAIM, "group": "g"}},
            ["patch persistentvolumeclaims.g {{ .Options.pvc }} in default"],
            id="a patch",
        ),
        pytest.param(
            KubeOps,
            {"operation": "create", "spec": str(CONFIG_MAP)},
            ["get, list, create configmaps in default"],
            id="objects that are created",
        ),
        pytest.param(
            KubeOpsV010,
            {"operation": "create", "spec": [CONFIG_MAP, STORAGE_CLASS], "namespace": "db"},
            [
                "get, list, create, patch configmaps in db",
                "get, list, create, patch storageclasses.storage.k8s.io",
            ],
            id="objects that are applied",
        ),
        pytest.param(
            KubeOps, {"operation": "create", "spec": "{{ .Options.spec }}"}, None, id="who knows"
        ),
        pytest.param(
            ScaleWorkload,
            {**WHERE, "kind": "Deployment"},
            [
                "get, list, watch pods in db",
                "get, list, watch replicationcontrollers in db",
                "get, list, watch, update deployments.apps mine in db",
                "get, list, watch replicasets.apps in db",
            ],
            id="a workload",
        ),
        pytest.param(
            Wait,
            {"conditions": CONDITIONS},
            ["get, list, watch persistentvolumeclaims {{ .Options.pvc }} in db"],
            id="a wait",
        ),
        pytest.param(WaitV2V010, {"conditions": {}}, [], id="a wait for nothing"),
        pytest.param(
            CreateCSISnapshot,
            {"namespace": "db", "pvc": "data"},
            [
                "get persistentvolumeclaims data in db",
                "get, list, watch, create volumesnapshots.snapshot.storage.k8s.io in db",
            ],
            id="a snapshot that is taken",
        ),
        pytest.param(
            CreateCSISnapshotStatic,
            {"namespace": "db", "snapshotClass": "fast"},
            [
                "get, list, watch, create volumesnapshots.snapshot.storage.k8s.io in db",
                "get volumesnapshotclasses.snapshot.storage.k8s.io fast",
                "get, create volumesnapshotcontents.snapshot.storage.k8s.io",
            ],
            id="a snapshot that is made known",
        ),
        pytest.param(
            RestoreCSISnapshot,
            {"namespace": "db"},
            ["get, create persistentvolumeclaims in db"],
            id="a claim that is restored",
        ),
        pytest.param(
            DeleteCSISnapshot,
            WHERE,
            ["get, list, watch, delete volumesnapshots.snapshot.storage.k8s.io mine in db"],
            id="a snapshot that is deleted",
        ),
        pytest.param(
            DeleteCSISnapshotContent,
            {"name": "c"},
            ["delete volumesnapshotcontents.snapshot.storage.k8s.io c"],
            id="content that is deleted",
        ),
        pytest.param(HTTPRequest, {"url": "http://x/"}, [], id="nothing in the cluster"),
    ],
)
def test_function_declares_its_permissions(
    function: type[Func], args: dict[str, Any], want: list[str] | None
) -> None:
    accesses = function.access(args)
    shown = None if accesses is None else sorted(str(access) for access in merged(accesses))
    assert shown == (None if want is None else sorted(want))


def test_scale_is_a_separate_permission() -> None:
    accesses = ScaleWorkloadV010.access({"kind": "StatefulSet", **WHERE})
    resources = {access.resource: access.verbs for access in accesses or ()}
    assert "update" not in resources["statefulsets"]
    assert resources["statefulsets/scale"] == ("get", "update", "patch")
    assert "deployments" not in resources
    all_resources = {access.resource for access in ScaleWorkloadV010.access(WHERE) or ()}
    assert {"deployments", "statefulsets", "deploymentconfigs"} <= all_resources
