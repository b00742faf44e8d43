"""Blueprints run in the same way on a real API server and on the embedded cluster."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.core.actionsets.outcomes import Outcome, outcome_as_dict
from kanister_py.core.actionsets.status import Status
from kanister_py.core.errors import AlreadyExists, KanisterError, NotFound
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.core.yaml.documents import dump_yaml
from kanister_py.runs import RunSettings, run_blueprint
from tests.blueprints.servers import program
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[1]
BLUEPRINTS = REPOSITORY / "blueprints"
DEFINITIONS = REPOSITORY / "kanister_py/crds"
PROFILE = {"name": "backups", "namespace": "shop"}

_TIME = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z")
_KEY = re.compile(r"\b[0-9a-f]{20}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Course:
    """Actions of a blueprint to run, in order."""

    actions: Mapping[str, Mapping[str, Any]]
    port: str = ""
    """Where an application of the manifests listens, if it must truly run."""


COURSES = {
    "clone-config": Course(
        {
            "clone": {
                "object": "Namespace/shop",
                "options": {"to": "shop-test"},
                "config_maps": {"settings": {"name": "settings", "namespace": "shop"}},
            }
        }
    ),
    "hello": Course({"hello": {"object": "Namespace/default", "options": {"name": "you"}}}),
    "http-hook": Course({"export": {"object": "Deployment/shop/orders"}}, port="8080"),
    "pvc-files": Course(
        {
            "backup": {"object": "PersistentVolumeClaim/shop/pictures", "profile": PROFILE},
            "restore": {"object": "PersistentVolumeClaim/shop/pictures", "profile": PROFILE},
            "delete": {"object": "Namespace/shop", "profile": PROFILE},
        },
    ),
}


@dataclass
class Journal:
    """Return everything that a run prints, in its order."""

    outcomes: list[Mapping[str, Any]] = field(default_factory=list)

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the last one is read at the end
        entry = dict(outcome_as_dict(outcome))
        # Kept only for a restart; it contains whole objects of the cluster.
        entry.pop("facts", None)
        self.outcomes.append(entry)

    def on_log(self, action: str, phase: str, line: str) -> None:
        """Return the log of a run, which is not in its journal."""


def course_taken(name: str, options: Mapping[str, str], settings: RunSettings) -> dict[str, Any]:
    """Run the actions of a blueprint in order, and return the contents of the journals."""
    values: dict[str, Any] = {}
    artifacts: Mapping[str, Any] = {}
    for action, words in COURSES[name].actions.items():
        journal = Journal()
        more = {"options": options, **words}
        if artifacts:
            more["artifacts"] = artifacts
        ran = run_blueprint(
            BLUEPRINTS / name / "blueprint.yaml",
            action,
            settings=settings._replace(name=action, observer=journal),
            **more,
        )
        ran.wait(180)
        assert ran.is_over
        assert ran.status["state"] == "complete", ran.error
        new_artifacts = ran.status["actions"][0].get("artifacts") or {}
        artifacts = new_artifacts or artifacts
        values[action] = {"journal": journal.outcomes, "status": ran.status}
    text = _KEY.sub("KEY", _STAMP.sub("STAMP", _TIME.sub('"TIME"', json.dumps(values))))
    document: dict[str, Any] = json.loads(text)
    return document


def manifests(name: str, port: str) -> list[dict[str, Any]]:
    text = (BLUEPRINTS / name / "objects.yaml").read_text()
    if port:
        text = text.replace(COURSES[name].port, port)
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubeCluster]:
    with KubeCluster(ClusterChoice(kubeconfig=str(kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def on_cluster(cluster: KubeCluster) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    """Create objects on the real cluster, and delete them at the end."""
    created: list[Mapping[str, Any]] = []

    def put(objects: list[dict[str, Any]]) -> None:
        for manifest in objects:
            try:
                created.append(cluster.create(manifest))
            except AlreadyExists:
                continue
        for manifest in objects:
            if manifest["kind"] in {"Deployment", "StatefulSet"}:
                _wait_until_it_stands(cluster, manifest)

    yield put
    for previous in reversed(created):
        resource = cluster.resource_for(previous["apiVersion"], previous["kind"]).gvr
        metadata = previous["metadata"]
        with_place = {"namespace": metadata.get("namespace", "")}
        try:
            cluster.delete(resource, metadata["name"], **with_place)
        except NotFound:
            continue
    for remaining in created:
        if remaining["kind"] == "Namespace":
            _wait_until_gone(cluster, remaining)


def _wait_until_it_stands(cluster: KubeCluster, workload: Mapping[str, Any]) -> None:
    metadata = workload["metadata"]
    with cluster.watch(
        cluster.resource_for(workload["apiVersion"], workload["kind"]).gvr,
        namespace=metadata["namespace"],
        field_selector=f"metadata.name={metadata['name']}",
        timeout_seconds=60,
    ) as watch:
        for event in watch:
            ready = (event.object.get("status") or {}).get("readyReplicas", 0)
            if ready == event.object["spec"]["replicas"]:
                return
    raise AssertionError(f"{workload['kind']} {metadata['name']} does not stand")


def _wait_until_gone(cluster: KubeCluster, namespace: Mapping[str, Any]) -> None:
    resource = cluster.resource_for("v1", "Namespace").gvr
    selector = f"metadata.name={namespace['metadata']['name']}"
    objects = cluster.list(resource, field_selector=selector)
    if not objects.items:
        return
    with cluster.watch(
        resource,
        field_selector=selector,
        resource_version=objects.resource_version,
        timeout_seconds=60,
    ) as watch:
        for event in watch:
            if event.type == "DELETED":
                return
    raise AssertionError(f"namespace {selector} does not go")


@pytest.fixture
def definitions(cluster: KubeCluster) -> None:
    """The definitions of the kinds that the blueprints use."""
    for file in sorted(DEFINITIONS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        if definition["spec"]["group"] != "cr.kanister.io":
            continue
        try:
            cluster.create(definition)
        except AlreadyExists:
            continue
        with cluster.watch(
            CUSTOM_RESOURCE_DEFINITIONS,
            field_selector=f"metadata.name={definition['metadata']['name']}",
            timeout_seconds=30,
        ) as watch:
            for event in watch:
                rows = (event.object.get("status") or {}).get("conditions") or []
                if any(row["type"] == "Established" and row["status"] == "True" for row in rows):
                    break


@pytest.mark.usefixtures("node", "definitions")
@pytest.mark.parametrize("name", sorted(COURSES))
def test_blueprint_has_the_same_journal_on_both_clusters(
    cluster: KubeCluster,
    on_cluster: Callable[[list[dict[str, Any]]], None],
    tmp_path: Path,
    name: str,
) -> None:
    options: dict[str, str] = {}
    ports = ("", "")
    if COURSES[name].port:
        program("python3", "python3")
        ports = (str(free_port()), str(free_port()))
    nodes = [{"url": f"http://127.0.0.1:{port}"} if port else options for port in ports]
    embedded = course_taken(
        name,
        nodes[0],
        RunSettings(
            objects=manifests(name, ports[0]),
            pods="processes",
            state=tmp_path / "state",
            locations=tmp_path / "locations",
        ),
    )
    on_cluster(manifests(name, ports[1]))
    real = course_taken(name, nodes[1], RunSettings(cluster=cluster))
    text = dump_yaml(real).replace(ports[1], ports[0]) if ports[1] else dump_yaml(real)
    difference = difflib.unified_diff(
        dump_yaml(embedded).splitlines(), text.splitlines(), "embedded", "real", lineterm=""
    )
    difference_text = "\n".join(difference)
    if difference_text:
        pytest.fail(f"The courses differ:\n{difference_text}")


def test_unknown_kind_is_named(cluster: KubeCluster) -> None:
    with pytest.raises(KanisterError) as caught:
        cluster.create({"apiVersion": "no.example.org/v1", "kind": "No", "metadata": {"name": "n"}})
    assert 'kind "No"' in str(caught.value)
