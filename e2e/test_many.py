"""Many composite resources and revisions with three replicas, one of which is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.composite_objects import composition, definition, template_step, thing, until
from e2e.conftest import make_namespace
from kanister_py.executor.install_definitions import read_definitions

_HOME = "kanister-py"
_EXTENSIONS = "/apis/apiextensions.crossplane.io"
_THINGS = "/apis/example.org/v1alpha1/namespaces/default/xthings"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_REVISIONS = f"{_EXTENSIONS}/v1/compositionrevisions"
_PAGE = "500"
# The duration depends on how busy the machine of the API server is.
_PATIENCE_SECONDS = 900.0


class Cluster:
    """A cluster with three replicas that reconcile composite resources."""

    def __init__(self, server: LocalCluster, folder: Path) -> None:
        self.client: ApiClient = server.client
        self._server = server
        self._folder = folder
        self.replicas: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self) -> None:
        for crd in read_definitions():
            self.client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        make_namespace(self.client, _HOME)
        kinds = f"{_EXTENSIONS}/v2/compositeresourcedefinitions"
        until(lambda: self.client.get(kinds)["items"] is not None, self.logs)
        self.client.post(kinds, definition())
        for number in range(3):
            self._start(f"replica-{number}")
        until(lambda: "items" in self.client.get(_THINGS), self.logs)

    def _start(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self.replicas[name] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--no-http",
                    "--kubeconfig",
                    str(self._server.kubeconfig),
                    "--namespace",
                    _HOME,
                    "--home",
                    _HOME,
                    "--leader-elect",
                    "--identity",
                    name,
                    "--enable-compositions",
                    "--enable-composition-revisions",
                ],
                stderr=log,
            )

    def leader(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{_HOME}/leases/kanister-py-controller"
        return str(self.client.get(path)["spec"].get("holderIdentity") or "")

    def say(self, obj: Mapping[str, Any]) -> None:
        """Create or replace a Composition."""
        path = f"{_EXTENSIONS}/v1/compositions"
        try:
            current = self.client.get(f"{path}/{obj['metadata']['name']}")
        except ApiFailed:
            self.client.post(path, dict(obj))
        else:
            self.client.put(f"{path}/{obj['metadata']['name']}", {**current, "spec": obj["spec"]})

    def every(self, path: str) -> Iterator[dict[str, Any]]:
        query = {"limit": _PAGE}
        while True:
            page = self.client.get(path, **query)
            yield from page["items"]
            if not page["metadata"].get("continue"):
                return
            query["continue"] = page["metadata"]["continue"]

    def texts(self) -> dict[str, int]:
        """Count the values in the composed objects."""
        counts: dict[str, int] = {}
        for config_map in self.every(_CONFIG_MAPS):
            if "crossplane.io/composite" in (config_map["metadata"].get("labels") or {}):
                text = config_map["data"]["text"]
                counts[text] = counts.get(text, 0) + 1
        return counts

    def logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in sorted(self._folder.glob("*.log")))

    def close(self) -> None:
        for replica in self.replicas.values():
            replica.kill()
            replica.wait()


@pytest.fixture
def cluster(new_api_server: Callable[..., LocalCluster], tmp_path: Path) -> Iterator[Cluster]:
    large_cluster = Cluster(new_api_server(), tmp_path)
    try:
        large_cluster.prepare()
        yield large_cluster
    finally:
        large_cluster.close()


def test_thousand_resources_and_two_thousand_revisions_survive_a_killed_replica(
    cluster: Cluster, is_long: bool
) -> None:
    many, revisions = (1000, 2000) if is_long else (60, 60)
    cluster.say(composition("many", template_step("first")))
    (first,) = until(lambda: list(cluster.every(_REVISIONS)), cluster.logs)
    _side_by_side(partial(_old_revision, cluster.client, first), range(revisions))
    names = [f"one-{number}" for number in range(many)]
    _side_by_side(lambda name: cluster.client.post(_THINGS, thing(name, "many")), names)
    until(lambda: cluster.texts() == {"first": many}, cluster.logs, _PATIENCE_SECONDS)
    uids = {config_map["metadata"]["uid"] for config_map in cluster.every(_CONFIG_MAPS)}
    # The active replica is killed during a change of all resources.
    cluster.say(composition("many", template_step("second")))
    until(lambda: cluster.texts().get("second"), cluster.logs)
    gone = cluster.replicas.pop(cluster.leader())
    gone.kill()
    gone.wait()
    until(lambda: cluster.texts() == {"second": many}, cluster.logs, _PATIENCE_SECONDS)
    assert cluster.leader() in cluster.replicas
    assert {config_map["metadata"]["uid"] for config_map in cluster.every(_CONFIG_MAPS)} == uids
    numbers = [revision["spec"]["revision"] for revision in cluster.every(_REVISIONS)]
    assert len(numbers) == len(set(numbers)) == revisions + 2
    until(partial(_is_ready, cluster, many), cluster.logs, _PATIENCE_SECONDS)
    # Converged replicas write nothing.
    until(partial(_is_at_rest, cluster), cluster.logs, _PATIENCE_SECONDS)


def _old_revision(client: ApiClient, first: Mapping[str, Any], number: int) -> None:
    """Create a revision that no composite resource follows."""
    metadata = first["metadata"]
    kept = {key: metadata[key] for key in ("labels", "ownerReferences")}
    spec = composition("many", template_step(f"old-{number}"))["spec"]
    client.post(
        _REVISIONS,
        {
            "apiVersion": first["apiVersion"],
            "kind": first["kind"],
            "metadata": {**kept, "name": f"many-old-{number}"},
            # Below the number of the first one; later ones are always higher.
            "spec": {**spec, "revision": -number - 1},
        },
    )


def _is_ready(cluster: Cluster, many: int) -> bool:
    ready = (
        condition["status"]
        for xr in cluster.every(_THINGS)
        for condition in (xr.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Ready"
    )
    return list(ready) == ["True"] * many


def _is_at_rest(cluster: Cluster) -> bool:
    """Return whether a resource stays unchanged for ten seconds."""
    version = cluster.client.get(_THINGS, limit="1")["metadata"]["resourceVersion"]
    return not list(cluster.client.watch(_THINGS, resourceVersion=version, timeoutSeconds="10"))


def _side_by_side(act: Callable[[Any], object], what: Iterable[Any]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, what))
