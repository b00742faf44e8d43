"""Responses of the admission webhook."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.http_api.admission import BOUNDS, MOST_BYTES, Validator, admission_app
from kanister_py.wiring import read_functions
from tests.core.schedules.schedules import schedule

CONTROLLER = "system:serviceaccount:kanister:kanister-py"
BAD = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "b"},
    "actions": {"act": {"phases": [{"name": "one", "func": "Nobody"}]}},
}


class Client:
    """Client that posts to the webhook like an API server."""

    def __init__(self) -> None:
        cluster, context = MemoryCluster(clock=SystemClock()), Context(read_functions().registry)
        # Longer than by default, because the machine may be busy.
        bounds = BOUNDS._replace(wall_seconds=60)
        self._app = admission_app(Validator(cluster, context, lambda: CONTROLLER, bounds=bounds))

    def post(self, path: str, body: bytes) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="https://w") as client:
                return await client.post(path, content=body)

        return asyncio.run(send())


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


def review(kind: str = "Blueprint", **request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "kind": {"kind": kind}, "namespace": "shop", **request},
    }


def ask(client: Client, request: Any) -> dict[str, Any]:
    answer = client.post("/validate?timeout=10s", json.dumps(request).encode())
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert body["response"]["uid"] == "1"
    response: dict[str, Any] = body["response"]
    return response


def test_an_invalid_blueprint_is_denied_with_a_message(client: Client) -> None:
    response = ask(client, review(object=BAD, operation="CREATE"))
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert "Nobody" in response["status"]["message"]


def composition(version: str, **step: Any) -> dict[str, Any]:
    reference = {"name": "function-jinja-templating", "version": version}
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "mode": "Pipeline",
            "pipeline": [{"step": "make", "functionRef": reference, **step}],
        },
    }


def test_a_composition_with_a_deprecated_version_is_stored_with_a_warning(client: Client) -> None:
    response = ask(client, review("Composition", object=composition("v0.1.0")))
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert "make: function-jinja-templating v0.1.0 is deprecated since release 0.2.0" in warning
    assert "warnings" not in ask(client, review("Composition", object=composition("v0.2.0")))


def test_a_composition_with_an_invalid_version_is_denied(client: Client) -> None:
    response = ask(client, review("Composition", object=composition("v0.x.")))
    assert response["allowed"] is False
    assert "is not a version" in response["status"]["message"]


@pytest.mark.parametrize(
    ("step", "key"),
    [
        pytest.param(
            {"allowedExtraResources": [{"apiVersion": "v1", "kind": "Pod", "matchNames": "a"}]},
            "matchNames",
            id="in a rule of what may be read",
        ),
        pytest.param(
            {"functionRevisionSelector": {"matchLabel": {"channel": "alpha"}}},
            "matchLabel",
            id="in a selector of revisions",
        ),
    ],
)
def test_a_misspelt_restricting_key_is_denied(
    client: Client, step: dict[str, Any], key: str
) -> None:
    response = ask(client, review("Composition", object=composition("v0.2.0", **step)))
    assert response["allowed"] is False
    assert f"{key}: Unknown key {key.rpartition('.')[2]!r}" in response["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(review(object=BAD, oldObject=BAD), id="nothing has changed"),
        pytest.param(review(object=None, oldObject=BAD, operation="DELETE"), id="it is deleted"),
        pytest.param(review("Secret", object={"kind": "Secret"}), id="a kind of others"),
    ],
)
def test_other_kinds_are_allowed(client: Client, body: dict[str, Any]) -> None:
    assert ask(client, body) == {"uid": "1", "allowed": True}


def test_a_schedule_that_is_never_due_is_denied(client: Client) -> None:
    request = review("Schedule", object=schedule(schedule="0 0 30 2 *"), oldObject=None)
    response = ask(client, request)
    assert response["allowed"] is False
    assert "never fires" in response["status"]["message"]
    response = ask(client, review("Schedule", object=schedule(), oldObject=None))
    assert response["allowed"] is True
    assert "There is no Blueprint made-up yet" in response["warnings"][0]


def test_a_missing_blueprint_is_a_warning(client: Client) -> None:
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a"},
        "spec": {"actions": [{"name": "x", "blueprint": "none"}]},
    }
    response = ask(client, review("ActionSet", object=actionset))
    assert response["allowed"] is True
    assert "none" in response["warnings"][0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"[]",
        b"{}",
        b"{" * 99,
        json.dumps({**review(), "apiVersion": "v0"}).encode(),
        pytest.param(b"[" * 100_000, id="nested without end"),
    ],
)
def test_a_body_that_is_not_a_review_is_refused(client: Client, body: bytes) -> None:
    assert client.post("/validate", body).status_code == 400


def test_a_review_that_is_too_long_is_refused(client: Client) -> None:
    assert client.post("/validate", b" " * (MOST_BYTES + 1)).status_code == 413


@pytest.mark.parametrize("kind", ["CompositionRevision", "FunctionRevision"])
@pytest.mark.parametrize(
    ("labels", "number", "path"),
    [
        pytest.param({}, 2, "spec.revision", id="its number"),
        pytest.param(
            {"crossplane.io/composition-name": "other"},
            1,
            "metadata.labels[crossplane.io/composition-name]",
            id="whose it is",
        ),
        pytest.param(
            {"pkg.crossplane.io/package": "other"},
            1,
            "metadata.labels[pkg.crossplane.io/package]",
            id="of which function it is",
        ),
    ],
)
def test_only_the_controller_changes_the_identity_of_a_revision(
    client: Client, kind: str, labels: dict[str, str], number: int, path: str
) -> None:
    old = {"metadata": {"name": "a-1"}, "spec": {"revision": 1}}
    new = {"metadata": {"name": "a-1", "labels": labels}, "spec": {"revision": number}}
    request = review(kind, oldObject=old, object=new, userInfo={"username": "ann"})
    response = ask(client, request)
    assert response["allowed"] is False
    message = response["status"]["message"]
    assert f"{path}: Must not be changed by ann: the controller ({CONTROLLER})" in message
    request["request"]["userInfo"]["username"] = CONTROLLER
    assert ask(client, request)["allowed"] is True


def test_any_user_may_add_labels_to_a_revision(client: Client) -> None:
    old = {"metadata": {"name": "a-1"}, "spec": {"revision": 1}}
    new = {**old, "metadata": {"name": "a-1", "labels": {"channel": "stable"}}}
    request = review("CompositionRevision", oldObject=old, object=new, userInfo={"username": "ann"})
    assert ask(client, request)["allowed"] is True
