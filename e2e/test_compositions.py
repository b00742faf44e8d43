"""Compositions on a real API server: revisions of both kinds, and upgrades without interruption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.local import LocalCluster
from e2e.cluster.network import pod_network
from e2e.cluster.programs import Programs
from e2e.cluster.standing import own_folder
from e2e.composite_objects import (
    PATIENCE_SECONDS,
    claimed_stores,
    composition,
    definition,
    template_step,
    thing,
    until,
)
from e2e.conftest import Kubectl, make_namespace
from e2e.node.node import E2ENode
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.core.errors import NotFound
from tests.conftest import CommandLine
from tests.controller.compositions.claim_rollouts import ROWS, Rollout, play
from tests.controller.compositions.databases import definition as claims_definition
from tests.oci_registry import RunningRegistry, running_registry

ROOT = Path(__file__).parents[1]
SYSTEM = "kanister-py"
EXTENSIONS = "/apis/apiextensions.crossplane.io/v1"
PACKAGES = "/apis/pkg.crossplane.io/v1"
THINGS = "/apis/example.org/v1alpha1/namespaces/default/xthings"


class Place:
    """A cluster with a controller for compositions, and a client for it."""

    def __init__(
        self, cluster: LocalCluster, registry: RunningRegistry, kubectl: Kubectl, folder: Path
    ) -> None:
        self.cluster = cluster
        self.client: ApiClient = cluster.client
        self.registry = registry
        self.kubectl = kubectl
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> None:
        """Start the controller with access to the registry."""
        until(partial(self.client.get, f"{EXTENSIONS}/compositions"), self.logs)
        until(partial(self.client.get, f"{PACKAGES}/functionrevisions"), self.logs)
        self.start()
        address = self.registry.address
        login = {"auths": {address: {"username": "ann", "password": "s3cret-word"}}}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": SYSTEM, "name": "pull"},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": json.dumps(login)},
        }
        self.say(secret, definition(), runtime_config())
        until(partial(self.client.get, THINGS), self.logs)

    # Controller

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"controller-{len(self._processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--no-http",
                    "--kubeconfig",
                    str(self.cluster.kubeconfig),
                    "--namespace",
                    SYSTEM,
                    "--home",
                    SYSTEM,
                    "--leader-elect",
                    "--enable-compositions",
                    "--enable-composition-revisions",
                    "--enable-function-revisions",
                    "--package-cache",
                    str(self._folder / "packages"),
                    *words,
                ],
                stderr=log,
            )
        self._processes.append(process)
        return process

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def logs(self) -> str:
        text = "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))
        return text[-4000:]

    # Objects of users

    def say(self, *objects: dict[str, Any]) -> None:
        done = self.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            "-",
            stdin="\n---\n".join(json.dumps(manifest) for manifest in objects).encode(),
        )
        assert done.returncode == 0, done.stderr.decode()

    def push(self, tag: str, name: str = "function-colour", *capabilities: str) -> None:
        spec = f"spec: {{capabilities: {json.dumps(capabilities)}}}\n" if capabilities else ""
        package = (
            "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\n"
            f"metadata: {{name: {name}}}\n{spec}# {tag}\n"
        )
        reference = self.registry.reference(f"team/{name}", tag)
        self.registry.push(reference, package.encode())

    def install(self, tag: str, **spec: Any) -> None:
        package = f"{self.registry.address}/team/function-colour:{tag}"
        self.say(
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Function",
                "metadata": {"name": "function-colour"},
                "spec": {
                    "package": package,
                    "packagePullSecrets": [{"name": "pull"}],
                    "revisionHistoryLimit": 4,
                    "runtimeConfigRef": {"name": "python"},
                    **spec,
                },
            }
        )

    # State of the cluster

    def revisions(self, function: str = "function-colour") -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.client.get(
            f"{PACKAGES}/functionrevisions", labelSelector=f"pkg.crossplane.io/package={function}"
        )["items"]
        return sorted(listed, key=lambda revision: revision["spec"]["revision"])

    def serving(self) -> str:
        """Return the name of the highest revision if it is healthy."""
        revisions = self.revisions()
        if not revisions:
            return ""
        newest = revisions[-1]
        conditions = (newest.get("status") or {}).get("conditions") or ()
        is_well = any(
            condition["type"] == "RuntimeHealthy" and condition["status"] == "True"
            for condition in conditions
        )
        name: str = newest["metadata"]["name"]
        return name if is_well else ""

    def until_serving(self, number: int) -> str:
        def newest() -> str:
            revisions = self.revisions()
            is_there = revisions and revisions[-1]["spec"]["revision"] == number
            return self.serving() if is_there else ""

        name: str = until(newest, self.describe)
        return name

    def describe(self) -> str:
        revisions = [
            (revision["metadata"]["name"], revision["spec"]["desiredState"], revision.get("status"))
            for revision in self.revisions()
        ]
        return f"{revisions}\n{self.logs()}"

    def thing(self, name: str) -> dict[str, Any]:
        return self.client.get(f"{THINGS}/{name}")

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        for entry in (self.thing(name).get("status") or {}).get("conditions") or ():
            if entry["type"] == kind:
                matching: dict[str, Any] = entry
                return matching
        return {}

    def is_ready(self, name: str) -> bool:
        return self.condition(name, "Ready").get("status") == "True"

    def composed(self, name: str) -> list[dict[str, Any]]:
        resources: list[dict[str, Any]] = self.client.get(
            "/api/v1/namespaces/default/configmaps",
            labelSelector=f"crossplane.io/composite={name}",
        )["items"]
        return resources

    def values(self, name: str, key: str) -> set[str]:
        return {resource["data"][key] for resource in self.composed(name)}


@pytest.fixture(scope="module")
def place(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("compositions")
    with (
        own_folder() as at,
        LocalCluster(programs, at) as cluster,
        E2ENode(cluster, pod_network=pod_network()),
        running_registry(folder / "registry") as registry,
    ):
        kubectl = Kubectl(programs.kubectl, cluster.kubeconfig)
        make_namespace(cluster.client, SYSTEM)
        for path in sorted(Path(str(files("kanister_py.crds").joinpath("."))).glob("*.yaml")):
            cluster.client.post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                yaml.safe_load(path.read_text()),
            )
        new_place = Place(cluster, registry, kubectl, folder)
        try:
            new_place.prepare()
            yield new_place
        finally:
            new_place.stop()


def runtime_config() -> dict[str, Any]:
    """Return the command of a function's image: the node of these tests has no images."""
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    container = {
        "name": "package-runtime",
        "command": [
            sys.executable,
            "-m",
            "kanister_py",
            "function",
            "serve",
            "e2e.sample_function:Colour",
            "--grace",
            "20",
        ],
        "workingDir": str(ROOT),
        "env": [{"name": "KANISTER_PY_FUNCTIONS_HOST", "valueFrom": address}],
    }
    return {
        "apiVersion": "pkg.crossplane.io/v1beta1",
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": "python"},
        "spec": {
            "deploymentTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}}
        },
    }


def colour_step(**more: Any) -> dict[str, Any]:
    return {"step": "colour", "functionRef": {"name": "function-colour"}, **more}


def test_a_change_of_a_composition_reaches_those_that_follow_it(place: Place) -> None:
    place.say(composition("plain", template_step("first")))
    place.say(thing("follows", "plain"), thing("stays", "plain", compositionUpdatePolicy="Manual"))
    until(lambda: place.is_ready("follows") and place.is_ready("stays"), place.logs)
    place.say(composition("plain", template_step("second")))
    until(lambda: place.values("follows", "text") == {"second"}, place.logs)
    assert place.values("stays", "text") == {"first"}
    shown = place.kubectl("get", "compositionrevisions", "-o", "wide").stdout.decode()
    assert "plain" in shown


def test_function_without_the_capability_is_not_called(place: Place) -> None:
    place.push("v1.0.0", "function-clean", "operation")
    place.say(
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Function",
            "metadata": {
                "name": "function-clean",
                "annotations": {"kanister-py.io/runtime": "External"},
            },
            "spec": {
                "package": f"{place.registry.address}/team/function-clean:v1.0.0",
                "packagePullSecrets": [{"name": "pull"}],
            },
        },
        composition(
            "cleaned",
            {"step": "clean", "functionRef": {"name": "function-clean"}, "timeout": "2s"},
        ),
        thing("cleaned", "cleaned"),
    )

    def pipeline(status: str) -> dict[str, Any]:
        revision_list = place.client.get(
            f"{EXTENSIONS}/compositionrevisions",
            labelSelector="crossplane.io/composition-name=cleaned",
        )["items"]
        for obj in revision_list:
            for condition in (obj.get("status") or {}).get("conditions") or ():
                if (condition["type"], condition["status"]) == ("ValidPipeline", status):
                    return {**condition, "generation": obj["metadata"]["generation"]}
        return {}

    def refusal() -> str:
        message: str = place.condition("cleaned", "Synced").get("message", "")
        return message

    condition = until(lambda: pipeline("False"), place.logs)
    (revision,) = place.revisions("function-clean")
    name = revision["metadata"]["name"]
    assert (condition["reason"], condition["observedGeneration"]) == (
        "MissingCapabilities",
        condition["generation"],
    )
    assert all(word in condition["message"] for word in ("clean", name, "operation"))
    # The address is not served, so the step fails before the call.
    answers_at = "kanister-py.io/endpoint=ipv4:127.0.0.1:9"
    done = place.kubectl("annotate", "functionrevision", name, answers_at)
    assert done.returncode == 0, done.stderr.decode()
    until(lambda: f"{name} of function function-clean is made for" in refusal(), place.logs)
    shown = place.kubectl("get", "compositionrevisions").stdout.decode().splitlines()
    assert "VALID-PIPELINE" in shown[0]
    assert any(line.startswith("cleaned-") and " False " in line for line in shown)
    learned = {"status": {"capabilities": ["operation", "composition"]}}
    done = place.kubectl(
        "patch",
        "functionrevision",
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(learned),
    )
    assert done.returncode == 0, done.stderr.decode()
    until(lambda: pipeline("True"), place.logs)
    until(lambda: "not for composition" not in refusal(), place.logs)
    place.kubectl("delete", "xthing", "cleaned", "-n", "default", "--timeout=60s")
    place.kubectl("delete", "function", "function-clean", "--timeout=60s")


def test_revision_is_immutable(place: Place) -> None:
    place.say(composition("fixed", template_step("first")))
    selector = "crossplane.io/composition-name=fixed"

    def made() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = place.client.get(
            f"{EXTENSIONS}/compositionrevisions", labelSelector=selector
        )["items"]
        return events

    (revision,) = until(made, place.logs)
    patch = [{"op": "replace", "path": "/spec/pipeline/0/step", "value": "other"}]
    done = place.kubectl(
        "patch",
        "compositionrevision",
        revision["metadata"]["name"],
        "--type=json",
        "-p",
        json.dumps(patch),
    )
    assert done.returncode != 0
    assert b"immutable" in done.stderr


def test_deleting_a_composite_resource_deletes_its_composed_resources(place: Place) -> None:
    place.say(composition("gone", template_step("x")), thing("going", "gone"))
    until(lambda: place.is_ready("going"), place.logs)
    place.kubectl("delete", "xthing", "going", "-n", "default", "--timeout=60s")
    until(lambda: not place.composed("going"), place.logs)


def test_restart_causes_no_writes(place: Place) -> None:
    place.say(composition("quiet", template_step("x")))
    place.say(*(thing(f"quiet-{index}", "quiet") for index in range(10)))
    until(lambda: all(place.is_ready(f"quiet-{index}") for index in range(10)), place.logs)
    before = _versions(place)
    until(lambda: _rests_at(place, before), place.logs)
    place.stop()
    place.start()
    until(lambda: "Leader as" in place.logs(), place.logs)
    time.sleep(5)
    assert _versions(place) == before


def _rests_at(place: Place, before: dict[str, str]) -> bool:
    """Return whether the objects stay unchanged for two seconds after `before`."""
    time.sleep(2)
    now = _versions(place)
    rests = now == before
    before.clear()
    before.update(now)
    return rests


def _versions(place: Place) -> dict[str, str]:
    existing = [*place.client.get(THINGS)["items"]]
    existing += place.client.get("/api/v1/namespaces/default/configmaps")["items"]
    existing += place.client.get(f"{EXTENSIONS}/compositionrevisions")["items"]
    return {
        f"{obj.get('kind')}/{obj['metadata']['name']}/{obj['metadata']['uid']}": obj["metadata"][
            "resourceVersion"
        ]
        for obj in existing
    }


needs_addresses = pytest.mark.skipif(
    pod_network() is None and "KANISTER_PY_EVERY_GATE" not in os.environ,
    reason="NO FUNCTION RUNS AS A DEPLOYMENT: pods have addresses only under e2e/run",
)


@needs_addresses
def test_packages_become_revisions_that_run_and_are_selected(place: Place) -> None:
    for tag in ("v1.0.0", "v2.0.0"):
        place.push(tag)
    place.install("v1.0.0", activeRevisionLimit=2)
    first = place.until_serving(1)
    place.install("v2.0.0", activeRevisionLimit=2)
    second = place.until_serving(2)
    place.say(
        composition("newest", colour_step()),
        composition("older", colour_step(functionRevisionRef={"name": first})),
        composition(
            "ranged", colour_step(functionRef={"name": "function-colour", "version": "<2"})
        ),
        thing("newest", "newest"),
        thing("older", "older"),
        thing("ranged", "ranged"),
    )
    until(lambda: place.values("newest", "revision") == {second}, place.describe)
    until(lambda: place.values("older", "revision") == {first}, place.describe)
    until(lambda: place.values("ranged", "revision") == {first}, place.describe)
    place.say(composition("none", colour_step(functionRevisionRef={"name": "nobody"})))
    place.say(thing("none", "none"))
    until(lambda: first in place.condition("none", "Synced").get("message", ""), place.describe)


class Load:
    """Triggers fifty reconciliations per second, and collects their failures."""

    def __init__(self, place: Place, names: list[str], per_second: float) -> None:
        self._place = place
        self._names = names
        self._pause = 1 / per_second
        self._stopped = threading.Event()
        self.asked = 0
        self.failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._ask, daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopped.set()
        self._threads[0].join()

    def _ask(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._stopped.is_set():
            name = self._names[number % len(self._names)]
            number += 1
            patch = {"spec": {"note": str(number)}}
            with suppress(ApiFailed, ApiUnreachable):
                self._place.client.patch(f"{THINGS}/{name}", patch)
                self.asked += 1
            due += self._pause
            self._stopped.wait(max(0.0, due - time.monotonic()))

    def _listen(self) -> None:
        with suppress(ApiFailed, ApiUnreachable):
            for event in self._place.client.watch(THINGS, timeoutSeconds="600"):
                if self._stopped.is_set():
                    return
                obj = event["object"]
                for condition in (obj.get("status") or {}).get("conditions") or ():
                    is_ours = obj["metadata"]["name"] in self._names
                    if is_ours and condition["type"] == "Synced" and condition["status"] == "False":
                        self.failures.append(
                            f"{obj['metadata']['name']}: {condition.get('message')}"
                        )


@needs_addresses
def test_upgrade_rollback_kill_and_new_certificate_cause_no_failed_call(place: Place) -> None:
    place.stop()
    place.start("--certificate-life", "90s")
    for tag in ("v3.0.0", "v4.0.0"):
        place.push(tag)
    place.install("v3.0.0", activeRevisionLimit=1)
    name = until(partial(_serving_of, place, "v3.0.0"), place.describe)
    things = [f"load-{index}" for index in range(25)]
    place.say(
        composition("load", colour_step()), *(thing(thing_name, "load") for thing_name in things)
    )
    until(lambda: all(place.is_ready(thing_name) for thing_name in things), place.describe)
    highest = place.revisions()[-1]["spec"]["revision"]
    with Load(place, things, 50) as load:
        time.sleep(3)
        place.install("v4.0.0", activeRevisionLimit=1)
        upgraded = place.until_serving(highest + 1)
        until(lambda: place.values("load-0", "revision") == {upgraded}, place.describe)
        place.install("v3.0.0", activeRevisionLimit=1)
        back = place.until_serving(highest + 2)
        assert back == name
        until(lambda: place.values("load-0", "revision") == {name}, place.describe)
        selector = f"pkg.crossplane.io/revision={name}"
        before = _certificate(place, name)
        place.kubectl("delete", "pod", "-n", SYSTEM, "-l", selector, "--grace-period=0", "--force")
        time.sleep(5)
        until(lambda: place.serving() == name, place.describe)
        until(lambda: _certificate(place, name) != before, place.describe, 150)
        time.sleep(5)
    assert load.failures == []
    assert load.asked > 500


@needs_addresses
def test_lost_node_with_one_of_two_function_pods_causes_no_failed_call(
    place: Place,
) -> None:
    two = runtime_config()
    two["metadata"]["name"] = "two"
    two["spec"]["deploymentTemplate"]["spec"]["replicas"] = 2
    place.say(two)
    place.push("v5.0.0")
    with E2ENode(place.cluster, name="doomed", pod_network=pod_network()) as doomed:
        runtime = {"runtimeConfigRef": {"name": "two"}}
        place.install("v5.0.0", activeRevisionLimit=1, **runtime)
        name = until(partial(_serving_of, place, "v5.0.0"), place.describe)
        until(lambda: _is_on_two_nodes(place, name), place.describe)
        things = [f"spread-{index}" for index in range(25)]
        place.say(composition("spread", colour_step()))
        place.say(*(thing(thing_name, "spread") for thing_name in things))
        until(lambda: all(place.is_ready(thing_name) for thing_name in things), place.describe)
        with Load(place, things, 50) as load:
            time.sleep(3)
            doomed.vanish()
            # Until the cluster notices, its address remains among the endpoints.
            time.sleep(20)
        place.say(thing("after", "spread"))
        until(lambda: place.is_ready("after"), place.describe)
    assert load.failures == []
    assert load.asked > 500


def _is_on_two_nodes(place: Place, revision: str) -> bool:
    """Return whether the pods of a revision run apart; delete one of two that do not."""
    path = f"/api/v1/namespaces/{SYSTEM}/pods"
    pods_of_revision = place.client.get(
        path, labelSelector=f"pkg.crossplane.io/revision={revision}"
    )["items"]
    pods = [pod for pod in pods_of_revision if not pod["metadata"].get("deletionTimestamp")]
    nodes = {pod["spec"].get("nodeName") for pod in pods}
    are_ready = all(
        condition["type"] != "Ready" or condition["status"] == "True"
        for pod in pods
        for condition in (pod.get("status") or {}).get("conditions")
        or [{"type": "Ready", "status": ""}]
    )
    if len(pods) == 2 and are_ready and len(nodes) == 1:
        place.client.delete(f"{path}/{pods[0]['metadata']['name']}")
    return len(pods) == 2 and are_ready and len(nodes) == 2


def _serving_of(place: Place, tag: str) -> str:
    """Return the name of the newest revision if its package has this name and it is healthy."""
    revisions = place.revisions()
    annotations = revisions[-1]["metadata"].get("annotations") or {} if revisions else {}
    return place.serving() if annotations.get("kanister-py.io/package-tag") == tag else ""


def _certificate(place: Place, name: str) -> str:
    path = f"/api/v1/namespaces/{SYSTEM}/secrets/{name}-tls-server"
    certificate: str = place.client.get(path)["data"]["tls.crt"]
    return certificate


def test_a_hundred_resources_are_ready_in_seconds(place: Place) -> None:
    place.say(composition("many", template_step("x")))
    began = time.monotonic()
    place.say(*(thing(f"many-{index}", "many") for index in range(100)))
    until(lambda: all(place.is_ready(f"many-{index}") for index in range(100)), place.logs)
    assert time.monotonic() - began < PATIENCE_SECONDS


# Faults


def named_step(name: str, text: str = "x", kind: str = "ConfigMap") -> dict[str, Any]:
    """Compose one object with a name that others may choose as well."""
    step = template_step(text)
    manifest = step["input"]["inline"]["template"].replace("kind: ConfigMap", f"kind: {kind}")
    step["input"]["inline"]["template"] = manifest.replace(
        "metadata:\n", f"metadata:\n  name: {name}\n"
    )
    return step


def test_two_composite_resources_with_one_composed_name_do_not_overwrite_each_other(
    place: Place,
) -> None:
    place.say(composition("shared", named_step("shared-name")), thing("shared-a", "shared"))
    until(lambda: place.is_ready("shared-a"), place.logs)
    place.say(thing("shared-b", "shared"))

    def is_refused() -> bool:
        condition = place.condition("shared-b", "Synced")
        return condition.get("status") == "False" and "one" in condition.get("message", "")

    until(is_refused, place.logs)
    assert place.is_ready("shared-a")
    assert len(place.composed("shared-a")) == 1


def test_resource_refused_by_admission_is_named_and_the_others_are_created(place: Place) -> None:
    place.say(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no-black"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["configmaps"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": "!has(object.data) || !('text' in object.data) || "
                        "object.data.text != 'black'",
                        "message": "black is not allowed",
                    }
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-black"},
            "spec": {"policyName": "no-black", "validationActions": ["Deny"]},
        },
    )
    until(partial(_is_black_refused, place), place.logs)
    place.say(composition("black", template_step("black")), thing("black", "black"))
    until(lambda: "one" in place.condition("black", "Synced").get("message", ""), place.logs)
    events = place.kubectl("get", "events", "-n", "default", "-o", "json").stdout
    assert b"black is not allowed" in events
    place.say(composition("black", template_step("white")))
    until(lambda: place.is_ready("black"), place.logs)


def _is_black_refused(place: Place) -> bool:
    probe = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "probe-", "namespace": "default"},
        "data": {"text": "black"},
    }
    try:
        place.client.post("/api/v1/namespaces/default/configmaps", probe, dryRun="All")
    except ApiFailed as refused:
        return "black is not allowed" in refused.message
    return False


def test_kind_that_is_deleted_and_created_again_is_reconciled(place: Place) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    step = named_step("a-widget")
    template = step["input"]["inline"]["template"]
    template = template.replace(
        "apiVersion: v1\nkind: ConfigMap", "apiVersion: example.org/v1\nkind: Widget"
    )
    step["input"]["inline"]["template"] = template
    widgets = "/apis/example.org/v1/namespaces/default/widgets"
    place.say(crd, composition("widget", step), thing("widget", "widget"))
    until(lambda: place.client.get(f"{widgets}/a-widget"), place.logs)
    place.kubectl("delete", "crd", "widgets.example.org", "--timeout=60s")
    until(lambda: place.condition("widget", "Synced").get("status") == "False", place.logs)
    place.say(crd)
    until(lambda: place.client.get(f"{widgets}/a-widget"), place.logs)
    until(lambda: place.is_ready("widget"), place.logs)


def test_function_with_changing_responses_is_slowed_down(place: Place) -> None:
    place.say(composition("restless", template_step("{{ randAlphaNum 8 }}")))
    place.say(thing("restless", "restless"))
    until(lambda: place.composed("restless"), place.logs)

    seen = set()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        seen |= place.values("restless", "text")
        time.sleep(0.02)
    # As many as the rate limit allows at once, plus one per second.
    assert len(seen) <= 110
    place.say(composition("restless", template_step("calm")))
    until(lambda: place.values("restless", "text") == {"calm"}, place.logs)


def test_claim_of_a_legacy_kind_is_composed(place: Place) -> None:
    step = template_step("claimed")
    template = step["input"]["inline"]["template"]
    namespaced = template.replace("metadata:\n", "metadata:\n  namespace: default\n")
    step["input"]["inline"]["template"] = namespaced
    place.say(*(store for _, store in claimed_stores(step)))
    stores = "/apis/example.org/v1alpha1/namespaces/default/stores"
    until(partial(place.client.get, stores), place.logs)
    claim = {
        "apiVersion": "example.org/v1alpha1",
        "kind": "Store",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": {"colour": "red"},
    }
    place.say(claim)

    def is_ready() -> bool:
        status = place.client.get(f"{stores}/mine").get("status") or {}
        conditions = status.get("conditions") or ()
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    until(is_ready, place.logs)
    reference = place.client.get(f"{stores}/mine")["spec"]["resourceRef"]
    assert place.values(reference["name"], "text") == {"claimed"}
    place.kubectl("delete", "store", "mine", "-n", "default", "--timeout=60s")
    until(lambda: not place.client.get("/apis/example.org/v1alpha1/xstores")["items"], place.logs)


class RolloutOnCluster(Rollout):
    """A claim on a real API server, with its own Composition and namespace."""

    def until(self, is_so: Callable[[], bool]) -> None:
        def is_so_by_now() -> bool:
            with suppress(KeyError, NotFound):
                return is_so()
            return False

        until(is_so_by_now, lambda: f"{self.name}: {self._both()}")

    def rest(self) -> None:
        seen: list[str] = []
        since = time.monotonic()

        def rests() -> bool:
            nonlocal seen, since
            now = [obj["metadata"]["resourceVersion"] for obj in self._both()]
            if now != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since >= 1.0

        self.until(rests)

    def _both(self) -> list[dict[str, Any]]:
        with suppress(KeyError, NotFound):
            return [self.claimed(), self.composite()]
        return []


def test_claims_and_their_composite_resources_converge(place: Place) -> None:
    place.say(claims_definition())
    databases = "/apis/example.org/v1alpha1/databases"
    until(partial(place.client.get, databases), place.logs)
    choice = ClusterChoice(kubeconfig=str(place.cluster.kubeconfig))
    with KubeCluster(choice) as cluster, ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(_roll_out, place, cluster), enumerate(ROWS)))


def _roll_out(place: Place, cluster: KubeCluster, numbered: tuple[int, Any]) -> None:
    number, row = numbered
    name = f"held-{number}"
    make_namespace(place.client, name)
    rollout = RolloutOnCluster(cluster, name, name)
    rollout.begin()
    steps, then = row.values
    play(rollout, steps, then)


def test_cluster_scoped_definition_is_composed(place: Place) -> None:
    wide = definition()
    wide["metadata"] = {"name": "xwides.example.org"}
    wide["spec"].update(names={"kind": "XWide", "plural": "xwides"}, scope="Cluster")
    step = template_step("x")
    template = step["input"]["inline"]["template"].replace("kind: ConfigMap", "kind: Namespace")
    step["input"]["inline"]["template"] = template.rpartition("data:")[0]
    composed = composition("wide", step)
    composed["spec"]["compositeTypeRef"]["kind"] = "XWide"
    place.say(wide, composed)
    wides = "/apis/example.org/v1alpha1/xwides"
    until(partial(place.client.get, wides), place.logs)
    place.say(
        {
            "apiVersion": "example.org/v1alpha1",
            "kind": "XWide",
            "metadata": {"name": "wide"},
            "spec": {},
        }
    )

    def made() -> bool:
        listed = place.client.get(
            "/api/v1/namespaces", labelSelector="crossplane.io/composite=wide"
        )
        return len(listed["items"]) == 1

    until(made, lambda: json.dumps(place.client.get(f"{wides}/wide")) + place.logs())


def test_deleting_a_definition_deletes_its_kind_and_objects(place: Place) -> None:
    short = definition()
    short["metadata"] = {"name": "xshorts.example.org"}
    short["spec"].update(names={"kind": "XShort", "plural": "xshorts"})
    composed = composition("short", template_step("x"))
    composed["spec"]["compositeTypeRef"]["kind"] = "XShort"
    place.say(short, composed)
    shorts = "/apis/example.org/v1alpha1/namespaces/default/xshorts"
    until(partial(place.client.get, shorts), place.logs)
    short_lived = thing("short-lived", "short")
    short_lived["kind"] = "XShort"
    place.say(short_lived)
    until(lambda: place.composed("short-lived"), place.logs)
    done = place.kubectl("delete", "xrd", "xshorts.example.org", "--timeout=80s")
    assert done.returncode == 0, done.stderr.decode() + place.logs()
    until(lambda: not place.composed("short-lived"), place.logs)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/xshorts.example.org"
    with pytest.raises(ApiFailed):
        place.client.get(crd)


def test_revisions_and_their_users_are_listed(place: Place, kanister: CommandLine) -> None:
    place.say(composition("asked", template_step("one")))
    place.say(thing("asked", "asked", compositionUpdatePolicy="Manual"))
    until(lambda: place.is_ready("asked"), place.logs)
    held = place.thing("asked")["spec"]["crossplane"]["compositionRevisionRef"]["name"]
    place.say(composition("asked", template_step("two")))
    selector = "crossplane.io/composition-name=asked"

    def names() -> list[str]:
        revision_list = place.client.get(
            f"{EXTENSIONS}/compositionrevisions", labelSelector=selector
        )
        ordered = sorted(
            revision_list["items"], key=lambda revision: int(revision["spec"]["revision"])
        )
        return [revision["metadata"]["name"] for revision in ordered]

    until(lambda: len(names()) == 2, place.logs)
    where = ("--kubeconfig", str(place.cluster.kubeconfig))
    listed = kanister("revisions", "list", "-o", "json", *where)
    assert held in listed.out, listed.err
    users = kanister("revisions", "users", held, *where)
    assert "asked" in users.out, users.err
    differs = kanister("revisions", "diff", *names(), *where)
    assert "-" in differs.out
    assert "two" in differs.out
    kept = kanister("revisions", "gc", "--keep", "1", "--dry-run", *where)
    assert held in kept.out + kept.err
