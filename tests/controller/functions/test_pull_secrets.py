"""Logins from pull secrets."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.functions.pull_secrets import logins_of
from kanister_py.embedded.cluster.cluster import MemoryCluster


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def logins(content: Any, key: str = ".dockerconfigjson") -> list[tuple[str, str, str]]:
    cluster = MemoryCluster(clock=SystemClock())
    text = content if isinstance(content, str) else json.dumps(content)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "system"},
        "data": {key: encoded(text)},
    }
    cluster.load(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}, secret]
    )
    results = logins_of(cluster, "system", ["none", "pull"])
    return [(login.registry, login.username, login.password) for login in results]


ANN = {"auth": encoded("ann:s3:cret")}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        pytest.param(
            {"auths": {"example.org": ANN}}, ".dockerconfigjson", id="user name and password"
        ),
        pytest.param(
            {"auths": {"example.org": {"auth": f"{ANN['auth']}\n"}}},
            ".dockerconfigjson",
            id="user name and password with a line feed",
        ),
        pytest.param({"auths": {"https://example.org/v2/": ANN}}, ".dockerconfigjson", id="an URL"),
        pytest.param(
            {"auths": {"example.org": {"username": "ann", "password": "s3:cret"}}},
            ".dockerconfigjson",
            id="separate fields",
        ),
        pytest.param({"example.org": ANN}, ".dockercfg", id="legacy format"),
        pytest.param(
            {
                "auths": {
                    "broken.org": {"auth": "€"},
                    "bad.org": {"auth": "/w=="},
                    "odd.org": 7,
                    "example.org": ANN,
                }
            },
            ".dockerconfigjson",
            id="with unreadable entries",
        ),
    ],
)
def test_logins_are_read_in_every_form(content: Any, key: str) -> None:
    assert logins(content, key) == [("example.org", "ann", "s3:cret")]


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"auths": [1]}', "7"])
def test_an_empty_secret_has_no_logins(content: str) -> None:
    assert logins(content) == []


def test_a_login_shows_no_password() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "default"},
        "data": {".dockerconfigjson": encoded(json.dumps({"auths": {"example.org": ANN}}))},
    }
    cluster.load([secret])
    (login,) = logins_of(cluster, "default", ["pull"])
    assert "s3:cret" not in repr(login)
