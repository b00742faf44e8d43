"""A secret that a phase prints in any form appears in no object and no log."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from e2e.cluster.client import ApiClient
from e2e.controllers import GROUP, Place, definitions, install_definitions, until

__all__ = ["definitions", "place"]

PASSWORD = "hunter/22+Zwölf?"
READ = '{{ index .Phases.leaks.Secrets.creds.Data "key" | toString }}'
SCRIPT = f"""
p='{READ}'
printf '%s\\n' "$p"
printf '%s' "$p" | base64
printf 'me:%s' "$p" | base64
printf '%s' "$p" | base64 | tr '+/' '-_'
printf '%s' "$p" | od -An -v -tx1 | tr -d ' \\n'
printf '\\n{{"password": "%s"}}\\n' "$p"
echo "GET /login?p={READ.replace(" | toString", " | toString | urlquery")}" >&2
exit 3
"""


def forms() -> Iterator[str]:
    """Return all encodings from which the password could be read."""
    raw = PASSWORD.encode()
    yield PASSWORD
    yield json.dumps(PASSWORD)[1:-1]
    yield quote(PASSWORD, safe="")
    yield raw.hex()
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")[:-1]
        yield encode(b"me:" + raw).decode().rstrip("=")[4:-1]


@pytest.fixture
def place(
    admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path, node: object
) -> Iterator[Place]:
    del node  # because it runs the pods
    install_definitions(admin)
    new_place = Place(admin, kubeconfig, namespace, tmp_path)
    yield new_place
    new_place.close()


def test_printed_secret_appears_in_no_event_status_or_log(place: Place) -> None:
    space = place.namespace
    data = {"key": b64encode(PASSWORD.encode()).decode()}
    place.client.post(
        f"/api/v1/namespaces/{space}/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "data": data},
    )
    leaks = {
        "func": "KubeTask",
        "name": "leaks",
        "objects": {"creds": {"kind": "Secret", "name": "creds", "namespace": space}},
        "args": {"namespace": space, "image": "busybox", "command": ["sh", "-c", SCRIPT]},
    }
    place.blueprint("leaky", leaks)
    place.start("--log-level", "debug")
    place.actionset("one", "leaky")
    status = place.until_ended("one")
    assert status["state"] == "failed"
    assert status["error"]["exitCode"] == 3
    # The output is reported and masked: otherwise the search could find nothing.
    assert "***" in json.dumps(status["error"]["logTail"])
    until(lambda: any("failed" in event["message"].lower() for event in events(place)))
    everything = {
        "an event": events(place),
        "an ActionSet": place.client.get(f"{GROUP}/namespaces/{space}/actionsets"),
        "the log": place.logs(),
    }
    for what, content in everything.items():
        text = json.dumps(content, ensure_ascii=False).casefold()
        secrets = [form for form in forms() if form.casefold() in text]
        assert not secrets, f"{what} tells it as {secrets}"


def events(place: Place) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = place.client.get("/api/v1/events")["items"]
    return [
        event for event in listed if event["involvedObject"].get("namespace") == place.namespace
    ]
