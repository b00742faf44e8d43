"""Security of the endpoint and its pages: encrypted cookies, and a limit of invalid tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.resources import SECRETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.review_access import Access
from kanister_py.executor.session_key import SESSION_SECRET, ensure_session_key
from kanister_py.http_api.guard import Guard, RejectedTokens
from kanister_py.http_api.live.session import COOKIE, Seal


class Reviews:
    """Cluster that accepts one token and counts reviews."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def review(self, token: str, _asked: Mapping[str, Any]) -> Access:
        self.asked.append(token)
        return Access.ALLOWED if token == "good" else Access.UNKNOWN


def get(app: Guard, headers: Mapping[str, str], client: str = "10.0.0.1") -> int:
    async def go() -> int:
        transport = httpx.ASGITransport(app=app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://k") as asking:
            return (await asking.get("/v1/functions", headers=headers)).status_code

    return asyncio.run(go())


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def app_of(reviews: Reviews, seal: Seal | None = None, clock: Any = lambda: 0.0) -> Guard:
    async def answer(_: object) -> PlainTextResponse:
        return PlainTextResponse("fine")

    app = Starlette(routes=[Route("/v1/functions", answer)])
    return Guard(app, reviews.review, seal, RejectedTokens(clock))


def test_a_cookie_does_not_contain_the_token() -> None:
    seal = Seal()
    sealed = seal.close("good")
    assert "good" not in sealed
    assert get(app_of(Reviews(), seal), {"cookie": f"{COOKIE}={sealed}"}) == 200
    assert get(app_of(Reviews(), Seal()), {"cookie": f"{COOKIE}={sealed}"}) == 401
    assert get(app_of(Reviews(), seal), {"cookie": f"{COOKIE}=good"}) == 401


def test_replicas_accept_cookies_of_each_other() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}})
    keys = [ensure_session_key(cluster, "home", Seal.new_key) for _ in range(2)]
    assert Seal(keys[1]).open(Seal(keys[0]).close("good")) == "good"
    assert cluster.get(SECRETS, SESSION_SECRET, namespace="home")["type"] == "Opaque"


@pytest.mark.parametrize("token", ["x" * 20_000, "a b", "{}", "a=b=c"])
def test_malformed_tokens_are_not_reviewed(token: str) -> None:
    reviews = Reviews()
    assert get(app_of(reviews), bearer(token)) == 401
    assert reviews.asked == []


def test_a_client_with_many_rejected_tokens_has_to_wait() -> None:
    reviews, now = Reviews(), [0.0]
    app = app_of(reviews, clock=lambda: now[0])
    answers = [get(app, bearer(f"junk{number}")) for number in range(100)]
    assert (answers.count(401), answers.count(429), len(reviews.asked)) == (20, 80, 20)
    assert get(app, bearer("good"), client="10.0.0.2") == 200
    now[0] = 61.0
    assert get(app, bearer("good")) == 200
