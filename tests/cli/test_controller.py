"""`kanister-py controller`: watched namespaces, identity, and refused starts."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.controller import add_arguments, ending_of, settings_of
from kanister_py.cli.controller_endpoint import apps_of
from kanister_py.cli.main import main
from kanister_py.cli.parser import CommandLineError, Parser
from kanister_py.cli.stop_signals import StopSignals
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.machine.lease import LEASE_NAME, LeaseTerms
from kanister_py.controller.machine.logs import JsonLines, TextLines, fields_of
from kanister_py.core.kube.resources import LEASES
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions
from tests.fake_clock import FakeClock
from tests.http_api.asking import ask

KUBECONFIG = """\
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""


def parsed(*words: str, **environment: str) -> argparse.Namespace:
    parser = Parser(prog="kanister-py controller", environment=environment)
    add_arguments(parser)
    args: argparse.Namespace = parser.parse_args(list(words))
    return args


@pytest.mark.parametrize(
    ("words", "environment", "namespaces"),
    [
        pytest.param([], {}, ("mine",), id="where it runs"),
        pytest.param([], {"POD_NAMESPACE": "pods"}, ("pods",), id="where its pod runs"),
        pytest.param(["-n", "a", "-n", "b", "-n", "a"], {}, ("a", "b"), id="what is named"),
        pytest.param(["--all-namespaces"], {}, (), id="all"),
    ],
)
def test_flags_select_the_watched_namespaces(
    words: list[str], environment: dict[str, str], namespaces: tuple[str, ...]
) -> None:
    settings = settings_of(parsed(*words), environment, "mine")
    assert settings.namespaces == namespaces
    assert settings.home == environment.get("POD_NAMESPACE", "mine")


def test_identity_is_stable_for_a_pod_and_unique_for_a_process() -> None:
    assert settings_of(parsed(), {"POD_NAME": "pod-0"}, "x").identity == "pod-0"
    first, second = (settings_of(parsed(), {}, "x").identity for _ in range(2))
    assert first != second


def test_flags_may_come_from_the_environment() -> None:
    args = parsed(KANISTER_PY_CONTROLLER_WORKERS="7", KANISTER_PY_CONTROLLER_NAMESPACES="a,b")
    settings = settings_of(args, {}, "x")
    assert (settings.workers, settings.namespaces) == (7, ("a", "b"))


@pytest.mark.parametrize(
    ("flag", "found", "wanted"),
    [
        ("--workers", "many", "a whole number from 1 to 9999"),
        ("--workers", "0", "a whole number from 1 to 9999"),
        ("--workers", "1.5", "a whole number from 1 to 9999"),
        ("--workers", "10000", "a whole number from 1 to 9999"),
        ("--workers-per-namespace", "-1", "a whole number from 0 to 9999"),
        ("--keep", "-1", "a whole number from 0 to 999999"),
        ("--limit", "mysql", "[NAMESPACE/]BLUEPRINT[:ACTION]=N, such as shop/mysql=2"),
        ("--limit", "mysql=0", "[NAMESPACE/]BLUEPRINT[:ACTION]=N, such as shop/mysql=2"),
        ("--limit", "a/b/c=1", "[NAMESPACE/]BLUEPRINT[:ACTION]=N, such as shop/mysql=2"),
        ("--compose-workers", "0", "a whole number from 1 to 9999"),
        ("--keep-composition-revisions", "-2", "a whole number from 0 to 999999"),
        ("--port", "70000", "a port from 0 to 65535"),
        ("--health-port", "-1", "a port from 0 to 65535"),
        ("--webhook-port", "70000", "a port from 0 to 65535"),
        ("--drain", "-5s", "a duration of 0s or more"),
        ("--poll-interval", "-1m", "a duration of 0s or more"),
        ("--certificate-life", "0s", "a duration from 1s to 87600h"),
        ("--certificate-life", "87601h", "a duration from 1s to 87600h"),
    ],
)
def test_invalid_values_are_refused_with_the_valid_ones(
    flag: str, found: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["controller", f"{flag}={found}"]) == 64
    assert f"{flag}: must be {wanted}, found {found!r}" in capsys.readouterr().err


def test_controller_without_any_work_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    words = ["controller", "--disable-actionsets", "--no-http", "--kubeconfig", str(kubeconfig)]
    assert main(words) == 64
    assert "--disable-actionsets needs --enable-compositions" in capsys.readouterr().err


def test_invalid_environment_variables_are_refused() -> None:
    with pytest.raises(CommandLineError, match=r"KANISTER_PY_CONTROLLER_WORKERS .* from 1 to 9999"):
        parsed(KANISTER_PY_CONTROLLER_WORKERS="0")


@pytest.mark.parametrize(
    ("flag", "found", "hint"),
    [
        pytest.param("--namespace", "My_Shop", "", id="capitals"),
        pytest.param("--namespace", "", "", id="nothing"),
        pytest.param("-n", "shop,billing", "repeat the flag", id="several in one"),
        pytest.param("--home", "-x", "", id="a dash in front"),
    ],
)
def test_invalid_namespaces_are_refused(
    flag: str, found: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [flag, found] if flag == "-n" else [f"{flag}={found}"]
    assert main(["controller", *words]) == 64
    refusal = capsys.readouterr().err
    assert (
        "must be the name of a namespace: at most 63 lower case letters, digits and '-'" in refusal
    )
    assert f"found {found!r}" in refusal
    assert hint in refusal


@pytest.mark.parametrize("flag", ["--drain", "--poll-interval", "--certificate-life"])
def test_invalid_durations_are_refused_with_their_flag(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["controller", flag, "banana"]) == 64
    refusal = capsys.readouterr().err
    assert f"{flag}: must be a duration such as 30s or 1m30s, found 'banana'" in refusal


def test_durations_are_read_from_flags_and_have_defaults() -> None:
    assert settings_of(parsed(), {}, "x").drain_seconds == 20
    assert settings_of(parsed("--drain", "1m30s"), {}, "x").drain_seconds == 90


def test_controller_fails_if_its_port_is_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        code = main(["controller", "--port", "0", "--health-port", port])
    assert code == 1
    assert f"Cannot listen on 127.0.0.1 port {port}" in capsys.readouterr().err


def led(cluster: MemoryCluster, identity: str) -> Controller:
    functions = read_functions()
    source = FunctionSource(functions.registry, load_function)
    settings = ControllerSettings(identity=identity, terms=LeaseTerms(renews_every_seconds=0.01))
    return Controller(cluster, source, clock=SystemClock(), settings=settings)


def when_it_leads(cluster: MemoryCluster, act: Callable[[], object]) -> None:
    """Call a function on a thread once the Lease is held."""

    def wait() -> None:
        with cluster.watch(LEASES, namespace="default", timeout_seconds=30) as watch:
            next(iter(watch))
        act()

    Thread(target=wait, daemon=True).start()


def stopped(controller: Controller) -> int:
    with StopSignals() as signals:
        return ending_of(controller, signals)


def test_controller_exits_with_0_after_a_signal(caplog: pytest.LogCaptureFixture) -> None:
    cluster = MemoryCluster(clock=SystemClock())

    def stop() -> None:
        # Not to the main thread, which waits: the system may deliver a signal to any thread.
        signal.pthread_kill(get_ident(), signal.SIGTERM)

    when_it_leads(cluster, stop)
    with caplog.at_level(logging.INFO, "kanister_py"):
        assert stopped(led(cluster, "one")) == 0
    assert "Stopping on SIGTERM" in caplog.text


def test_controller_exits_with_0_after_a_signal_during_its_start(tmp_path: Path) -> None:
    token = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
    token += '"status": {"token": "t"}}'
    login = tmp_path / "login"
    login.write_text(f"#!/bin/sh\nkill -TERM $PPID\necho '{token}'\n")
    login.chmod(0o755)
    # The signal arrives while the cluster is opened, before the controller exists.
    user = "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.replace("user: {}", f"user: {user}{login}}}}}"))
    words = [sys.executable, "-m", "kanister_py", "controller", "--no-http", "--kubeconfig"]
    done = subprocess.run(
        [*words, str(kubeconfig)], stderr=subprocess.PIPE, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Stopping on SIGTERM" in done.stderr


def test_controller_exits_with_75_after_losing_its_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    changed = {"spec": {"holderIdentity": "another"}}
    when_it_leads(cluster, lambda: cluster.patch(LEASES, LEASE_NAME, changed, namespace="default"))
    with caplog.at_level(logging.ERROR, "kanister_py"):
        assert stopped(led(cluster, "one")) == 75
    assert "another holds the lease" in caplog.text


def test_json_log_has_separate_fields() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    log = logging.getLogger("kanister_py.test")
    log.addHandler(handler)
    try:
        for formatter in (JsonLines(), TextLines()):
            handler.setFormatter(formatter)
            log.warning("it %s", "happened", extra=fields_of(actionSet="one", attempt=2, phase=""))
    finally:
        log.removeHandler(handler)
    first, second = stream.getvalue().splitlines()
    line: dict[str, Any] = json.loads(first)
    assert (line["message"], line["actionSet"], line["attempt"]) == ("it happened", "one", 2)
    assert "phase" not in line
    assert second.endswith("it happened (actionSet=one attempt=2)")


def test_log_lines_escape_control_characters() -> None:
    record = logging.makeLogRecord({"msg": "Pod \x1b[2J says\n%s", "args": ("\x9b1m",)})
    record.__dict__.update(fields_of(phase="du\x07mp"))
    line = TextLines().format(record)
    assert line.endswith(r"Pod \x1b[2J says\n\x9b1m (phase=du\x07mp)")
    assert line.isprintable()


def test_health_and_metrics_have_their_own_port() -> None:
    functions = read_functions()
    source = FunctionSource(functions.registry, load_function)
    controller = Controller(MemoryCluster(clock=SystemClock()), source, clock=FakeClock())
    apps = apps_of(controller, functions)
    assert ask(apps.health, "/healthz").status == 200
    assert ask(apps.health, "/readyz").json()["checks"] == {"controller": "has not started yet"}
    assert "kanister_action_set_resolutions_total" in ask(apps.health, "/metrics").text
    assert ask(apps.health, "/v1/functions").status == 404
    assert ask(apps.functions, "/v1/functions").status == 200


def test_leader_is_ready_after_its_first_list_and_standby_at_once() -> None:
    cluster, functions = MemoryCluster(clock=SystemClock()), read_functions()
    for definition in read_definitions("blueprints"):
        cluster.create(definition)
    source = FunctionSource(functions.registry, load_function)
    seen: list[Controller] = []
    for identity in ("one", "two"):
        settings = ControllerSettings(identity=identity, stands_by=True)
        controller = Controller(cluster, source, clock=SystemClock(), settings=settings)
        seen.append(controller)
        health = apps_of(controller, functions).health
        controller.start()
        until = time.monotonic() + 60
        while ask(health, "/readyz").json()["status"] != "ready":
            assert time.monotonic() < until, ask(health, "/readyz").text
            time.sleep(0.01)
        # A standby replica has not listed anything.
        assert controller.is_leader is (identity == "one")
    for controller in seen:
        controller.kill()
