"""Pages of runs: permissions, operations and live log lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib.resources import files
from queue import Empty, SimpleQueue
from threading import Event as Signal
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import httpx
import pytest

from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.controller.overview import ClusterOverview
from kanister_py.core.errors import ClusterUnavailable, Forbidden
from kanister_py.core.kube.resources import ACTION_SETS, PODS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.review_access import Access
from kanister_py.http_api.guard import Guard, LocalHostsOnly
from kanister_py.http_api.live import session
from kanister_py.http_api.live.routes import PageRequest, Pages
from kanister_py.http_api.live.stream import ChangeSignal
from tests.http_api.runs_of import (
    BEGAN,
    HOSTILE,
    NIGHTLY,
    FixedClock,
    RunsOf,
    runs_of_a_cluster,
    status_of,
)
from tests.http_api.serving import served

HTML = {"accept": "text/html"}
PATIENCE_SECONDS = 180.0


@pytest.fixture(scope="module")
def shown() -> Iterator[RunsOf]:
    """Runs that no test changes."""
    with runs_of_a_cluster() as cluster_runs:
        until(lambda: len(cluster_runs.overview.runs().rows) == 5)
        yield cluster_runs


@pytest.fixture
def runs() -> Iterator[RunsOf]:
    with runs_of_a_cluster() as cluster_runs:
        until(lambda: len(cluster_runs.overview.runs().rows) == 5)
        yield cluster_runs


def until(is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def send(app: Any, method: str, path: str, **more: Any) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://k") as client:
            return await client.request(method, path, **more)

    return asyncio.run(go())


RIGHTS: Mapping[str, Any] = {
    "all": lambda _: True,
    "shop": lambda attributes: (
        attributes.get("namespace") == "shop" and attributes["verb"] in ("get", "list")
    ),
    "nobody": lambda _: False,
}


def review(token: str, attributes: Mapping[str, Any]) -> Access:
    if token == "away":
        raise ClusterUnavailable("away")
    if token not in RIGHTS:
        return Access.UNKNOWN
    is_fine = RIGHTS[token](attributes.get("resourceAttributes", {"verb": "", **attributes}))
    return Access.ALLOWED if is_fine else Access.FORBIDDEN


def guarded(runs: RunsOf) -> Guard:
    return Guard(runs.app(review), review, SEAL)


SEAL = session.Seal()


def cookie_of(token: str) -> str:
    return f"{session.COOKIE}={SEAL.close(token)}"


def signed_in(token: str) -> dict[str, str]:
    return {"cookie": cookie_of(token), **HTML}


def form_of(token: str) -> dict[str, Any]:
    scope = {"headers": [(b"cookie", cookie_of(token).encode())], session.SEAL_IN_SCOPE: SEAL}
    return {"headers": signed_in(token), "data": {"key": session.form_key(scope)}}


@pytest.mark.parametrize(
    ("path", "names"),
    [
        pytest.param("/runs", ["waiting", "under-way", "held", "done", "broken"], id="all"),
        pytest.param("/runs?namespace=other", ["held"], id="of a namespace"),
        pytest.param("/runs?state=failed", ["broken"], id="in a state"),
        pytest.param("/runs?blueprint=mysql", ["broken"], id="of a blueprint"),
        pytest.param("/runs?schedule=nightly", ["done"], id="of a schedule"),
        pytest.param("/runs?namespace=nowhere", [], id="where there are none"),
        pytest.param("/runs-now?state=running", ["under-way"], id="the part that changes"),
        pytest.param(
            "/runs?state=x&age=y&page=z",
            ["waiting", "under-way", "held", "done", "broken"],
            id="what makes no sense asks for nothing",
        ),
    ],
)
def test_the_list_is_filtered(shown: RunsOf, path: str, names: list[str]) -> None:
    answer = send(shown.app(), "GET", path)
    assert answer.status_code == 200
    assert sorted(answer.text.split('<a href="/runs/')[1:]) == sorted(
        part for part in answer.text.split('<a href="/runs/')[1:] if part.split('"')[0]
    )
    links = [part.split('"')[0].partition("/")[2] for part in answer.text.split('<a href="/runs/')]
    assert sorted(link for link in links if link) == sorted(names)


class UnavailableCluster(MemoryCluster):
    """Cluster that can become unavailable."""

    is_known = Signal()

    def list(self, *_args: Any, **_options: Any) -> Any:
        assert self.is_known.wait(PATIENCE_SECONDS)
        raise ClusterUnavailable("nobody answers")


class ImpatientOverview(FixedClock):
    """Overview whose waits end at once."""

    def __init__(self) -> None:
        self._passed = 0.0

    def monotonic(self) -> float:
        self._passed += 1.0
        return self._passed


def test_unreadable_runs_are_reported_instead_of_an_empty_list() -> None:
    clock = ImpatientOverview()
    lines = PhaseLines(clock)
    cluster = UnavailableCluster(clock=clock)
    overview = ClusterOverview(cluster, clock, lines, home="")
    app = RunsOf(MemoryCluster(clock=clock), lines, overview).app()
    try:
        for path in ("/runs", "/runs-now"):
            text = send(app, "GET", path).text
            assert "The runs of the cluster are being read" in text
            assert "No runs yet" not in text
        cluster.is_known.set()
        until(lambda: "nobody answers" in overview.runs().trouble)
        for path in ("/runs", "/runs-now"):
            text = send(app, "GET", path).text
            assert "Cannot watch actionsets.cr.kanister.io: nobody answers" in text
            assert "No runs yet" not in text
    finally:
        cluster.is_known.set()
        overview.close()


def test_runs_are_watched_from_the_first_request_on() -> None:
    clock = FixedClock()
    cluster = MemoryCluster(clock=clock)
    overview = ClusterOverview(cluster, clock, PhaseLines(clock), home="")
    app = RunsOf(cluster, PhaseLines(clock), overview).app()
    assert send(app, "GET", "/schedules").status_code == 200
    assert not overview.is_followed
    try:
        # The first request returns them.
        assert "No runs yet" in send(app, "GET", "/runs").text
        assert overview.is_followed
    finally:
        overview.close()


def test_a_page_rendered_during_a_change_is_not_cached(runs: RunsOf) -> None:
    ask = PageRequest({"headers": []}, {}, {}, {})
    versions = [runs.overview.runs().version]

    def now() -> datetime:
        if len(versions) == 1:
            versions.append(versions[0])
            runs.add("newest", {})
            until(lambda: runs.overview.runs().version > versions[0])
            assert b"newest" in pages.runs_now(ask).body
        return BEGAN

    pages = Pages(runs.overview, now, None)
    assert b"newest" not in pages.runs_now(ask).body
    assert b"newest" in pages.runs_now(PageRequest({"headers": []}, {}, {}, {})).body


def test_counts_exclude_other_namespaces(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/runs?namespace=other").text
    assert "1 of 1 run<" in text


def test_an_unchanged_list_is_not_sent_again(runs: RunsOf) -> None:
    app = runs.app()
    first = send(app, "GET", "/runs-now")
    again = {"if-none-match": first.headers["etag"]}
    assert send(app, "GET", "/runs-now", headers=again).status_code == 304
    version = runs.overview.runs().version
    runs.add("newest", status_of("running"))
    until(lambda: runs.overview.runs().version > version)
    assert send(app, "GET", "/runs-now", headers=again).status_code == 200


def test_content_from_the_cluster_is_escaped(shown: RunsOf) -> None:
    shown.say("under-way", HOSTILE)
    for path in ("/runs", "/runs/shop/broken", "/runs/shop/under-way"):
        text = send(shown.app(), "GET", path).text
        assert "<img src=x" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;\\x1b[31m\\u202eevil" in text


def test_the_page_of_a_run_shows_all_details(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/runs/shop/done").text
    for part in ("stop", "dump", "attempt 2", "57.0s", "v0.1.0", "StatefulSet shop/db", "nightly"):
        assert part in text
    broken = send(shown.app(), "GET", "/runs/shop/broken").text
    assert "KubeTask v0.0.9 is deprecated" in broken
    assert "CommandFailed" in broken


def test_a_missing_run_is_not_found(shown: RunsOf) -> None:
    answer = send(shown.app(), "GET", "/runs/shop/nothing")
    assert answer.status_code == 404
    assert "ActionSet nothing does not exist in namespace shop" in answer.text


# Permissions


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        pytest.param("/runs", "all", 200, id="all runs, for somebody who may"),
        pytest.param("/runs", "shop", 403, id="all runs, for somebody of one namespace"),
        pytest.param("/runs?namespace=shop", "shop", 200, id="their own"),
        pytest.param("/runs-now?namespace=shop", "shop", 200, id="their own, as they change"),
        pytest.param("/runs?namespace=other", "shop", 403, id="those of others"),
        pytest.param("/runs/shop/done", "shop", 200, id="one of theirs"),
        pytest.param("/runs/other/held", "shop", 403, id="one of others"),
        pytest.param("/runs/other/held/events", "shop", 403, id="its lines"),
        pytest.param("/runs/shop/done", "nobody", 403, id="one, without any right"),
        pytest.param("/schedules", "shop", 403, id="all Schedules"),
        pytest.param("/schedules/shop/nightly", "shop", 200, id="a Schedule of theirs"),
        pytest.param("/runs", "away", 503, id="while nobody can say"),
    ],
)
def test_a_page_requires_permission_for_its_content(
    shown: RunsOf, path: str, token: str, status: int
) -> None:
    assert send(guarded(shown), "GET", path, headers=signed_in(token)).status_code == status


def test_a_browser_without_token_is_redirected_to_sign_in_and_back(shown: RunsOf) -> None:
    app = guarded(shown)
    answer = send(app, "GET", "/runs/shop/done?x=1", headers=HTML)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Fruns%2Fshop%2Fdone%3Fx%3D1"
    form = send(app, "GET", answer.headers["location"], headers=HTML)
    assert form.status_code == 200
    response = send(app, "POST", answer.headers["location"], data={"token": " all\n"})
    assert (response.status_code, response.headers["location"]) == (303, "/runs/shop/done?x=1")
    cookie = response.headers["set-cookie"]
    sealed = cookie.partition("=")[2].partition(";")[0]
    assert (sealed != "all", SEAL.open(sealed)) == (True, "all")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert "Secure" not in cookie
    assert send(app, "GET", "/runs").status_code == 401
    attributes = send(app, "POST", "/runs/shop/under-way/cancel", headers=HTML)
    assert (attributes.status_code, attributes.headers["location"]) == (303, "/signin")


def test_a_failing_token_review_is_reported_on_a_page(shown: RunsOf) -> None:
    answer = send(guarded(shown), "GET", "/runs", headers=signed_in("away"))
    assert answer.headers["content-type"].startswith("text/html")
    assert "cannot authenticate users at the moment" in answer.text


@pytest.mark.parametrize(
    "cookies",
    [
        pytest.param('other={"a": 1}; {}', id="with quotes"),
        pytest.param("theme=dark mode; {}", id="with spaces"),
        pytest.param("flag; {}", id="without a value"),
        pytest.param("{}; other", id="behind it"),
    ],
)
def test_cookies_of_other_servers_are_ignored(shown: RunsOf, cookies: str) -> None:
    headers = {**HTML, "cookie": cookies.replace("{}", cookie_of("all"))}
    assert send(guarded(shown), "GET", "/runs", headers=headers).status_code == 200


def test_the_cookie_is_secure_behind_tls(shown: RunsOf) -> None:
    headers = {"x-forwarded-proto": "https"}
    response = send(guarded(shown), "POST", "/signin", data={"token": "all"}, headers=headers)
    assert response.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize(
    "expected",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/runs\r\nx: y",
        "javascript:alert(1)",
        "",
    ],
)
def test_sign_in_does_not_redirect_to_other_hosts(shown: RunsOf, expected: str) -> None:
    path = f"/signin?{urlencode({'next': expected})}"
    response = send(guarded(shown), "POST", path, data={"token": "all"})
    assert response.headers["location"] == "/runs"


@pytest.mark.parametrize(
    ("token", "status"),
    [
        pytest.param("stranger", 401, id="that nobody knows"),
        pytest.param("", 400, id="empty"),
        pytest.param("a;b=c", 400, id="that would be two cookies"),
        pytest.param("é", 400, id="of other letters"),
        pytest.param("a\x00b", 400, id="that would break a header"),
        pytest.param("x" * 20_000, 400, id="without an end"),
    ],
)
def test_an_invalid_token_is_refused(shown: RunsOf, token: str, status: int) -> None:
    answer = send(guarded(shown), "POST", "/signin", data={"token": token})
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_the_cookie_of_an_expired_token_is_deleted(shown: RunsOf) -> None:
    answer = send(guarded(shown), "GET", "/runs", headers=signed_in("old"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert "Max-Age=0" in send(guarded(shown), "POST", "/signout").headers["set-cookie"]


def test_pages_only_load_files_of_this_server(shown: RunsOf) -> None:
    for path in ("/runs", "/runs/shop/done", "/signin", "/runs/shop/nothing"):
        policy = send(shown.app(), "GET", path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


# Operations


def test_a_permitted_user_cancels_a_run(runs: RunsOf) -> None:
    answer = send(guarded(runs), "POST", "/runs/shop/under-way/cancel", **form_of("all"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/shop/under-way")
    actionset = runs.cluster.get(ACTION_SETS, "under-way", namespace="shop")
    assert actionset["spec"]["cancel"] is True


def test_a_failed_run_is_retried(runs: RunsOf) -> None:
    answer = send(guarded(runs), "POST", "/runs/shop/broken/retry", **form_of("all"))
    name = answer.headers["location"].rpartition("/")[2]
    created = runs.cluster.get(ACTION_SETS, name, namespace="shop")
    assert created["metadata"]["annotations"]["kanister-py.io/retry-of"] == "broken"


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        pytest.param("/runs/shop/under-way/cancel", form_of("shop"), 403, id="without the right"),
        pytest.param(
            "/runs/shop/under-way/cancel", {"headers": signed_in("all")}, 403, id="without a form"
        ),
        pytest.param(
            "/runs/shop/under-way/cancel",
            {**form_of("all"), "data": form_of("shop")["data"]},
            403,
            id="with the form of somebody else",
        ),
        pytest.param(
            "/runs/shop/under-way/cancel",
            {**form_of("all"), "headers": {**signed_in("all"), "origin": "http://evil"}},
            403,
            id="from another page",
        ),
        pytest.param(
            "/runs/shop/under-way/cancel",
            {**form_of("all"), "headers": {**signed_in("all"), "sec-fetch-site": "cross-site"}},
            403,
            id="from another site",
        ),
        pytest.param("/runs/shop/under-way/cancel", {}, 401, id="without a token"),
        pytest.param("/runs/shop/done/cancel", form_of("all"), 409, id="when it is over"),
        pytest.param("/runs/shop/under-way/retry", form_of("all"), 409, id="before its end"),
        pytest.param("/runs/shop/nothing/cancel", form_of("all"), 404, id="of what is not there"),
    ],
)
def test_operations_without_permission_change_nothing(
    runs: RunsOf, path: str, more: dict[str, Any], status: int
) -> None:
    before = [obj["spec"] for obj in runs.cluster.list(ACTION_SETS).items]
    assert send(guarded(runs), "POST", path, **more).status_code == status
    assert [obj["spec"] for obj in runs.cluster.list(ACTION_SETS).items] == before


def test_forms_of_other_pages_are_refused_without_sign_in(runs: RunsOf) -> None:
    app = LocalHostsOnly(runs.app())
    headers = {"host": "localhost"}
    refused = send(app, "POST", "/runs/shop/under-way/cancel", headers=headers)
    assert refused.status_code == 403
    key = send(app, "GET", "/runs/shop/under-way", headers=headers).text
    key = key.partition('name="key" value="')[2].partition('"')[0]
    done = send(app, "POST", "/runs/shop/under-way/cancel", headers=headers, data={"key": key})
    assert done.status_code == 303


# Schedules


def test_schedules_are_listed(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/schedules").text
    for part in ('<a href="/schedules/shop/nightly">', "30 3 * * *", "Europe/Berlin"):
        assert part in text
    assert "No Schedules" in send(shown.app(), "GET", "/schedules?namespace=other").text


class RestrictedCluster(MemoryCluster):
    """Cluster in which the controller may only list single namespaces."""

    def list(self, resource: Any, *, namespace: str = "", **options: Any) -> Any:
        if not namespace:
            raise Forbidden("schedules at the cluster scope")
        return super().list(resource, namespace=namespace, **options)


def test_a_controller_of_some_namespaces_lists_their_schedules() -> None:
    clock = FixedClock()
    cluster = RestrictedCluster(clock=clock)
    text = files("kanister_py.crds").joinpath("schedules.yaml").read_text("utf-8")
    for document in parse_documents(text):
        cluster.create(document.value)
    cluster.create(NIGHTLY)
    overview = ClusterOverview(
        cluster, clock, PhaseLines(clock), home="", namespaces=("other", "shop")
    )
    app = RunsOf(cluster, PhaseLines(clock), overview).app()
    assert '<a href="/schedules/shop/nightly">' in send(app, "GET", "/schedules").text


def test_a_schedule_shows_past_and_upcoming_runs(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/schedules/shop/nightly").text
    # Two in the morning, UTC, is three in Berlin.
    assert "2026-03-01 02:30:00 UTC" in text
    assert text.count('class="planned">03:30') == 28 + 1
    assert 'class="pill run-complete" href="/runs/shop/done"' in text
    assert send(shown.app(), "GET", "/schedules/shop/nothing").status_code == 404


def test_an_invalid_schedule_is_shown(runs: RunsOf) -> None:
    spec = {**NIGHTLY["spec"], "schedule": "0 0 31 2 *"}
    runs.cluster.create({**NIGHTLY, "metadata": {"name": "odd", "namespace": "shop"}, "spec": spec})
    answer = send(runs.app(), "GET", "/schedules/shop/odd")
    assert answer.status_code == 200
    assert "never fires" in answer.text


@pytest.mark.parametrize(
    ("verb", "spec"),
    [
        pytest.param("suspend", {"suspend": True}, id="suspended"),
        pytest.param("resume", {"suspend": False}, id="resumed"),
    ],
)
def test_a_schedule_is_suspended_and_resumed(runs: RunsOf, verb: str, spec: Any) -> None:
    answer = send(guarded(runs), "POST", f"/schedules/shop/nightly/{verb}", **form_of("all"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/schedules/shop/nightly")
    stored = runs.cluster.get(SCHEDULES, "nightly", namespace="shop")["spec"]
    assert stored["suspend"] is spec["suspend"]


def test_a_user_who_may_create_actionsets_runs_a_schedule_now(runs: RunsOf) -> None:
    path = "/schedules/shop/nightly/run-now"
    assert send(guarded(runs), "POST", path, **form_of("shop")).status_code == 403
    answer = send(guarded(runs), "POST", path, **form_of("all"))
    name = answer.headers["location"].removeprefix("/runs/shop/")
    created = runs.cluster.get(ACTION_SETS, name, namespace="shop")
    assert created["metadata"]["labels"]["kanister-py.io/schedule"] == "nightly"
    again = send(guarded(runs), "POST", path, **form_of("all"))
    assert again.status_code == 409
    assert "forbids a second run" in again.text


# Event streams


def events_of(url: str, expected: int, headers: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    """Read events until `count` lines have arrived, as `(kind, number, data)`."""

    async def go() -> list[tuple[str, str, Any]]:
        async with (
            httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            return [event async for event in _parsed(answer.aiter_lines(), expected)]

    return asyncio.run(asyncio.wait_for(go(), PATIENCE_SECONDS))


async def _parsed(lines: AsyncIterator[str], expected: int) -> AsyncIterator[tuple[str, str, Any]]:
    kind, number = "message", ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            kind = value
        elif field == "id":
            number = value
        elif field in ("data", "data:"):
            yield kind, number, json.loads(value) if value else None
            expected -= kind == "message"
            kind = "message"
            if not expected:
                return


def test_closing_a_server_with_open_streams_does_not_affect_runs() -> None:
    class ListeningOverview:
        def listen(self, call: Any) -> Any:
            self.call = call
            return lambda: None

    async def watch(overview: Any) -> None:
        ChangeSignal(overview).__enter__()  # it is never closed

    overview = ListeningOverview()
    asyncio.run(watch(overview))
    overview.call("shop", "under-way")


def test_a_stream_of_a_namespace_only_reports_its_changes() -> None:
    class FakeOverview:
        def listen(self, call: Any) -> Any:
            self.call = call
            return lambda: None

    async def go(overview: Any) -> None:
        with ChangeSignal(overview, "shop") as changes:
            overview.call("other", "held")
            assert not await changes.next(0.01)
            overview.call("shop", "done")
            assert await changes.next(PATIENCE_SECONDS)

    asyncio.run(go(FakeOverview()))


def test_a_stream_resumes_after_the_last_line(runs: RunsOf) -> None:
    with served(runs.app()) as url:
        for number in range(3):
            runs.say("under-way", f"line {number}")
        events = events_of(f"{url}/runs/shop/under-way/events?0", 3, {})
        lines = [(number, data["line"]) for kind, number, data in events if kind == "message"]
        assert lines == [("1", "line 0"), ("2", "line 1"), ("3", "line 2")]
        events = events_of(f"{url}/runs/shop/under-way/events?0", 1, {"last-event-id": "2"})
        assert [data["line"] for kind, _, data in events if kind == "message"] == ["line 2"]


class NoLogs(MemoryCluster):
    def list(self, resource: Any, **options: Any) -> Any:
        if resource == PODS:
            raise Forbidden("pods is forbidden")
        return super().list(resource, **options)


def test_unreadable_lines_are_reported_instead_of_none() -> None:
    with runs_of_a_cluster(NoLogs) as cluster_runs:
        answer = send(cluster_runs.app(), "GET", "/runs/shop/done")
    assert answer.status_code == 200
    assert "Its log cannot be read: pods is forbidden" in answer.text
    assert "No log lines" not in answer.text


def test_logs_of_pods_are_read_once_for_all_readers(runs: RunsOf) -> None:
    begun: SimpleQueue[None] = SimpleQueue()
    goes_on = Signal()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(runs.cluster, name)

        def list(self, resource: Any, **options: Any) -> Any:
            begun.put(None)
            assert goes_on.wait(PATIENCE_SECONDS)
            return runs.cluster.list(resource, **options)

    slow: Any = Slow()
    clock = FixedClock()
    clock.monotonic = lambda: 0.0
    overview = ClusterOverview(slow, clock, PhaseLines(clock), home="default")
    with ThreadPoolExecutor(2) as threads:
        looks = [threads.submit(overview.lines, "shop", "done", 0) for _ in range(2)]
        begun.get(timeout=PATIENCE_SECONDS)
        try:
            # The second thread has time to make the wrong request.
            with pytest.raises(Empty):
                begun.get(timeout=0.5)
        finally:
            goes_on.set()
        assert [list(look.result()) for look in looks] == [[], []]
    assert begun.empty()


def test_many_runs_are_paginated(runs: RunsOf) -> None:
    for number in range(250):
        runs.add(f"many-{number:03}", {})
    until(lambda: len(runs.overview.runs().rows) == 255)
    app = runs.app()
    text = send(app, "GET", "/runs?page=3").text
    assert "255 of 255 runs, page 3 of 3" in text
    assert text.count("<tr>") == 1 + 55


def test_static_files_need_no_token_and_are_cached(shown: RunsOf) -> None:
    with served(guarded(shown)) as url:
        for path in ("/page.css", "/live.css", "/live.js"):
            with urlopen(f"{url}{path}") as answer:
                assert answer.status == 200
                assert answer.headers["etag"]
