"""Authorization of requests to the endpoint of a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from kanister_py.core.actionsets.uses import Count, Uses
from kanister_py.core.errors import ClusterUnavailable
from kanister_py.executor.review_access import Access
from kanister_py.http_api.app import build_app
from kanister_py.http_api.guard import Guard, LocalHostsOnly, review_attributes
from kanister_py.http_api.phase_lines import PATH
from tests.http_api.conftest import CountRows, published, registered

PUBLICATION = published(registered(CountRows, source="acme-functions", release="1.2.0"))


def get(app: Any, path: str, token: str = "", **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        own = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://k") as client:
            return await client.get(path, headers={**own, **headers})

    return asyncio.run(send())


def review(token: str, attributes: Mapping[str, Any]) -> Access:
    """Review two users: one who may get functions, and one without permissions."""
    if token == "away":
        raise ClusterUnavailable("away")
    if token not in ("reader", "nobody"):
        return Access.UNKNOWN
    path = attributes.get("nonResourceAttributes", {}).get("path", "")
    is_fine = token == "reader" and path.startswith("/v1/functions")
    return Access.ALLOWED if is_fine else Access.FORBIDDEN


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        pytest.param("/v1/functions", "", 401, id="without a token"),
        pytest.param("/v1/functions", "stolen", 401, id="with one that nobody knows"),
        pytest.param("/v1/functions", "nobody", 403, id="of somebody who may not"),
        pytest.param("/v1/functions", "reader", 200, id="of somebody who may"),
        pytest.param("/metrics", "reader", 403, id="of somebody who may see something else"),
        pytest.param("/v1/functions", "away", 503, id="while nobody can say"),
        pytest.param("/healthz", "", 200, id="to ask whether it lives"),
    ],
)
def test_users_only_see_what_they_are_permitted_to(path: str, token: str, status: int) -> None:
    app = Guard(build_app(PUBLICATION), review)
    answer = get(app, path, token)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) is (status == 401)


def test_lines_require_permission_to_get_the_actionset() -> None:
    attributes = review_attributes(PATH, {"namespace": "shop", "name": "one"}, "/whatever")
    assert attributes == {
        "resourceAttributes": {
            "group": "cr.kanister.io",
            "resource": "actionsets",
            "verb": "get",
            "namespace": "shop",
            "name": "one",
        }
    }
    assert review_attributes("/v1/functions", {}, "/v1/functions") == {
        "nonResourceAttributes": {"path": "/v1/functions", "verb": "get"}
    }


LINES = "/v1/namespaces/shop/actionsets/one/lines"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(LINES, id="as it is"),
        pytest.param(f"{LINES}%0A", id="with the end of a line behind it"),
        pytest.param(LINES.replace("one", "one%0A"), id="with the end of a line inside"),
        pytest.param(LINES.replace("/v1", "/v1/"), id="with an empty part"),
        pytest.param(f"{LINES}/", id="with a slash behind it"),
        pytest.param(LINES.replace("/one/", "/..%2Fone/"), id="with a step up"),
        pytest.param(LINES.replace("lines", "Lines"), id="in capitals"),
        pytest.param(LINES.replace("lines", "line%73"), id="with an escape"),
    ],
)
def test_another_spelling_of_a_path_does_not_bypass_the_check(path: str) -> None:
    reads: list[str] = []

    def give(namespace: str, name: str, _after: int) -> list[dict[str, Any]]:
        reads.append(f"{namespace}/{name}")
        return []

    def may_get_every_path(_token: str, attributes: Mapping[str, Any]) -> Access:
        # A user who may get every path of the endpoint, but no ActionSet.
        return Access.ALLOWED if "nonResourceAttributes" in attributes else Access.FORBIDDEN

    app = Guard(build_app(PUBLICATION, lines=give), may_get_every_path)
    assert get(app, path, "reader").status_code in (403, 404)
    assert reads == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:8640", 200, id="by its name"),
        pytest.param("127.0.0.1:8640", 200, id="by its address"),
        pytest.param("[::1]:8640", 200, id="by its other address"),
        pytest.param("functions.localhost", 200, id="by a name below its own"),
        pytest.param("evil.example", 421, id="by a name of somebody else"),
        pytest.param("localhost.evil.example:8640", 421, id="by one that looks alike"),
        pytest.param("", 421, id="by none"),
    ],
)
def test_requests_for_other_hosts_are_refused_on_loopback(host: str, status: int) -> None:
    app = LocalHostsOnly(build_app(PUBLICATION))
    assert get(app, "/v1/functions", Host=host).status_code == status


def test_two_tokens_count_as_none() -> None:
    app = Guard(build_app(PUBLICATION), review)

    async def send() -> int:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://k") as client:
            headers = [("Authorization", "Bearer reader"), ("Authorization", "Bearer nobody")]
            return (await client.get("/v1/functions", headers=headers)).status_code

    assert asyncio.run(send()) == 401


def test_versions_report_their_uses_after_the_first_census() -> None:
    now: list[Uses | None] = [None]
    app = build_app(PUBLICATION, uses=lambda: now[0])
    before = get(app, "/v1/functions/CountRows")
    assert "inUseBy" not in before.text
    now[0] = {("CountRows", "v0.0.0"): Count(3, 1, "2026-01-01")}
    after = get(app, "/v1/functions/CountRows")
    used = {version["version"]: version["inUseBy"] for version in after.json()["versions"]}
    assert used["v0.0.0"] == {"blueprints": 3, "actionSets": 1, "lastRun": "2026-01-01"}
    assert used["v0.1.0"] == {"blueprints": 0, "actionSets": 0}
    assert before.headers["etag"] != after.headers["etag"]
    one = get(app, "/v1/functions/CountRows/versions/v0.0.0").json()
    assert one["inUseBy"]["blueprints"] == 3
    listed = get(app, "/v1/functions").json()["functions"]
    assert all("inUseBy" in version for function in listed for version in function["versions"])
    same = get(app, "/v1/functions", **{"If-None-Match": get(app, "/v1/functions").headers["etag"]})
    assert same.status_code == 304
