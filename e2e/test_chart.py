"""The chart: is it sound, is it all that a controller needs, and is it no more?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.client import ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.conftest import make_namespace
from e2e.test_compositions import composition, definition, template_step, thing
from e2e.test_controller import until
from kanister_py.executor.install_definitions import read_definitions
from tests.conftest import REPOSITORY, CommandLine
from tests.ports import free_port

CHART = REPOSITORY / "deploy/chart"
HOME, SHOP, OTHER = "kanister", "shop", "other"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kanister-py"
EVERYTHING = {
    "endpoint": {"expose": True},
    "monitoring": {"rules": {"enabled": True}, "serviceMonitor": {"enabled": True}},
    "webhook": {"compositions": True},
    "applications": [{"namespace": SHOP, "clusterRole": "edit"}],
}


class Helm:
    """Helm, with the chart and what somebody sets."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._folder = folder
        self._kubeconfig = kubeconfig

    def __call__(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        given = self._folder / "values.json"
        given.write_text(json.dumps(values or {}))
        with_values = ["--values", str(given)] if values is not None else []
        own = {key: str(self._folder / key) for key in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
        where = ["--kubeconfig", str(self._kubeconfig)] if self._kubeconfig else []
        done = subprocess.run(
            [str(self._program), *words, *with_values, *where],
            capture_output=True,
            env={**os.environ, **own, "HELM_DATA_HOME": str(self._folder)},
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def objects(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Give what the chart would install."""
        text = self(
            *("template", "kanister-py", str(CHART), "--namespace", HOME),
            *("--kube-version", "1.34.0"),
            values=values,
        )
        return [each for each in yaml.safe_load_all(text) if each]


@pytest.fixture
def chart(helm: Path, tmp_path: Path) -> Helm:
    return Helm(helm, tmp_path)


# Without a cluster


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="as it comes"),
        pytest.param(EVERYTHING, id="with everything"),
        pytest.param(
            {"crds": {"install": False}, "webhook": {"enabled": False}, "watch": {"all": True}},
            id="with little, for all namespaces",
        ),
        pytest.param(
            {"compositions": {"enabled": True, "revisions": True, "functions": True}},
            id="with compositions",
        ),
    ],
)
def test_the_chart_is_sound(chart: Helm, values: dict[str, Any]) -> None:
    chart("lint", "--strict", str(CHART), values=values)
    found = chart.objects(values)
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in found
    ]
    assert len(names) == len(set(names))
    assert ("Deployment", HOME, "kanister-py") in names


def test_the_definitions_are_ours_and_outlive_the_chart(chart: Helm) -> None:
    found = {
        each["metadata"]["name"]: each
        for each in chart.objects({})
        if each["kind"] == "CustomResourceDefinition"
    }
    ours = {each["metadata"]["name"]: each for each in read_definitions()}
    assert {name: each["spec"] for name, each in found.items()} == {
        name: each["spec"] for name, each in ours.items()
    }
    for each in found.values():
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watch": {"all": True}}])
def test_nothing_in_the_chart_reads_secrets_but_its_own(
    chart: Helm, values: dict[str, Any]
) -> None:
    for each in chart.objects(values):
        for rule in each.get("rules") or ():
            assert "*" not in rule.get("verbs", ())
            assert "*" not in rule.get("resources", ())
            if "secrets" not in rule.get("resources", ()):
                continue
            assert (each["kind"], each["metadata"]["namespace"]) == ("Role", HOME)
            named = set(rule.get("resourceNames", ()))
            own = {"kanister-py-webhook", "kanister-py-webhook-authority"}
            assert rule["verbs"] == ["create"] or named == own


def test_the_pod_can_do_nothing_to_its_machine(chart: Helm) -> None:
    (deployment,) = [each for each in chart.objects({}) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)


COMPOSES: dict[str, Any] = {
    "compositions": {
        "enabled": True,
        "revisions": True,
        "rules": [
            {"apiGroups": ["example.org"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        ],
    },
    "webhook": {"enabled": False},
}


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watch": {"all": True}, "keep": 5}, COMPOSES])
def test_the_controller_takes_every_flag_that_it_is_given(
    chart: Helm, values: dict[str, Any]
) -> None:
    from kanister_py.cli import controller
    from kanister_py.cli.parser import Parser

    (deployment,) = [each for each in chart.objects(values) if each["kind"] == "Deployment"]
    command, *args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    parser = Parser(prog=f"kanister-py {command}", environment={})
    controller.add_arguments(parser)
    read = parser.parse_args(args)
    assert read.all_namespaces is bool(values.get("watch"))
    assert read.keep == values.get("keep")


# On a cluster


class Installed:
    """A cluster with the chart on it, and a controller that has what its pod would have."""

    def __init__(self, cluster: LocalCluster, helm: Helm, folder: Path) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self._helm = helm
        self._log = folder / "controller.log"
        self._process: subprocess.Popen[bytes] | None = None

    def install(self, values: Mapping[str, Any]) -> None:
        self._helm(
            *("upgrade", "--install", "kanister-py", str(CHART), "--namespace", HOME),
            values=values,
        )

    def uninstall(self) -> None:
        self._helm("uninstall", "kanister-py", "--namespace", HOME)

    def start(self) -> None:
        """Start what the Deployment says, as its ServiceAccount."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        account = f"/api/v1/namespaces/{HOME}/serviceaccounts/kanister-py/token"
        token = self.client.post(account, request)["status"]["token"]
        kubeconfig = self.cluster.write_kubeconfig("controller", token=token, namespace=HOME)
        deployment = self.client.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/kanister-py")
        args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        ports = ("--port", "--health-port", "--webhook-port")
        args = [
            f"{flag}={free_port()}" if (flag := each.partition("=")[0]) in ports else each
            for each in args
        ]
        environment = {
            key: text for key, text in os.environ.items() if not key.startswith(("KANISTER", "POD"))
        }
        environment |= {"POD_NAMESPACE": HOME, "POD_NAME": "kanister-py-0"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kanister_py", *args, "--kubeconfig", str(kubeconfig)],
                env=environment,
                stderr=log,
            )

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(120) == 0, self.log
        self._process = None

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def until(self, wanted: Callable[[], Any]) -> Any:
        try:
            return until(wanted, 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def bundle(self) -> str:
        found = self.client.get(CONFIGURATION)["webhooks"][0]
        bundle: str = found["clientConfig"].get("caBundle", "")
        return bundle

    def certificate(self) -> str:
        try:
            secret = self.client.get(f"/api/v1/namespaces/{HOME}/secrets/kanister-py-webhook")
        except ApiFailed:
            return ""
        certificate: str = secret["data"]["tls.crt"]
        return certificate

    def create(self, plural: str, name: str, namespace: str, **content: Any) -> str:
        path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{namespace}/{plural}"
        kind = {"blueprints": "Blueprint", "actionsets": "ActionSet"}[plural]
        head = {"apiVersion": "cr.kanister.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
        self.client.post(path, {**head, **content})
        return f"{path}/{name}"

    def run(self, name: str, blueprint: str) -> dict[str, Any]:
        """Run an ActionSet to its end, and give its status."""
        reference = {"kind": "Namespace", "name": SHOP, "namespace": SHOP}
        action = {"name": "act", "blueprint": blueprint, "object": reference}
        path = self.create("actionsets", name, SHOP, spec={"actions": [action]})

        def ended() -> Any:
            status = self.client.get(path).get("status") or {}
            return status if status.get("state") in ("complete", "failed") else None

        status: dict[str, Any] = self.until(ended)
        return status

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def installed(
    new_api_server: Callable[..., LocalCluster], helm: Path, tmp_path: Path
) -> Iterator[Installed]:
    cluster = new_api_server()
    for each in (HOME, SHOP, OTHER):
        make_namespace(cluster.client, each)
    made = Installed(cluster, Helm(helm, tmp_path, cluster.kubeconfig), tmp_path)
    yield made
    made.close()


def creates(name: str, namespace: str) -> dict[str, Any]:
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
    args = {"operation": "create", "namespace": namespace, "spec": manifest}
    return {"act": {"phases": [{"name": "make", "func": "KubeOps", "args": args}]}}


def test_a_controller_with_the_rights_of_the_chart_runs_what_it_may_and_no_more(
    installed: Installed, kanister: CommandLine, tmp_path: Path
) -> None:
    actions = creates("made", SHOP)
    file = tmp_path / "blueprint.yaml"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "Blueprint",
                "metadata": {"name": "makes"},
                "actions": actions,
            }
        )
    )
    printed = kanister("rbac", str(file), "--namespace", SHOP, "-o", "json")
    rules = [
        rule
        for each in json.loads(printed.out)["items"]
        if each["kind"] == "Role"
        for rule in each["rules"]
    ]
    values: dict[str, Any] = {
        "watch": {"namespaces": [SHOP]},
        "applications": [{"namespace": SHOP, "rules": rules}],
    }
    installed.install(values)
    installed.start()

    # The certificates are made and told with these rights alone.
    assert installed.until(installed.bundle)
    assert installed.until(installed.certificate)
    before = installed.bundle()

    # No pod runs here that the API server could call, so the webhook goes: an upgrade.
    installed.install({**values, "keep": 7})
    assert installed.bundle() == before, "an upgrade keeps whom the API server trusts"
    installed.stop()
    values["webhook"] = {"enabled": False}
    installed.install(values)
    installed.start()

    installed.create("blueprints", "makes", SHOP, actions=actions)
    status = installed.run("allowed", "makes")
    assert status["state"] == "complete", f"{status}\n{installed.log}"
    assert installed.client.get(f"/api/v1/namespaces/{SHOP}/configmaps/made")

    installed.create("blueprints", "strays", SHOP, actions=creates("made", OTHER))
    status = installed.run("strayed", "strays")
    assert status["state"] == "failed"
    assert "forbidden" in status["error"]["message"].lower()
    events = installed.client.get(f"/api/v1/namespaces/{SHOP}/events")["items"]
    about = {each["involvedObject"]["name"] for each in events}
    assert {"allowed", "strayed"} <= about

    # What it was refused is in its log: nothing that it does by itself may be.
    refused = [
        line for line in installed.log.splitlines() if "orbidden" in line and "strayed" not in line
    ]
    assert refused == []
    installed.stop()

    installed.uninstall()
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{SHOP}/actionsets/allowed"
    assert installed.client.get(path)["status"]["state"] == "complete"
    with pytest.raises(ApiFailed):
        installed.client.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/kanister-py")


def test_a_controller_with_the_rights_of_the_chart_composes(installed: Installed) -> None:
    installed.install(COMPOSES)
    extensions = "/apis/apiextensions.crossplane.io"

    def is_served(path: str) -> bool:
        try:
            return bool(installed.client.get(path))
        except ApiFailed:
            return False

    for plural in ("compositeresourcedefinitions", "compositionrevisions", "compositions"):
        installed.until(partial(is_served, f"{extensions}/v1/{plural}"))
    installed.start()
    installed.client.post(f"{extensions}/v2/compositeresourcedefinitions", definition())
    installed.client.post(f"{extensions}/v1/compositions", composition("a", template_step("x")))
    things = "/apis/example.org/v1alpha1/namespaces/default/xthings"

    installed.until(partial(is_served, things))
    installed.client.post(things, thing("mine", "a"))

    def is_ready() -> bool:
        status = installed.client.get(f"{things}/mine").get("status") or {}
        found = status.get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    installed.until(is_ready)
    assert "forbidden" not in installed.log.lower()
