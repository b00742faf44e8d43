"""Request smuggling: values from outside never change the path or number of requests.

Every field that addresses an object is filled with hostile texts: in calls of the API client, which
talks to a real socket, and in every place that reads such fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.actionsets.model import parse_actionset
from kanister_py.core.compositions.desired import ComposedRules, compose_state
from kanister_py.core.compositions.messages import Part
from kanister_py.core.compositions.model import Step, parse_composition
from kanister_py.core.compositions.pipeline import Observed, PipelineState
from kanister_py.core.compositions.requirements import check_allowed
from kanister_py.core.errors import ApiError, BadRequest, Invalid, KanisterError, UsageError
from kanister_py.core.kube.request_paths import (
    GRAMMARS,
    api_path,
    object_path,
    problem_with,
    request_target,
)
from kanister_py.core.kube.resources import CONFIG_MAPS, GroupVersionResource
from kanister_py.core.schedules.exports import parse_export
from kanister_py.core.yaml.documents import Document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.functions.blueprint.kube_ops.v0_0_0 import KubeOps
from kanister_py.functions.blueprint.kube_ops.v0_1_0 import KubeOpsV010
from kanister_py.functions.blueprint.wait.v0_0_0 import Wait
from kanister_py.ports.cluster import Cluster, LogOptions
from kanister_py.ports.function import Func
from tests.functions.blueprint.conftest import Harness
from tests.security.recording_server import RecordingServer, recording_server

SMUGGLED = "DELETE /api/v1/namespaces/victim/configmaps/precious"
HOSTILE = (
    f"x HTTP/1.1\r\nHost: a\r\n\r\n{SMUGGLED}",
    f"x HTTP/1.1\nHost: a\n\n{SMUGGLED}",
    f"x\r{SMUGGLED}",
    "x\r\nX-Remote-User: admin",
    "x\ny",
    "x\0y",
    "x\x85y",
    "x\u2028y",
    "x\ud800y",
    "x HTTP/1.1",
    "x\ty",
    "../../secrets/s",
    "..",
    ".",
    "a/../b",
    "a//b",
    "%2e%2e",
    "%0d%0a",
    "a%zzb",
    "a?dryRun=All",
    "a#b",
    "a;b",
    "a\\b",
    "x" * 70_000,
)
# Names of objects may hold almost everything that a path segment can hold when escaped.
ALLOWED_IN_NAMES = frozenset(value for value in HOSTILE if not problem_with("name", value))
REQUEST_LINE = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /(api|apis|openapi)/[!-\"$-~]* HTTP/1\.1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RecordingServer]:
    with recording_server(tmp_path) as server:
        yield server


def resource(**fields: str) -> GroupVersionResource:
    return GroupVersionResource(
        **{"group": "example.org", "version": "v1", "resource": "things", **fields}
    )


def obj(**fields: str) -> dict[str, Any]:
    values = {"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "namespace": "shop", **fields}
    metadata = {key: values[key] for key in ("name", "namespace")}
    return {"apiVersion": values["apiVersion"], "kind": values["kind"], "metadata": metadata}


# Each call puts a value into one field of a request.
IN_PATHS: dict[str, Callable[[Cluster, str], object]] = {
    "group": lambda cluster, value: cluster.get(resource(group=value), "n", namespace="shop"),
    "version": lambda cluster, value: cluster.get(resource(version=value), "n", namespace="shop"),
    "resource": lambda cluster, value: cluster.get(resource(resource=value), "n"),
    "subresource": lambda cluster, value: cluster.get(CONFIG_MAPS, "n", subresource=value),
    "namespace": lambda cluster, value: cluster.get(CONFIG_MAPS, "n", namespace=value),
    "namespace of a list": lambda cluster, value: cluster.list(CONFIG_MAPS, namespace=value),
    "namespace of a watch": lambda cluster, value: cluster.watch(CONFIG_MAPS, namespace=value),
    "namespace of a log": lambda cluster, value: cluster.read_log("n", namespace=value),
    "namespace of a command": lambda cluster, value: cluster.exec("n", ["ls"], namespace=value),
    "apiVersion of a kind": lambda cluster, value: cluster.resource_for(value, "Thing"),
    "apiVersion of a schema": lambda cluster, value: cluster.schema_of(value, "Thing"),
    "apiVersion to create": lambda cluster, value: cluster.create(obj(apiVersion=value)),
    "namespace to create": lambda cluster, value: cluster.create(obj(namespace=value)),
    "apiVersion to replace": lambda cluster, value: cluster.replace(obj(apiVersion=value)),
    "apiVersion to apply": lambda cluster, value: cluster.apply(
        obj(apiVersion=value), field_manager="m"
    ),
}
IN_NAMES: dict[str, Callable[[Cluster, str], object]] = {
    "get": lambda cluster, value: cluster.get(CONFIG_MAPS, value),
    "delete": lambda cluster, value: cluster.delete(CONFIG_MAPS, value),
    "patch": lambda cluster, value: cluster.patch(CONFIG_MAPS, value, {}),
    "replace": lambda cluster, value: cluster.replace(obj(name=value)),
    "apply": lambda cluster, value: cluster.apply(obj(name=value), field_manager="m"),
    "log": lambda cluster, value: cluster.read_log(value, namespace="shop"),
    "command": lambda cluster, value: cluster.exec(value, ["ls"], namespace="shop"),
}
IN_QUERIES: dict[str, Callable[[Cluster, str], object]] = {
    "labels": lambda cluster, value: cluster.list(CONFIG_MAPS, label_selector=value),
    "fields": lambda cluster, value: cluster.list(CONFIG_MAPS, field_selector=value),
    "continue": lambda cluster, value: cluster.list(CONFIG_MAPS, continue_token=value),
    "watch": lambda cluster, value: cluster.watch(CONFIG_MAPS, resource_version=value),
    "manager": lambda cluster, value: cluster.create(obj(), field_manager=value),
    "container": lambda cluster, value: cluster.read_log(
        "n", namespace="shop", options=LogOptions(container=value)
    ),
    "command": lambda cluster, value: cluster.exec("n", [value], namespace="shop"),
}


@pytest.mark.parametrize("call", IN_PATHS.values(), ids=IN_PATHS)
def test_hostile_path_segments_are_refused_before_sending(
    server: RecordingServer, call: Callable[[Cluster, str], object]
) -> None:
    for value in HOSTILE:
        with pytest.raises(BadRequest):
            call(server.cluster, value)
    assert server.heads == []


@pytest.mark.parametrize("call", IN_NAMES.values(), ids=IN_NAMES)
def test_names_are_refused_or_escaped(
    server: RecordingServer, call: Callable[[Cluster, str], object]
) -> None:
    for value in HOSTILE:
        server.heads.clear()
        with pytest.raises(ApiError) as caught:
            call(server.cluster, value)
        if value in ALLOWED_IN_NAMES:
            (line,) = server.request_lines
            assert REQUEST_LINE.fullmatch(line)
            assert value in [unquote(part) for part in re.split(r"[/? ]", line)]
        else:
            assert isinstance(caught.value, BadRequest)
            assert server.heads == []


@pytest.mark.parametrize("call", IN_QUERIES.values(), ids=IN_QUERIES)
def test_values_in_queries_are_escaped(
    server: RecordingServer, call: Callable[[Cluster, str], object]
) -> None:
    for value in HOSTILE:
        with pytest.raises(ApiError):
            call(server.cluster, value)
    assert all(REQUEST_LINE.fullmatch(line) for line in server.request_lines)
    assert len(server.heads) == len(HOSTILE)


@given(
    fields=st.fixed_dictionaries({key: st.text(min_size=1, max_size=12) for key in GRAMMARS}),
    plain=st.sets(st.sampled_from(sorted(GRAMMARS))),
)
def test_a_path_consists_of_its_segments(fields: dict[str, str], plain: set[str]) -> None:
    values = {**fields, **dict.fromkeys(plain, "v1")}
    gvr = GroupVersionResource(values["group"], values["version"], values["resource"])
    place = (values["namespace"], values["name"], values["subresource"])
    try:
        target = request_target(object_path(gvr, *place), [("q", values["kind"])])
    except BadRequest:
        return
    path, _, query = target.partition("?")
    assert [unquote(part) for part in path.split("/")] == [
        "",
        "apis",
        gvr.group,
        gvr.version,
        "namespaces",
        place[0],
        gvr.resource,
        place[1],
        place[2],
    ]
    assert re.fullmatch(r"q=[!-\"$-~]*", query)


@pytest.mark.parametrize(
    "api_version", ["v1", "apps/v1", "snapshot.storage.k8s.io/v1beta1", "a-b.example.org/v1alpha1"]
)
def test_ordinary_api_versions_are_accepted(api_version: str) -> None:
    assert api_path(api_version).endswith(api_version)


@pytest.mark.parametrize("name", ["n", "system:node", "a.b-c", "...", "ümlaut", "a b", "x@y"])
def test_ordinary_names_are_accepted(name: str) -> None:
    assert problem_with("name", name) == ""


# Where the fields are read


def read_actionset(reference: str) -> Callable[[str, str], object]:
    def read(field: str, value: str) -> object:
        fields = {field: value}
        action: dict[str, Any] = {"name": "a", "blueprint": "b"}
        action[reference] = fields if reference in ("object", "profile") else {"one": fields}
        return parse_actionset(document({"spec": {"actions": [action]}}))

    return read


def read_blueprint_name(field: str, value: str) -> object:
    return parse_actionset(document({"spec": {"actions": [{"name": "a", "blueprint": value}]}}))


def read_export(field: str, value: str) -> object:
    export = {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Export",
        "blueprints": [obj(**{field: value})],
    }
    return parse_export(document(export))


def read_requirement(key: str) -> Callable[[str, str], object]:
    def read(field: str, value: str) -> object:
        selector = {"apiVersion": "v1", "kind": "ConfigMap"}
        selector["matchName" if field == "name" else field] = value
        check_allowed(Step("s", "f"), {key: {"one": selector}})
        return None

    return read


def read_composition(field: str, value: str) -> object:
    requirement = {"requirementName": "r", "apiVersion": "v1", "kind": "Pod", field: value}
    step = {
        "step": "s",
        "functionRef": {"name": "f"},
        "requirements": {"requiredResources": [requirement]},
    }
    composition = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "c"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XThing"},
            "mode": "Pipeline",
            "pipeline": [step],
        },
    }
    return parse_composition(document(composition))


def read_composed_resource(field: str, value: str) -> object:
    xr = {
        "apiVersion": "example.org/v1",
        "kind": "XThing",
        "metadata": {"name": "x", "uid": "u"},
    }
    desired = {"resources": {"one": {"resource": obj(**{field: value})}}}
    state = PipelineState(Part({}), Part(desired))
    composed = compose_state(Observed(xr), state, ComposedRules())
    if composed.error is not None:
        raise composed.error
    return composed


def call(function: type[Func], args: Mapping[str, Any], folder: Path) -> object:
    with recording_server(folder) as server:
        try:
            return Harness(server.cluster).call(function, args)
        finally:
            assert not any("precious" in line for line in server.request_lines)
            assert all(REQUEST_LINE.fullmatch(line) for line in server.request_lines)


def document(value: Any) -> Document:
    return Document.of(value, "test.yaml")


_OBJECT = ("apiVersion", "kind", "name", "namespace")
_REFERENCE = ("apiVersion", "group", "resource", "kind", "name", "namespace")
READERS: dict[str, tuple[Callable[[str, str], object], tuple[str, ...]]] = {
    "ActionSet, object": (read_actionset("object"), _REFERENCE),
    "ActionSet, secrets": (read_actionset("secrets"), _REFERENCE),
    "ActionSet, configMaps": (read_actionset("configMaps"), _REFERENCE),
    "ActionSet, profile": (read_actionset("profile"), _REFERENCE),
    "ActionSet, blueprint": (read_blueprint_name, ("name",)),
    "export": (read_export, _OBJECT),
    "Composition": (read_composition, _OBJECT),
    "requirement, resources": (read_requirement("resources"), _OBJECT),
    "requirement, extraResources": (read_requirement("extraResources"), _OBJECT),
    "requirement, schemas": (read_requirement("schemas"), ("apiVersion", "kind")),
    "composed resource": (read_composed_resource, _OBJECT),
}
_FIELDS = [(reader, field) for reader, (_, fields) in READERS.items() for field in fields]


@pytest.mark.parametrize(("reader", "field"), _FIELDS)
def test_hostile_fields_are_refused_where_they_are_read(reader: str, field: str) -> None:
    read, _ = READERS[reader]
    for value in HOSTILE:
        if field == "name" and value in ALLOWED_IN_NAMES:
            continue
        with pytest.raises(UsageError):
            read(field, value)


@pytest.mark.parametrize(("reader", "field"), _FIELDS)
def test_ordinary_fields_are_read(reader: str, field: str) -> None:
    read, _ = READERS[reader]
    read(field, "v1")


@pytest.mark.parametrize("field", _REFERENCE)
@pytest.mark.parametrize("operation", ["delete", "patch"])
@pytest.mark.parametrize("function", [KubeOps, KubeOpsV010])
def test_object_references_of_phases_are_refused(
    function: type[Func], operation: str, field: str, tmp_path: Path
) -> None:
    for value in HOSTILE[:2]:
        reference = {
            "apiVersion": "v1",
            "group": "apps",
            "resource": "deployments",
            "kind": "Deployment",
            "name": "n",
            "namespace": "shop",
            field: value,
        }
        args = {"operation": operation, "objectReference": reference, "spec": "{data: {a: b}}"}
        with pytest.raises(KanisterError) as caught:
            call(function, args, tmp_path)
        assert caught.value.reason == "InvalidReference"


@pytest.mark.parametrize("field", _REFERENCE)
def test_objects_to_wait_for_are_refused(field: str, tmp_path: Path) -> None:
    reference = {"apiVersion": "v1", "resource": "pods", "name": "n", "namespace": "shop"}
    condition = {"objectReference": {**reference, field: HOSTILE[0]}, "condition": "true"}
    args = {"timeout": "1s", "conditions": {"allOf": [condition]}}
    with pytest.raises(KanisterError) as caught:
        call(Wait, args, tmp_path)
    assert caught.value.reason == "InvalidReference"


@pytest.mark.parametrize("field", _OBJECT)
@pytest.mark.parametrize("function", [KubeOps, KubeOpsV010])
def test_manifests_of_phases_are_refused(function: type[Func], field: str, tmp_path: Path) -> None:
    args = {"operation": "create", "spec": json.dumps(obj(**{field: HOSTILE[0]}))}
    with pytest.raises(KanisterError) as caught:
        call(function, args, tmp_path)
    assert caught.value.reason == "InvalidManifest"


# Definitions

DEFINITIONS = Path(__file__).parents[2] / "kanister_py" / "crds"


@pytest.mark.parametrize("field", _REFERENCE)
@pytest.mark.parametrize("value", HOSTILE[:2])
def test_a_cluster_with_the_definitions_refuses_hostile_actionsets(field: str, value: str) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    (definition,) = parse_documents((DEFINITIONS / "actionsets.yaml").read_bytes(), "actionsets")
    cluster.create(definition.value)
    action = {"name": "a", "blueprint": "b", "object": {field: value}}
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"actions": [action]},
    }
    with pytest.raises(Invalid) as caught:
        cluster.create(actionset)
    assert {cause.field for cause in caught.value.causes} == {f"spec.actions[0].object.{field}"}
    action["object"] = {field: "v1"}
    cluster.create(actionset)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("actionsets", ("spec", "actions", [], "object")),
        ("actionsets", ("spec", "actions", [], "profile")),
        ("actionsets", ("spec", "actions", [], "secrets", {})),
        ("actionsets", ("spec", "actions", [], "configMaps", {})),
        ("profiles", ("credential", "secret")),
        ("profiles", ("credential", "keyPair", "secret")),
        ("compositions", ("spec", "compositeTypeRef")),
        ("compositions", ("spec", "pipeline", [], "requirements", "requiredResources", [])),
        ("compositions", ("spec", "pipeline", [], "requirements", "requiredSchemas", [])),
        ("compositionrevisions", ("spec", "compositeTypeRef")),
        ("compositeresourcedefinitions", ("spec",)),
    ],
)
def test_definitions_have_the_patterns_of_the_models(name: str, path: tuple[Any, ...]) -> None:
    (definition,) = parse_documents((DEFINITIONS / f"{name}.yaml").read_bytes(), name)
    for version in definition.value["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        for step in path:
            if isinstance(step, str):
                schema = schema["properties"][step]
            else:
                schema = schema["items" if isinstance(step, list) else "additionalProperties"]
        checked = {field: schema["properties"].get(field) for field in GRAMMARS}
        checked_fields = {
            field: (check.get("pattern"), check.get("maxLength"))
            for field, check in checked.items()
            if check is not None
        }
        assert checked_fields == {
            field: (f"^({GRAMMARS[field].pattern})?$", GRAMMARS[field].max_length)
            for field in checked_fields
        }
        assert checked_fields
