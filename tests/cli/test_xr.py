"""`kanister-py xr tree`: composite resources with their composed resources."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli import xr
from kanister_py.cli.parser import Parser
from kanister_py.core.compositions.composite_crds import crd_of
from kanister_py.core.compositions.definitions import read_definition
from kanister_py.core.errors import UsageError
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster

CRDS = Path(__file__).parents[2] / "kanister_py" / "crds"
RESOURCE_NAME = "crossplane.io/composition-resource-name"
FAILURE = 'cannot run Composition pipeline step "ready": no answer'


def definition(kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": f"{plural}.example.org", "uid": kind},
        "spec": {
            "group": "example.org",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "referenceable": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def composite(
    kind: str, name: str, references: list[dict[str, Any]], *conditions: dict[str, Any]
) -> dict[str, Any]:
    revision = f"{kind.lower()}-1"
    machinery = {
        "compositionRef": {"name": kind.lower()},
        "compositionRevisionRef": {"name": revision},
        "resourceRefs": references,
    }
    return {
        "apiVersion": "example.org/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "annotations": {RESOURCE_NAME: "db"}},
        "spec": {"crossplane": machinery},
        "status": {"conditions": list(conditions)},
    }


def condition(kind: str, status: str, message: str = "") -> dict[str, Any]:
    time = "2026-01-01T00:00:00Z"
    common = {"type": kind, "status": status, "reason": "Any", "lastTransitionTime": time}
    return {**common, "message": message}


def revision(name: str, called: str) -> dict[str, Any]:
    pipeline = [
        {"step": "render", "functionRef": {"name": "function-go-templating"}},
        {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
    ]
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositionRevision",
        "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "mode": "Pipeline",
            "pipeline": pipeline,
            "revision": 1,
        },
        "status": {"composedWith": [{"step": "render", "functionRevision": called}]},
    }


@pytest.fixture
def cluster() -> MemoryCluster:
    """A cluster with the XR `shop`, which composes a ConfigMap, a missing object and an XR."""
    cluster = MemoryCluster(clock=SystemClock(), default_namespace="shop")
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    for kind in ("XApp", "XDatabase"):
        cluster.load([definition(kind), crd_of(read_definition(definition(kind))[0])])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "shop-config"}
    missing = {"apiVersion": "v1", "kind": "Secret", "name": "shop-key"}
    database = {"apiVersion": "example.org/v1", "kind": "XDatabase", "name": "shop-db"}
    cluster.load(
        [
            composite(
                "XApp",
                "shop",
                [config, missing, database],
                condition("Synced", "True"),
                condition("Ready", "False", "Unready resources: db"),
            ),
            composite(
                "XDatabase",
                "shop-db",
                [],
                condition("Synced", "False", FAILURE),
            ),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "shop-config",
                    "namespace": "shop",
                    "annotations": {RESOURCE_NAME: "config"},
                },
            },
            revision("xapp-1", "templates-1"),
            revision("xdatabase-1", "templates-1"),
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "FunctionRevision",
                "metadata": {
                    "name": "templates-1",
                    "labels": {"pkg.crossplane.io/package": "function-go-templating"},
                },
                "spec": {
                    "desiredState": "Active",
                    "image": "example.org/function-go-templating:v0.9.0",
                    "revision": 1,
                },
            },
        ]
    )
    return cluster


def tree(cluster: MemoryCluster, *words: str) -> int:
    parser = Parser(prog="kanister-py xr", environment={})
    xr.add_arguments(parser)
    args: argparse.Namespace = parser.parse_args(["tree", *words])
    args.namespace = "shop"
    code: int = args.run_verb(args, cluster)
    return code


def test_tree_shows_composed_resources_and_the_failed_step(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tree(cluster, "shop") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "RESOURCE SYNCED READY REVISION MESSAGE",
        "XApp/shop (db) True False xapp-1 Unready resources: db",
        "├─ ConfigMap/shop-config (config) - - -",
        "├─ Secret/shop-key - - - Does not exist",
        f"└─ XDatabase/shop-db (db) False - xdatabase-1 {FAILURE}",
        "",
        "Pipeline of xapp-1",
        "STEP FUNCTION REVISION RUNS",
        "render function-go-templating templates-1 v0.9.0",
        "ready function-auto-ready - -",
        "",
        "Pipeline of xdatabase-1",
        "STEP FUNCTION REVISION RUNS",
        "✓ render function-go-templating templates-1 v0.9.0",
        "✗ ready function-auto-ready - -",
    ]


def test_tree_prints_data(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert tree(cluster, "xapp/shop", "-o", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["kind"], data["ready"], data["compositionRevision"]) == ("XApp", "False", "xapp-1")
    config, missing, database = data["resources"]
    assert config["resourceName"] == "config"
    assert missing["message"] == "Does not exist"
    assert database["failedStep"] == "ready"
    assert database["pipeline"][0]["functionRevision"] == "templates-1"


@pytest.mark.parametrize("name", ["shop", "xapp/shop", "XApp/shop", "xapps.example.org/shop"])
def test_tree_accepts_a_kind_before_the_name(cluster: MemoryCluster, name: str) -> None:
    assert tree(cluster, name) == 0


@pytest.mark.parametrize("name", ["nobody", "xdatabase/shop"])
def test_tree_fails_for_an_unknown_resource(cluster: MemoryCluster, name: str) -> None:
    with pytest.raises(UsageError, match="kinds are XApp, XDatabase"):
        tree(cluster, name)


def test_tree_refuses_a_name_of_several_kinds(cluster: MemoryCluster) -> None:
    cluster.load([composite("XDatabase", "shop", [])])
    with pytest.raises(UsageError, match="use one of xapp/shop, xdatabase/shop"):
        tree(cluster, "shop")
