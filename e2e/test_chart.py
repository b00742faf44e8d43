"""The chart: rendering, permissions, upgrades and uninstallation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.chart import (
    BLUEPRINTS,
    CHART,
    HOME,
    OTHER,
    READS_THE_GATE,
    SHOP,
    Helm,
    Installed,
    installed,
    installed_without_plugins,
    of_kind,
    open_gate,
    waits_for_the_gate,
)
from e2e.cluster.client import ApiFailed
from e2e.composite_objects import composition, definition, template_step, thing
from e2e.conftest import Kubectl
from kanister_py.core.actionsets.failure_notices import NOTIFY
from kanister_py.executor.install_definitions import read_definitions
from tests.conftest import REPOSITORY, CommandLine
from tests.controller.actionsets.notice_receiver import Webhook, secret, webhook

__all__ = ["installed", "installed_without_plugins", "webhook"]

# Output of `helm package` for the last release.
LAST_RELEASE = REPOSITORY / "e2e/released/kanister-py-0.1.0.tgz"
EVERYTHING = {
    "endpoint": {"expose": True, "tls": True},
    "monitoring": {"rules": {"enabled": True}, "serviceMonitor": {"enabled": True}},
    "webhook": {"compositions": True, "hostNetwork": True},
    "compositions": {"enabled": True, "revisions": True},
    "applications": [{"namespace": SHOP, "clusterRole": "edit"}],
    "controller": {"paused": True, "limits": ["shop/mysql=2", "*:backup=10"]},
    "extraArgs": ["--poll-interval=60s"],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    "drain": "1m30s",
}


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
def test_the_chart_passes_lint_and_renders_unique_objects(
    chart: Helm, values: dict[str, Any]
) -> None:
    chart("lint", "--strict", str(CHART), values=values)
    objects = chart.objects(values)
    names = [
        (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects
    ]
    assert len(names) == len(set(names))
    assert ("Deployment", HOME, "kanister-py") in names


COMPOSITIONS = {crd["metadata"]["name"] for crd in read_definitions("compositions")}
REVISIONS = {"compositionrevisions.apiextensions.crossplane.io"}
PACKAGES = {"functions.pkg.crossplane.io", "deploymentruntimeconfigs.pkg.crossplane.io"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, BLUEPRINTS, id="of ActionSets alone"),
        pytest.param(
            {"compositions": {"enabled": True}},
            BLUEPRINTS | COMPOSITIONS - REVISIONS - PACKAGES,
            id="with compositions",
        ),
        pytest.param(
            {"compositions": {"enabled": True, "revisions": True, "functions": True}},
            BLUEPRINTS | COMPOSITIONS,
            id="with all of compositions",
        ),
        pytest.param(
            {"actionsets": {"enabled": False}, "compositions": {"enabled": True}},
            COMPOSITIONS - REVISIONS - PACKAGES,
            id="of compositions alone",
        ),
        pytest.param({"crds": {"install": False}}, set(), id="none at all"),
    ],
)
def test_definitions_of_enabled_features_are_installed_and_kept(
    chart: Helm, values: dict[str, Any], expected: set[str]
) -> None:
    crds = of_kind(chart.objects(values), "CustomResourceDefinition")
    assert crds.keys() == expected
    own = {crd["metadata"]["name"]: crd for crd in read_definitions()}
    assert {name: crd["spec"] for name, crd in crds.items()} == {
        name: own[name]["spec"] for name in crds
    }
    for crd in crds.values():
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watch": {"all": True}}])
def test_roles_only_read_the_secrets_of_the_controller(chart: Helm, values: dict[str, Any]) -> None:
    for obj in chart.objects(values):
        for rule in obj.get("rules") or ():
            assert "*" not in rule.get("verbs", ())
            assert "*" not in rule.get("resources", ())
            if "secrets" not in rule.get("resources", ()):
                continue
            assert (obj["kind"], obj["metadata"]["namespace"]) == ("Role", HOME)
            named = set(rule.get("resourceNames", ()))
            certificates = ("kanister-py-webhook", "kanister-py-compositions-tls")
            own = [{"kanister-py-session"}, *({name, f"{name}-authority"} for name in certificates)]
            assert rule["verbs"] == ["create"] or named in own


def test_pods_of_the_chart_have_no_privileges(chart: Helm) -> None:
    for deployment in of_kind(chart.objects(COMPOSES), "Deployment").values():
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


@pytest.mark.parametrize("uses_tls", [False, True])
def test_probes_and_scrapes_use_tls_if_the_endpoint_does(chart: Helm, uses_tls: bool) -> None:
    values = {**EVERYTHING, "endpoint": {"tls": uses_tls}}
    objects = chart.objects(values)
    deployments = of_kind(objects, "Deployment")
    monitors = of_kind(objects, "ServiceMonitor")
    assert monitors.keys() == deployments.keys() == {"kanister-py", "kanister-py-compositions"}
    for name, deployment in deployments.items():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"].get("scheme") == ("HTTPS" if uses_tls else None)
        args = container["args"]
        assert ("--tls" in args, f"--tls-service={name}" in args) == (uses_tls, uses_tls)
        (endpoint,) = monitors[name]["spec"]["endpoints"]
        assert endpoint.get("scheme") == ("https" if uses_tls else None)
        if uses_tls:
            secret = endpoint["tlsConfig"]["ca"]["secret"]["name"]
            assert f"--tls-secret={secret}" in args
            assert endpoint["tlsConfig"]["serverName"] == f"{name}.{HOME}.svc"


def test_packages_of_functions_get_permissions_only_in_their_namespace(chart: Helm) -> None:
    composing = {"enabled": True, "functions": True, "functionsNamespace": "packages"}
    objects = chart.objects({"compositions": composing})
    for kind in ("Role", "RoleBinding", "NetworkPolicy"):
        (matching,) = (
            obj
            for obj in objects
            if obj["metadata"]["name"] == "kanister-py-functions" and obj["kind"] == kind
        )
        assert matching["metadata"]["namespace"] == "packages"
    for role in of_kind(objects, "Role").values():
        for rule in role["rules"]:
            if role["metadata"]["namespace"] == HOME and "secrets" in rule["resources"]:
                assert rule["verbs"] == ["create"] or rule["resourceNames"]
    container = of_kind(objects, "Deployment")["kanister-py-compositions"]["spec"]["template"][
        "spec"
    ]["containers"][0]
    assert "--functions-namespace=packages" in container["args"]


def test_actionsets_and_compositions_are_deployments_with_separate_permissions(
    chart: Helm,
) -> None:
    objects = chart.objects({**COMPOSES, "watch": {"all": True}})
    deployments = of_kind(objects, "Deployment")
    pods = {name: deployment["spec"]["template"] for name, deployment in deployments.items()}
    assert {name: pod["spec"]["serviceAccountName"] for name, pod in pods.items()} == {
        "kanister-py": "kanister-py",
        "kanister-py-compositions": "kanister-py-compositions",
    }
    groups: dict[str, set[str]] = {name: set() for name in pods}
    for kind in ("Role", "ClusterRole"):
        roles = of_kind(objects, kind)
        for binding in of_kind(objects, f"{kind}Binding").values():
            for subject in binding["subjects"]:
                rules = roles[binding["roleRef"]["name"]]["rules"]
                groups[subject["name"]] |= {
                    api_group for rule in rules for api_group in rule["apiGroups"]
                }
    assert "cr.kanister.io" in groups["kanister-py"] - groups["kanister-py-compositions"]
    of_composing = {"apiextensions.crossplane.io", "pkg.crossplane.io", "example.org"}
    assert of_composing <= groups["kanister-py-compositions"] - groups["kanister-py"]
    # Selectors of Services and Deployments match only the pods of one Deployment.
    for name, pod in pods.items():
        other_labels = [
            other_pod["metadata"]["labels"] for other, other_pod in pods.items() if other != name
        ]
        for selecting in (*of_kind(objects, "Service").values(), deployments[name]):
            selector = selecting["spec"]["selector"]
            selector = selector.get("matchLabels", selector)
            if selector.items() <= pod["metadata"]["labels"].items():
                assert not any(selector.items() <= other.items() for other in other_labels)


def test_pods_of_functions_meet_the_restricted_standard_by_one_value(chart: Helm) -> None:
    def variables(values: Mapping[str, Any]) -> dict[str, Any]:
        deployment = of_kind(chart.objects(values), "Deployment")["kanister-py"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return {entry["name"]: entry.get("value") for entry in container["env"]}

    assert not [name for name in variables({}) if name.startswith("KANISTER_PY_JOB_POD")]
    values = {"jobPods": {"podSecurity": "restricted", "runAsUser": 65532}}
    assert variables(values)["KANISTER_PY_JOB_POD_SECURITY"] == "restricted"
    assert variables(values)["KANISTER_PY_JOB_POD_USER"] == "65532"


def test_the_number_of_replicas_may_be_left_to_an_autoscaler(chart: Helm) -> None:
    values = {"replicas": None, "compositions": {"enabled": True, "replicas": None}}
    objects = chart.objects(values)
    deployments = of_kind(objects, "Deployment")
    assert not any("replicas" in deployment["spec"] for deployment in deployments.values())
    assert of_kind(objects, "PodDisruptionBudget").keys() == deployments.keys()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"nameOverride": "backup"}, "kanister-py-backup", id="name of the chart"),
        pytest.param({"fullnameOverride": "backup"}, "backup", id="full name"),
        pytest.param({"enabled": True}, "kanister-py", id="condition of a parent chart"),
    ],
)
def test_names_can_be_overridden(chart: Helm, values: dict[str, Any], expected: str) -> None:
    assert [*of_kind(chart.objects(values), "Deployment")] == [expected]


@pytest.mark.parametrize("install", ["", "missing"])
def test_without_a_cluster_definitions_must_be_enabled_explicitly(
    chart: Helm, install: str
) -> None:
    words = ("template", "kanister-py", str(CHART), "--kube-version", "1.34.0")
    refusal = chart(*words, values={"crds": {"install": install}}, refused=True)
    assert "needs access to a cluster" in refusal
    for explicit in (True, False):
        objects = chart.objects({"crds": {"install": explicit}})
        assert bool(of_kind(objects, "CustomResourceDefinition")) is explicit
        # A rendered Job would run as soon as it is applied.
        assert not of_kind(objects, "Job")


def test_a_release_with_a_partition_has_no_cluster_scoped_features(chart: Helm) -> None:
    composing = {"compositions": {"enabled": True}}
    kinds = ("CustomResourceDefinition", "ValidatingWebhookConfiguration")
    plain, red = (chart.objects({**composing, "partition": value}) for value in ("", "red"))
    for objects, has_some in ((plain, True), (red, False)):
        assert [bool(of_kind(objects, kind)) for kind in kinds] == [has_some, has_some]
        for deployment in of_kind(objects, "Deployment").values():
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            assert ("--partition=red" in container["args"]) is not has_some


@pytest.mark.parametrize(
    ("drain", "seconds"), [("20s", 40), ("1m30s", 110), ("0s", 20), ("1.5h", 5420), ("100ms", 21)]
)
def test_the_grace_period_includes_the_time_to_drain(chart: Helm, drain: str, seconds: int) -> None:
    (deployment,) = of_kind(chart.objects({"drain": drain}), "Deployment").values()
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == seconds


def test_the_webhook_can_use_the_host_network(
    chart: Helm,
) -> None:
    values = {**COMPOSES, "webhook": {"hostNetwork": True}, "ports": {"webhook": 9555}}
    objects = chart.objects(values)
    pods = {
        name: deployment["spec"]["template"]["spec"]
        for name, deployment in of_kind(objects, "Deployment").items()
    }
    assert [name for name, pod in pods.items() if pod.get("hostNetwork")] == ["kanister-py"]
    assert pods["kanister-py"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    (container,) = pods["kanister-py"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (ports["webhook"], "--webhook-port=9555" in container["args"]) == (9555, True)


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        pytest.param({"compositons": {"enabled": True}}, "compositons", id="a slip in a name"),
        pytest.param({"webhook": {"port": 1}}, "port", id="a value of another chart"),
        pytest.param({"drain": "20"}, "/drain", id="a duration without a unit"),
        pytest.param({"replicas": "2"}, "/replicas", id="text for a number"),
        pytest.param({"controller": {"limits": ["mysql"]}}, "/controller/limits/0", id="no limit"),
        pytest.param(
            {"actionsets": {"enabled": False}}, "enable at least one of them", id="nothing enabled"
        ),
        pytest.param(
            {"webhook": {"compositions": True}},
            "webhook.compositions requires compositions.enabled",
            id="a webhook for another controller's revisions",
        ),
    ],
)
def test_unknown_and_invalid_values_are_refused(
    chart: Helm, values: dict[str, Any], refusal: str
) -> None:
    words = ("template", "kanister-py", str(CHART), "--kube-version", "1.34.0")
    assert refusal in chart(*words, values=values, refused=True)


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


@pytest.mark.parametrize(
    "values",
    [
        {},
        EVERYTHING,
        {"watch": {"all": True}, "keep": 5},
        COMPOSES,
        {"compositions": {**COMPOSES["compositions"], "ownDeployment": False}},
        {"compositions": COMPOSES["compositions"], "actionsets": {"enabled": False}},
    ],
)
def test_the_controller_accepts_all_flags_of_the_chart(chart: Helm, values: dict[str, Any]) -> None:
    from kanister_py.cli import controller
    from kanister_py.cli.parser import Parser

    deployments = of_kind(chart.objects(values), "Deployment")
    composes, runs = [], []
    for name, deployment in deployments.items():
        command, *args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        parser = Parser(prog=f"kanister-py {command}", environment={})
        controller.add_arguments(parser)
        read = parser.parse_args(args)
        composes += [name] if read.enable_compositions else []
        assert read.paused is bool(values.get("controller"))
        if read.disable_actionsets:
            continue
        runs.append(name)
        assert read.all_namespaces is bool(values.get("watch"))
        assert read.keep == values.get("keep")
        assert len(read.limits) == (2 if values.get("controller") else 0)
    assert len(composes) == bool(values.get("compositions"))
    assert len(runs) == ("actionsets" not in values)
    assert {*composes, *runs} == deployments.keys()


# On a cluster


def creates(name: str, namespace: str) -> dict[str, Any]:
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
    args = {"operation": "create", "namespace": namespace, "spec": manifest}
    return {"act": {"phases": [{"name": "make", "func": "KubeOps", "args": args}]}}


def test_a_controller_with_the_permissions_of_the_chart_runs_only_what_it_may(
    installed: Installed, kanister: CommandLine, tmp_path: Path, webhook: Webhook
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
        for obj in json.loads(printed.out)["items"]
        if obj["kind"] == "Role"
        for rule in obj["rules"]
    ]
    values: dict[str, Any] = {
        "watch": {"namespaces": [SHOP]},
        "applications": [{"namespace": SHOP, "rules": rules}],
    }
    installed.install(values)
    installed.start()

    # The certificates are created and published with these permissions alone.
    assert installed.until(installed.bundle)
    assert installed.until(installed.certificate)
    before = installed.bundle()

    # The API server cannot call the webhook here, so an upgrade disables it.
    values |= {"notify": {"origins": [webhook.origin]}}
    notify = secret(webhook.origin) | {"metadata": {"name": "kanister-py-notify"}}
    installed.client.post(f"/api/v1/namespaces/{SHOP}/secrets", notify)
    installed.install({**values, "keep": 7})
    assert installed.bundle() == before, "an upgrade keeps whom the API server trusts"
    # The webhook starts before leader election, which handles the stop.
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
    installed.until(lambda: installed.client.get(leases)["items"])
    installed.stop()
    values["webhook"] = {"enabled": False}
    installed.install(values)
    installed.start()

    installed.create("blueprints", "makes", SHOP, actions=actions)
    status = installed.run("allowed", "makes")
    assert status["state"] == "complete", f"{status}\n{installed.log}"
    assert installed.client.get(f"/api/v1/namespaces/{SHOP}/configmaps/made")

    noted = {"name": "strays", "annotations": {NOTIFY: "kanister-py-notify"}}
    actions = creates("made", OTHER)
    installed.create("blueprints", "strays", SHOP, actions=actions, metadata=noted)
    status = installed.run("strayed", "strays")
    assert webhook.until(1)[0].content["actionSet"] == "strayed"
    assert status["state"] == "failed"
    assert status["error"]["reason"] == "ReferenceNotGranted"
    events = installed.client.get(f"/api/v1/namespaces/{SHOP}/events")["items"]
    about = {event["involvedObject"]["name"] for event in events}
    assert {"allowed", "strayed"} <= about

    # The log contains denied requests. The controller's own requests must not be denied.
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


EXTENSIONS = "/apis/apiextensions.crossplane.io"
THINGS = "/apis/example.org/v1alpha1/namespaces/default/xthings"


def make_thing(installed: Installed) -> None:
    """Create a kind of composite resources, and one resource."""

    def is_served(path: str) -> bool:
        try:
            return bool(installed.client.get(path))
        except ApiFailed:
            return False

    for plural in ("compositeresourcedefinitions", "compositions"):
        installed.until(partial(is_served, f"{EXTENSIONS}/v1/{plural}"))
    installed.client.post(f"{EXTENSIONS}/v2/compositeresourcedefinitions", definition())
    installed.client.post(f"{EXTENSIONS}/v1/compositions", composition("a", template_step("x")))
    installed.until(partial(is_served, THINGS))
    installed.client.post(THINGS, thing("mine", "a"))


def until_ready(installed: Installed, name: str = "mine") -> None:
    def is_ready() -> bool:
        status = installed.client.get(f"{THINGS}/{name}").get("status") or {}
        conditions = status.get("conditions") or ()
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    installed.until(is_ready)


def is_gone(installed: Installed, name: str) -> bool:
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{SHOP}/actionsets/{name}"
    try:
        installed.client.get(path)
    except ApiFailed:
        return True
    return False


def has_event_about(installed: Installed, kind: str) -> bool:
    """Check for an event about a cluster-scoped object. They are in namespace default."""
    events = installed.client.get("/api/v1/namespaces/default/events")["items"]
    return any(event["involvedObject"]["kind"] == kind for event in events)


_PACKAGES = "pkg.crossplane.io"
_COMPOSING = "apiextensions.crossplane.io"
# Permissions that the test below does not use, by the reason for granting them.
UNUSED_PERMISSIONS: dict[str, set[str]] = {
    "required by admission if an object gets an owner or is created by apply": {
        f"update compositeresourcedefinitions/finalizers.{_COMPOSING}",
        f"update compositions/finalizers.{_COMPOSING}",
        f"update functions/finalizers.{_PACKAGES}",
        f"update functionrevisions/finalizers.{_PACKAGES}",
        "create customresourcedefinitions.apiextensions.k8s.io",
    },
    "pages and the endpoint: users are authenticated, and lines of other replicas are read": {
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
        "list pods",
        "get pods/log",
        "patch schedules.kanister-py.io",
    },
    "Schedules: runs are created and recorded, and the status is written": {
        "create actionsets.cr.kanister.io",
        "get schedules.kanister-py.io",
        "update schedules/status.kanister-py.io",
    },
    "finalizers and definitions without a status subresource are patched": {
        "get actionsets.cr.kanister.io",
        "patch actionsets.cr.kanister.io",
    },
    "only runs that name a Profile or an object in another namespace": {
        "get profiles.cr.kanister.io",
        "list referencegrants.kanister-py.io",
    },
    "packages of functions, which need a registry: test_compositions.py runs them": {
        *(f"{verb} functions.{_PACKAGES}" for verb in ("get", "list", "watch", "create")),
        *(
            f"{verb} functionrevisions.{_PACKAGES}"
            for verb in ("get", "create", "update", "delete")
        ),
        f"update functions/status.{_PACKAGES}",
        f"update functionrevisions/status.{_PACKAGES}",
        f"get deploymentruntimeconfigs.{_PACKAGES}",
    },
    "functions that require EnvironmentConfigs": {
        f"{verb} environmentconfigs.{_COMPOSING}" for verb in ("get", "list", "watch")
    },
    "revisions that are activated again, have no owner or exceed the limit": {
        f"{verb} compositionrevisions.{_COMPOSING}" for verb in ("get", "update", "patch", "delete")
    },
    "the cleanup before an uninstall": {
        "delete leases.coordination.k8s.io",
        "patch deployments/scale.apps",
    },
    "definitions that are deleted": {"delete customresourcedefinitions.apiextensions.k8s.io"},
}


def test_controllers_with_the_permissions_of_the_chart_run_and_compose(
    installed: Installed,
) -> None:
    installed.install({**COMPOSES, **READS_THE_GATE})
    for name in ("kanister-py", "kanister-py-compositions"):
        installed.start(name)
    make_thing(installed)
    until_ready(installed)
    installed.until(partial(has_event_about, installed, "CompositeResourceDefinition"))
    installed.create("blueprints", "waits", SHOP, actions=waits_for_the_gate())
    open_gate(installed)
    assert installed.run("runs", "waits")["state"] == "complete"
    installed.stop("kanister-py-compositions")
    assert installed.run("runs-on", "waits")["state"] == "complete"
    installed.begin("short", "waits", ttlSecondsAfterFinished=0)
    installed.until(partial(is_gone, installed, "short"))
    # The admission plugin discovers new kinds of owners within half a minute.
    lines = installed.log.lower().splitlines()
    assert [line for line in lines if "forbidden" in line and "restmapping" not in line] == []
    # One request per process checks whether it may watch Namespaces.
    assert set(installed.refused()) <= {"kanister-py: list namespaces"}
    assert installed.unused() - set().union(*UNUSED_PERMISSIONS.values()) == set()
    installed.stop()


def test_a_standby_with_the_permissions_of_the_chart_takes_over(installed: Installed) -> None:
    installed.install(READS_THE_GATE)
    for replica in range(2):
        installed.start(replica=replica)
    installed.until(lambda: "Standby " in installed.log)
    installed.create("blueprints", "waits", SHOP, actions=waits_for_the_gate())
    open_gate(installed)
    assert installed.run("first", "waits")["state"] == "complete"
    installed.stop(replica=0)
    assert installed.run("taken-over", "waits")["state"] == "complete"
    installed.stop(replica=1)
    assert "forbidden" not in installed.log.lower()


def test_the_api_server_accepts_all_rendered_objects(installed: Installed) -> None:
    kubectl = Kubectl(installed.cluster.programs.kubectl, installed.cluster.kubeconfig)
    all_values: tuple[dict[str, Any], ...] = (
        {},
        EVERYTHING,
        {
            "watch": {"all": True},
            "compositions": {**COMPOSES["compositions"], "functions": True},
        },
        {**COMPOSES, "actionsets": {"enabled": False}, "webhook": {"compositions": True}},
    )
    for values in all_values:
        # Objects of the Prometheus operator need its definitions; promtool checks them.
        rendered = [
            obj
            for obj in installed.helm.objects(values)
            if not obj["apiVersion"].startswith("monitoring.coreos.com/")
        ]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rendered}).encode()
        words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
        done = kubectl(*words, stdin=text)
        assert done.returncode == 0, done.stderr.decode()
        assert b"Warning" not in done.stderr, done.stderr.decode()


def test_the_last_releases_chart_is_upgraded_and_rolled_back_under_runs(
    installed_without_plugins: Installed,
) -> None:
    installed = installed_without_plugins
    together = {**READS_THE_GATE, "compositions": COMPOSES["compositions"]}
    installed.install(together, LAST_RELEASE)
    installed.start()
    installed.create("blueprints", "waits", SHOP, actions=waits_for_the_gate())
    installed.begin("before", "waits")
    installed.until_state("before", "running")
    make_thing(installed)
    until_ready(installed)

    installed.install(together)
    # The new Deployment starts before the old process has stopped.
    installed.start("kanister-py-compositions")
    installed.until(lambda: "Waiting to compose" in installed.log)
    # The old process keeps its permissions until it has stopped.
    assert installed.composers() == {"kanister-py", "kanister-py-compositions"}
    upgraded_at = len(installed.log)
    installed.client.post(THINGS, thing("during", "a"))
    until_ready(installed, "during")
    assert "forbidden" not in installed.log[upgraded_at:].lower()
    installed.stop()
    installed.start()
    installed.install(together)
    assert installed.composers() == {"kanister-py-compositions"}
    installed.begin("between", "waits")
    installed.until_state("between", "running")
    assert installed.until_state("before", "running")["actions"][0]["phases"][0]["attempt"] == 1
    installed.client.post(THINGS, thing("second", "a"))
    until_ready(installed, "second")

    installed.roll_back(1)
    for name in ("kanister-py-compositions", "kanister-py"):
        installed.stop(name)
    installed.start()
    open_gate(installed)
    for name in ("before", "between"):
        status = installed.until_state(name, "complete", "failed")
        assert status["state"] == "complete", f"{status}\n{installed.log}"
    installed.client.post(THINGS, thing("third", "a"))
    until_ready(installed, "third")

    actions = waits_for_the_gate("another")
    installed.create("blueprints", "waits-on", SHOP, actions=actions)
    installed.begin("left", "waits-on")
    installed.until_state("left", "running")
    installed.uninstall()
    # Without its permissions, it cannot stop gracefully.
    installed.close()
    # Objects of users outlive the chart.
    assert installed.until_state("before", "complete")
    assert installed.client.get(f"{THINGS}/third")
    assert installed.until_state("left", "running")

    installed.install(together)
    installed.start()
    open_gate(installed, "another")
    status = installed.until_state("left", "complete", "failed")
    assert status["state"] == "complete", f"{status}\n{installed.log}"
    installed.stop()


def test_an_uninstall_ends_runs_and_leaves_no_finalizers(
    installed: Installed,
) -> None:
    installed.install(READS_THE_GATE)
    installed.start()
    act = waits_for_the_gate()["act"]
    (waits,) = act["phases"]
    (one,) = waits["args"]["conditions"]["anyOf"]
    args = {**waits["args"], "conditions": {"anyOf": [{**one, "condition": "true"}]}}
    deferred = {"name": "tidy", "func": "Wait", "args": args}
    installed.client.post(
        f"/api/v1/namespaces/{SHOP}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}, "data": {}},
    )
    actions = {"act": {**act, "deferPhase": deferred}}
    installed.create("blueprints", "waits", SHOP, actions=actions)
    installed.begin("under-way", "waits")
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{SHOP}/actionsets"

    def finalizers() -> list[str]:
        actionsets = installed.client.get(path)["items"]
        return [
            finalizer for obj in actionsets for finalizer in obj["metadata"].get("finalizers") or ()
        ]

    installed.until(finalizers)
    installed.uninstall()
    status = installed.until_state("under-way", "failed")
    assert status["error"]["reason"] == "Cancelled", status
    assert status["actions"][0]["deferPhase"]["state"] == "complete", status
    assert finalizers() == []
    leases = installed.client.get(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases")
    assert leases["items"] == []
    assert "forbidden" not in installed.log.lower()

    installed.install(READS_THE_GATE)
    installed.start()
    gate = f"/api/v1/namespaces/{SHOP}/configmaps/gate"
    installed.client.put(gate, {**installed.client.get(gate), "data": {"open": "yes"}})
    assert installed.run("again", "waits")["state"] == "complete"
    installed.stop()


def foreign(name: str) -> dict[str, Any]:
    """Return another program's definition of a kind that the chart defines as well."""
    group = name.partition(".")[2]
    (own,) = [crd for crd in read_definitions() if crd["metadata"]["name"] == name]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if group == "cr.kanister.io":
        version["name"] = "v1alpha1"
    names = {key: own["spec"]["names"][key] for key in ("kind", "plural")}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"whose": "theirs"}},
        "spec": {
            "group": group,
            "names": names,
            "scope": own["spec"]["scope"],
            "versions": [version],
        },
    }


def test_definitions_of_other_programs_are_not_replaced(installed: Installed) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    theirs = ("compositions.apiextensions.crossplane.io", "functions.pkg.crossplane.io")
    for name in theirs:
        installed.client.post(definitions, foreign(name))
    before = {name: installed.client.get(f"{definitions}/{name}") for name in theirs}

    # An installed Crossplane does not matter without compositions.
    installed.install({"webhook": {"enabled": False}})
    values = {**COMPOSES, "compositions": {**COMPOSES["compositions"], "functions": True}}
    refusal = installed.install(values, refused=True)
    assert "already exists and is not part of this release: it belongs to Crossplane" in refusal
    assert "crds.install=missing" in refusal
    installed.install({**values, "crds": {"install": "missing"}})
    installed.uninstall()
    for name, crd in before.items():
        current = installed.client.get(f"{definitions}/{name}")
        assert (current["spec"], current["metadata"]["annotations"]) == (
            crd["spec"],
            crd["metadata"]["annotations"],
        )
    revisions = installed.client.get(f"{definitions}/compositionrevisions.{theirs[0][13:]}")
    assert revisions["metadata"]["annotations"]["meta.helm.sh/release-name"] == "kanister-py"

    # Definitions that outlived the release belong to it again, but not to other releases.
    installed.install({})
    refusal = installed.helm(
        "install", "another", str(CHART), "--namespace", OTHER, values={}, refused=True
    )
    assert "actionsets.cr.kanister.io already exists and is not part of this release" in refusal


def test_the_chart_is_installed_next_to_kanister(installed: Installed) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for name in BLUEPRINTS:
        installed.client.post(definitions, foreign(name))
    refusal = installed.install({}, refused=True)
    assert "it belongs to Kanister or to another release" in refusal
    values = {**READS_THE_GATE, "crds": {"install": "missing"}}
    installed.install(values)
    installed.start()
    installed.create("blueprints", "waits", SHOP, actions=waits_for_the_gate())
    open_gate(installed)
    assert installed.run("one", "waits")["state"] == "complete"
    installed.stop()
