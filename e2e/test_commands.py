"""`run`, `plan` and `rbac --check` on a real API server, without a controller."""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from e2e.cluster.certificates import CertificateAuthority
from e2e.cluster.client import ApiClient
from e2e.cluster.local import LocalCluster, free_ports
from e2e.conftest import Kubectl
from e2e.controllers import GROUP, install_definitions
from tests.conftest import REPOSITORY, CommandLine

BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: copy}
actions:
  copy:
    phases:
    - func: KubeOps
      funcVersion: v0.1.0
      name: copy
      args:
        operation: create
        namespace: "{{ .Object.metadata.namespace }}"
        spec:
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: "{{ .Options.to }}"}
          data: {colour: "{{ .Object.data.colour }}"}
"""
COPY = ("copy", "--object", "v1/configmaps/{namespace}/settings", "--option", "to=copied")


@pytest.fixture
def blueprint(tmp_path: Path) -> str:
    path = tmp_path / "copy.yaml"
    path.write_text(BLUEPRINT)
    return str(path)


@pytest.fixture
def settings(admin: ApiClient, namespace: str) -> str:
    """A namespace with an object to copy."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    admin.post(path, {**config_map, "data": {"colour": "red"}})
    return namespace


def copying(namespace: str) -> list[str]:
    return [word.format(namespace=namespace) for word in COPY]


class TestARun:
    def test_acts_on_the_cluster_of_the_kubeconfig(
        self,
        kanister: CommandLine,
        kubeconfig: Path,
        admin: ApiClient,
        settings: str,
        blueprint: str,
    ) -> None:
        where = ["--kubeconfig", str(kubeconfig), "-n", settings]
        done = kanister("run", blueprint, *copying(settings), *where, "-o", "json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["state"] == "complete"
        copied = admin.get(f"/api/v1/namespaces/{settings}/configmaps/copied")
        assert copied["data"] == {"colour": "red"}

    def test_takes_a_blueprint_of_the_cluster_and_the_context_of_the_environment(
        self, kanister: CommandLine, kubeconfig: Path, admin: ApiClient, settings: str
    ) -> None:
        install_definitions(admin)
        admin.post(f"{GROUP}/namespaces/{settings}/blueprints", yaml.safe_load(BLUEPRINT))
        context = yaml.safe_load(kubeconfig.read_text())["current-context"]
        where = ["--context", context, "-n", settings]
        done = kanister(
            "run", "copy", *copying(settings), *where, env={"KUBECONFIG": str(kubeconfig)}
        )
        assert done.code == 0, done.err
        assert admin.get(f"/api/v1/namespaces/{settings}/configmaps/copied")

    def test_forbidden_run_fails_and_names_the_right(
        self, kanister: CommandLine, api_server: LocalCluster, settings: str, blueprint: str
    ) -> None:
        nobody = api_server.kubeconfig_for(f"nobody-{uuid.uuid4().hex[:6]}")
        where = ["--kubeconfig", str(nobody), "-n", settings]
        done = kanister("run", blueprint, *copying(settings), *where, "-o", "json")
        assert done.code == 1
        error = json.loads(done.out)["error"]
        assert error["reason"] == "ObjectNotFetched"
        assert 'cannot get resource "configmaps"' in error["message"]

    def test_missing_right_of_a_later_phase_is_reported_before_the_first_phase(
        self,
        kanister: CommandLine,
        api_server: LocalCluster,
        admin: ApiClient,
        kubectl: Kubectl,
        settings: str,
        tmp_path: Path,
    ) -> None:
        document = yaml.safe_load(BLUEPRINT)
        (first,) = document["actions"]["copy"]["phases"]
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copied"}}
        last = {**first, "name": "hide", "args": {**first["args"], "spec": secret}}
        document["actions"]["copy"]["phases"].append(last)
        (tmp_path / "both.yaml").write_text(yaml.safe_dump(document))
        user = f"copier-{uuid.uuid4().hex[:6]}"

        def allow(resource: str) -> None:
            name, create = f"{user}-{resource}", ("-n", settings, "create")
            may = ["--verb=get,list,create,patch", f"--resource={resource}"]
            assert kubectl(*create, "role", name, *may).returncode == 0
            binding = [f"--role={name}", f"--user={user}"]
            assert kubectl(*create, "rolebinding", name, *binding).returncode == 0

        allow("configmaps")
        where = ["--kubeconfig", str(api_server.kubeconfig_for(user)), "-n", settings]
        words = ["run", str(tmp_path / "both.yaml"), *copying(settings), *where, "-o", "json"]
        error = json.loads(kanister(*words, "--check-access").out)["error"]
        (problem,) = error["problems"]
        assert problem.startswith("copy/hide (")
        assert f"patch secrets in {settings}" in problem
        path = f"/api/v1/namespaces/{settings}/configmaps"
        assert "copied" not in [
            config_map["metadata"]["name"] for config_map in admin.get(path)["items"]
        ]
        # Without the check of permissions, the first phase would have acted by then.
        failed = kanister(*words, "--state", str(tmp_path / "state"))
        assert failed.code == 1
        assert admin.get(f"{path}/copied")
        again = failed.err.partition("  retry      ")[2].splitlines()[0]
        allow("secrets")
        done = kanister(*shlex.split(again)[1:])
        assert done.code == 0, done.err
        assert admin.get(f"/api/v1/namespaces/{settings}/secrets/copied")


def test_a_plan_reads_the_objects_of_the_cluster_and_changes_nothing(
    kanister: CommandLine, kubeconfig: Path, admin: ApiClient, settings: str, blueprint: str
) -> None:
    where = ["--kubeconfig", str(kubeconfig), "-n", settings]
    done = kanister("plan", blueprint, *copying(settings), *where, "-o", "json")
    assert done.code == 0, done.err
    (phase,) = json.loads(done.out)["phases"]
    assert phase["args"]["spec"]["data"] == {"colour": "red"}
    config_maps = admin.get(f"/api/v1/namespaces/{settings}/configmaps")["items"]
    assert "copied" not in [config_map["metadata"]["name"] for config_map in config_maps]


def test_granting_the_printed_roles_is_sufficient(
    kanister: CommandLine,
    api_server: LocalCluster,
    kubeconfig: Path,
    kubectl: Kubectl,
    settings: str,
    blueprint: str,
) -> None:
    user = f"operator-{uuid.uuid4().hex[:6]}"
    theirs = ["--kubeconfig", str(api_server.kubeconfig_for(user)), "-n", settings]
    result = kanister("rbac", blueprint, "--check", "--kubeconfig", str(kubeconfig))
    assert (result.code, result.out) == (0, ""), result.err
    assert "Nothing is missing" in result.err
    refused = kanister("rbac", blueprint, "--check", *theirs)
    assert refused.code == 1
    assert "missing: " in refused.err
    assert "create" in refused.err
    applied = kubectl("apply", "-n", settings, "-f", "-", stdin=refused.out.encode())
    assert applied.returncode == 0, applied.stderr
    for role in yaml.safe_load_all(refused.out):
        kind, name = role["kind"].lower(), role["metadata"]["name"]
        words = [f"--{kind}={name}", f"--user={user}"]
        binding = "rolebinding" if kind == "role" else "clusterrolebinding"
        bound = kubectl("-n", settings, "create", binding, f"{name}-{user}", *words)
        assert bound.returncode == 0, bound.stderr
    granted = kanister("rbac", blueprint, "--check", *theirs)
    assert (granted.code, granted.out) == (0, ""), granted.err
    done = kanister("run", blueprint, *copying(settings), *theirs)
    assert done.code == 0, done.err


def test_missing_right_to_read_the_object_is_reported(
    kanister: CommandLine, api_server: LocalCluster, namespace: str, blueprint: str
) -> None:
    nobody = api_server.kubeconfig_for(f"nobody-{uuid.uuid4().hex[:6]}")
    where = ["--kubeconfig", str(nobody), "-n", namespace]
    done = kanister("rbac", blueprint, "--check", "--object", "Secret/keys", *where)
    assert done.code == 1
    assert f"missing: get secrets keys in {namespace}\n" in done.err
    (role,) = yaml.safe_load_all(done.out)
    assert {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["keys"]} | {
        "verbs": ["get"]
    } in role["rules"]


def test_right_known_only_at_run_time_is_not_reported_as_missing(
    kanister: CommandLine, kubeconfig: Path, tmp_path: Path
) -> None:
    phase = {"func": "KubeOps", "args": {"operation": "create", "spec": "{{ .Options.what }}"}}
    blueprint = yaml.safe_load(BLUEPRINT)
    blueprint["actions"]["copy"]["phases"] = [phase]
    (tmp_path / "any.yaml").write_text(yaml.safe_dump(blueprint))
    where = ["--kubeconfig", str(kubeconfig), "-n", "default"]
    done = kanister("rbac", str(tmp_path / "any.yaml"), "--check", *where)
    assert done.code == 0, done.err
    assert "KubeOps does not declare its accesses" in done.err
    assert "Nothing is missing in namespace default, as far as functions declare it" in done.err


class TestAWrongCluster:
    def test_missing_kubeconfig_is_named(
        self, kanister: CommandLine, blueprint: str, tmp_path: Path
    ) -> None:
        missing = tmp_path / "none"
        done = kanister("rbac", blueprint, "--check", "--kubeconfig", str(missing))
        assert done.code == 1
        assert f"{missing}" in done.err
        assert "the file does not exist" in done.err
        assert "Traceback" not in done.err

    def test_missing_context_is_reported_with_existing_ones(
        self, kanister: CommandLine, blueprint: str, kubeconfig: Path
    ) -> None:
        context = yaml.safe_load(kubeconfig.read_text())["current-context"]
        where = ["--kubeconfig", str(kubeconfig), "--context", "prod"]
        done = kanister("plan", blueprint, "copy", *where)
        assert done.code == 1
        assert f"there is no context 'prod'; available: {context}" in done.err

    def test_unreachable_server_is_reported_soon(
        self, kanister: CommandLine, blueprint: str, api_server: LocalCluster
    ) -> None:
        (port,) = free_ports(1)
        nowhere = api_server.write_kubeconfig(
            f"nowhere-{port}", token="t", url=f"https://127.0.0.1:{port}"
        )
        done = kanister("rbac", blueprint, "--check", "--kubeconfig", str(nowhere))
        assert done.code == 1
        assert f"https://127.0.0.1:{port} cannot be reached" in done.err
        assert "Traceback" not in done.err

    def test_server_with_an_unknown_certificate_is_not_trusted(
        self, kanister: CommandLine, blueprint: str, kubeconfig: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "strange").mkdir()
        strange = CertificateAuthority(tmp_path / "strange")
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        cluster.pop("certificate-authority-data", None)
        cluster["certificate-authority"] = str(strange.certificate)
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(config))
        done = kanister("rbac", blueprint, "--check", "--kubeconfig", str(path))
        assert done.code == 1
        assert "certificate that is not trusted" in done.err
        assert "Traceback" not in done.err

    def test_two_ways_to_select_a_cluster_are_refused(
        self, kanister: CommandLine, blueprint: str
    ) -> None:
        words = ["--check", "--in-cluster", "--context", "prod"]
        done = kanister("rbac", blueprint, *words)
        assert done.code == 64
        assert "--in-cluster cannot be combined with" in done.err


@pytest.mark.usefixtures("node")
def test_a_command_in_a_pod_acts_on_the_cluster_around_it(
    admin: ApiClient, api_server: LocalCluster, kubectl: Kubectl, settings: str
) -> None:
    install_definitions(admin)
    admin.post(f"{GROUP}/namespaces/{settings}/blueprints", yaml.safe_load(BLUEPRINT))
    may = ["--clusterrole=admin", f"--serviceaccount={settings}:default"]
    assert kubectl("-n", settings, "create", "rolebinding", "all", *may).returncode == 0
    blueprints = ["--verb=get", "--resource=blueprints.cr.kanister.io"]
    assert kubectl("-n", settings, "create", "role", "blueprints", *blueprints).returncode == 0
    may = ["--role=blueprints", f"--serviceaccount={settings}:default"]
    assert kubectl("-n", settings, "create", "rolebinding", "read", *may).returncode == 0
    server = urlsplit(api_server.url)
    # Addresses of Services are not reachable here, so the pod gets the address of the API server.
    env = {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-m", "kanister_py", "run", "copy", *copying(settings)]
    container = {
        "name": "main",
        "image": "i",
        "command": [*command, "--in-cluster", "-o", "json"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = f"/api/v1/namespaces/{settings}/pods"
    admin.post(
        pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}
    )
    for event in admin.watch(pods, fieldSelector="metadata.name=worker", timeoutSeconds="60"):
        phase = (event["object"].get("status") or {}).get("phase")
        if phase in {"Succeeded", "Failed"}:
            break
    assert phase == "Succeeded", admin.text(f"{pods}/worker/log")
    # The pod runs in the namespace of the run.
    assert admin.get(f"/api/v1/namespaces/{settings}/configmaps/copied")["data"] == {
        "colour": "red"
    }
