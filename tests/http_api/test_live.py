"""The pages of runs: who may see what, what may be done, and lines as they come."""

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
    RunsOf,
    Standing,
    runs_of_a_cluster,
    status_of,
)
from tests.http_api.serving import served

HTML = {"accept": "text/html"}
PATIENCE_SECONDS = 180.0


@pytest.fixture(scope="module")
def shown() -> Iterator[RunsOf]:
    """Runs that no test changes."""
    with runs_of_a_cluster() as made:
        until(lambda: len(made.overview.runs().rows) == 5)
        yield made


@pytest.fixture
def runs() -> Iterator[RunsOf]:
    with runs_of_a_cluster() as made:
        until(lambda: len(made.overview.runs().rows) == 5)
        yield made


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
    "shop": lambda asked: asked.get("namespace") == "shop" and asked["verb"] in ("get", "list"),
    "nobody": lambda _: False,
}


def review(token: str, asked: Mapping[str, Any]) -> Access:
    if token == "away":
        raise ClusterUnavailable("away")
    if token not in RIGHTS:
        return Access.UNKNOWN
    is_fine = RIGHTS[token](asked.get("resourceAttributes", {"verb": "", **asked}))
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
def test_the_list_shows_what_is_asked_for(shown: RunsOf, path: str, names: list[str]) -> None:
    answer = send(shown.app(), "GET", path)
    assert answer.status_code == 200
    assert sorted(answer.text.split('<a href="/runs/')[1:]) == sorted(
        part for part in answer.text.split('<a href="/runs/')[1:] if part.split('"')[0]
    )
    found = [part.split('"')[0].partition("/")[2] for part in answer.text.split('<a href="/runs/')]
    assert sorted(each for each in found if each) == sorted(names)


class Away(MemoryCluster):
    """Nobody answers, once it is known."""

    is_known = Signal()

    def list(self, *_args: Any, **_options: Any) -> Any:
        assert self.is_known.wait(PATIENCE_SECONDS)
        raise ClusterUnavailable("nobody answers")


class Hasty(Standing):
    """No look waits long."""

    def __init__(self) -> None:
        self._passed = 0.0

    def monotonic(self) -> float:
        self._passed += 1.0
        return self._passed


def test_runs_that_cannot_be_seen_are_not_taken_for_none() -> None:
    clock = Hasty()
    lines = PhaseLines(clock)
    cluster = Away(clock=clock)
    overview = ClusterOverview(cluster, clock, lines, home="")
    app = RunsOf(MemoryCluster(clock=clock), lines, overview).app()
    try:
        for path in ("/runs", "/runs-now"):
            text = send(app, "GET", path).text
            assert "The runs of the cluster are being read" in text
            assert "Nothing has run yet" not in text
        cluster.is_known.set()
        until(lambda: "nobody answers" in overview.runs().trouble)
        for path in ("/runs", "/runs-now"):
            text = send(app, "GET", path).text
            assert "Cannot watch actionsets.cr.kanister.io: nobody answers" in text
            assert "Nothing has run yet" not in text
    finally:
        cluster.is_known.set()
        overview.close()


def test_runs_are_followed_from_the_first_look_on() -> None:
    clock = Standing()
    cluster = MemoryCluster(clock=clock)
    overview = ClusterOverview(cluster, clock, PhaseLines(clock), home="")
    app = RunsOf(cluster, PhaseLines(clock), overview).app()
    assert send(app, "GET", "/schedules").status_code == 200
    assert not overview.is_followed
    try:
        # And the first look has them.
        assert "Nothing has run yet" in send(app, "GET", "/runs").text
        assert overview.is_followed
    finally:
        overview.close()


def test_what_is_made_while_runs_change_is_not_kept_for_what_they_are_then(runs: RunsOf) -> None:
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


def test_who_sees_one_namespace_is_not_told_how_much_runs_in_others(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/runs?namespace=other").text
    assert "1 of 1 run<" in text


def test_what_has_not_changed_is_not_sent_again(runs: RunsOf) -> None:
    app = runs.app()
    first = send(app, "GET", "/runs-now")
    again = {"if-none-match": first.headers["etag"]}
    assert send(app, "GET", "/runs-now", headers=again).status_code == 304
    version = runs.overview.runs().version
    runs.add("newest", status_of("running"))
    until(lambda: runs.overview.runs().version > version)
    assert send(app, "GET", "/runs-now", headers=again).status_code == 200


def test_what_others_wrote_is_text_and_never_markup(shown: RunsOf) -> None:
    shown.say("under-way", HOSTILE)
    for path in ("/runs", "/runs/shop/broken", "/runs/shop/under-way"):
        text = send(shown.app(), "GET", path).text
        assert "<img src=x" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;\\x1b[31m\\u202eevil" in text


def test_one_run_is_told_whole(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/runs/shop/done").text
    for part in ("stop", "dump", "attempt 2", "57.0s", "v0.1.0", "StatefulSet shop/db", "nightly"):
        assert part in text
    broken = send(shown.app(), "GET", "/runs/shop/broken").text
    assert "KubeTask v0.0.9 is deprecated" in broken
    assert "CommandFailed" in broken


def test_a_run_that_is_not_there_is_said(shown: RunsOf) -> None:
    answer = send(shown.app(), "GET", "/runs/shop/nothing")
    assert answer.status_code == 404
    assert "ActionSet nothing does not exist in namespace shop" in answer.text


# Who may see what


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
def test_a_page_takes_the_right_to_what_it_shows(
    shown: RunsOf, path: str, token: str, status: int
) -> None:
    assert send(guarded(shown), "GET", path, headers=signed_in(token)).status_code == status


def test_a_person_without_a_token_is_led_to_where_one_signs_in_and_back(shown: RunsOf) -> None:
    app = guarded(shown)
    answer = send(app, "GET", "/runs/shop/done?x=1", headers=HTML)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Fruns%2Fshop%2Fdone%3Fx%3D1"
    form = send(app, "GET", answer.headers["location"], headers=HTML)
    assert form.status_code == 200
    taken = send(app, "POST", answer.headers["location"], data={"token": " all\n"})
    assert (taken.status_code, taken.headers["location"]) == (303, "/runs/shop/done?x=1")
    cookie = taken.headers["set-cookie"]
    sealed = cookie.partition("=")[2].partition(";")[0]
    assert (sealed != "all", SEAL.open(sealed)) == (True, "all")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert "Secure" not in cookie
    assert send(app, "GET", "/runs").status_code == 401
    asked = send(app, "POST", "/runs/shop/under-way/cancel", headers=HTML)
    assert (asked.status_code, asked.headers["location"]) == (303, "/signin")


def test_a_person_is_told_in_a_page_that_nobody_can_say_who_they_are(shown: RunsOf) -> None:
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
def test_cookies_of_others_on_the_same_host_are_in_nobodys_way(shown: RunsOf, cookies: str) -> None:
    headers = {**HTML, "cookie": cookies.replace("{}", cookie_of("all"))}
    assert send(guarded(shown), "GET", "/runs", headers=headers).status_code == 200


def test_behind_tls_the_cookie_never_leaves_it(shown: RunsOf) -> None:
    headers = {"x-forwarded-proto": "https"}
    taken = send(guarded(shown), "POST", "/signin", data={"token": "all"}, headers=headers)
    assert taken.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/runs\r\nx: y",
        "javascript:alert(1)",
        "",
    ],
)
def test_signing_in_leads_nowhere_else(shown: RunsOf, wanted: str) -> None:
    path = f"/signin?{urlencode({'next': wanted})}"
    taken = send(guarded(shown), "POST", path, data={"token": "all"})
    assert taken.headers["location"] == "/runs"


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
def test_a_token_is_refused(shown: RunsOf, token: str, status: int) -> None:
    answer = send(guarded(shown), "POST", "/signin", data={"token": token})
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_a_token_that_is_known_no_more_is_taken_away(shown: RunsOf) -> None:
    answer = send(guarded(shown), "GET", "/runs", headers=signed_in("old"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert "Max-Age=0" in send(guarded(shown), "POST", "/signout").headers["set-cookie"]


def test_pages_may_do_nothing_in_a_browser_but_what_is_ours(shown: RunsOf) -> None:
    for path in ("/runs", "/runs/shop/done", "/signin", "/runs/shop/nothing"):
        policy = send(shown.app(), "GET", path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


# What may be done


def test_a_run_is_cancelled_by_a_user_who_may(runs: RunsOf) -> None:
    answer = send(guarded(runs), "POST", "/runs/shop/under-way/cancel", **form_of("all"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/shop/under-way")
    found = runs.cluster.get(ACTION_SETS, "under-way", namespace="shop")
    assert found["spec"]["cancel"] is True


def test_a_run_that_failed_is_done_again(runs: RunsOf) -> None:
    answer = send(guarded(runs), "POST", "/runs/shop/broken/retry", **form_of("all"))
    name = answer.headers["location"].rpartition("/")[2]
    made = runs.cluster.get(ACTION_SETS, name, namespace="shop")
    assert made["metadata"]["annotations"]["kanister-py.io/retry-of"] == "broken"


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
def test_what_may_not_be_done_is_not_done(
    runs: RunsOf, path: str, more: dict[str, Any], status: int
) -> None:
    before = [each["spec"] for each in runs.cluster.list(ACTION_SETS).items]
    assert send(guarded(runs), "POST", path, **more).status_code == status
    assert [each["spec"] for each in runs.cluster.list(ACTION_SETS).items] == before


def test_where_nobody_signs_in_a_form_of_another_page_does_nothing_either(runs: RunsOf) -> None:
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


class Narrow(MemoryCluster):
    """A cluster that shows all namespaces to nobody, as to a controller with Roles in some."""

    def list(self, resource: Any, *, namespace: str = "", **options: Any) -> Any:
        if not namespace:
            raise Forbidden("schedules at the cluster scope")
        return super().list(resource, namespace=namespace, **options)


def test_a_controller_of_some_namespaces_lists_the_schedules_of_these() -> None:
    clock = Standing()
    cluster = Narrow(clock=clock)
    text = files("kanister_py.crds").joinpath("schedules.yaml").read_text("utf-8")
    for each in parse_documents(text):
        cluster.create(each.value)
    cluster.create(NIGHTLY)
    overview = ClusterOverview(
        cluster, clock, PhaseLines(clock), home="", namespaces=("other", "shop")
    )
    app = RunsOf(cluster, PhaseLines(clock), overview).app()
    assert '<a href="/schedules/shop/nightly">' in send(app, "GET", "/schedules").text


def test_a_schedule_shows_what_ran_and_what_is_to_come(shown: RunsOf) -> None:
    text = send(shown.app(), "GET", "/schedules/shop/nightly").text
    # Two in the morning, UTC, is three in Berlin.
    assert "2026-03-01 02:30:00 UTC" in text
    assert text.count('class="planned">03:30') == 28 + 1
    assert 'class="pill run-complete" href="/runs/shop/done"' in text
    assert send(shown.app(), "GET", "/schedules/shop/nothing").status_code == 404


def test_a_schedule_that_is_none_is_shown_as_far_as_it_can_be(runs: RunsOf) -> None:
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
def test_a_schedule_is_held_and_let_go(runs: RunsOf, verb: str, spec: Any) -> None:
    answer = send(guarded(runs), "POST", f"/schedules/shop/nightly/{verb}", **form_of("all"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/schedules/shop/nightly")
    found = runs.cluster.get(SCHEDULES, "nightly", namespace="shop")["spec"]
    assert found["suspend"] is spec["suspend"]


def test_a_schedule_runs_now_for_a_user_who_may_make_runs(runs: RunsOf) -> None:
    path = "/schedules/shop/nightly/run-now"
    assert send(guarded(runs), "POST", path, **form_of("shop")).status_code == 403
    answer = send(guarded(runs), "POST", path, **form_of("all"))
    name = answer.headers["location"].removeprefix("/runs/shop/")
    made = runs.cluster.get(ACTION_SETS, name, namespace="shop")
    assert made["metadata"]["labels"]["kanister-py.io/schedule"] == "nightly"
    again = send(guarded(runs), "POST", path, **form_of("all"))
    assert again.status_code == 409
    assert "forbids a second run" in again.text


# As it comes


def events_of(url: str, wanted: int, headers: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    """Follow until so many lines have come: `(kind, number, data)`."""

    async def go() -> list[tuple[str, str, Any]]:
        async with (
            httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            return [each async for each in _parsed(answer.aiter_lines(), wanted)]

    return asyncio.run(asyncio.wait_for(go(), PATIENCE_SECONDS))


async def _parsed(lines: AsyncIterator[str], wanted: int) -> AsyncIterator[tuple[str, str, Any]]:
    kind, number = "message", ""
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            kind = value
        elif field == "id":
            number = value
        elif field in ("data", "data:"):
            yield kind, number, json.loads(value) if value else None
            wanted -= kind == "message"
            kind = "message"
            if not wanted:
                return


def test_runs_go_on_where_a_server_ended_with_a_browser_still_watching() -> None:
    class Listened:
        def listen(self, call: Any) -> Any:
            self.call = call
            return lambda: None

    async def watch(overview: Any) -> None:
        ChangeSignal(overview).__enter__()  # nobody leaves it

    overview = Listened()
    asyncio.run(watch(overview))
    overview.call("shop", "under-way")


def test_who_watches_one_namespace_is_told_when_something_changes_there_alone() -> None:
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


def test_lines_reach_a_browser_from_where_it_was(runs: RunsOf) -> None:
    with served(runs.app()) as url:
        for number in range(3):
            runs.say("under-way", f"line {number}")
        found = events_of(f"{url}/runs/shop/under-way/events?0", 3, {})
        lines = [(number, data["line"]) for kind, number, data in found if kind == "message"]
        assert lines == [("1", "line 0"), ("2", "line 1"), ("3", "line 2")]
        found = events_of(f"{url}/runs/shop/under-way/events?0", 1, {"last-event-id": "2"})
        assert [data["line"] for kind, _, data in found if kind == "message"] == ["line 2"]


class NoLogs(MemoryCluster):
    def list(self, resource: Any, **options: Any) -> Any:
        if resource == PODS:
            raise Forbidden("pods is forbidden")
        return super().list(resource, **options)


def test_lines_that_cannot_be_read_are_not_taken_for_none() -> None:
    with runs_of_a_cluster(NoLogs) as made:
        answer = send(made.app(), "GET", "/runs/shop/done")
    assert answer.status_code == 200
    assert "Its lines cannot be read here: pods is forbidden" in answer.text
    assert "Nothing has been printed" not in answer.text


def test_logs_of_pods_are_read_once_for_all_who_look(runs: RunsOf) -> None:
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
    clock = Standing()
    clock.monotonic = lambda: 0.0
    overview = ClusterOverview(slow, clock, PhaseLines(clock), home="default")
    with ThreadPoolExecutor(2) as threads:
        looks = [threads.submit(overview.lines, "shop", "done", 0) for _ in range(2)]
        begun.get(timeout=PATIENCE_SECONDS)
        try:
            # The other one has time to do what it must not.
            with pytest.raises(Empty):
                begun.get(timeout=0.5)
        finally:
            goes_on.set()
        assert [list(each.result()) for each in looks] == [[], []]
    assert begun.empty()


def test_many_runs_are_shown_page_by_page(runs: RunsOf) -> None:
    for number in range(250):
        runs.add(f"many-{number:03}", {})
    until(lambda: len(runs.overview.runs().rows) == 255)
    app = runs.app()
    text = send(app, "GET", "/runs?page=3").text
    assert "255 of 255 runs, page 3 of 3" in text
    assert text.count("<tr>") == 1 + 55


def test_the_files_of_the_pages_need_no_token_and_are_kept(shown: RunsOf) -> None:
    with served(guarded(shown)) as url:
        for path in ("/page.css", "/live.css", "/live.js"):
            with urlopen(f"{url}{path}") as answer:
                assert answer.status == 200
                assert answer.headers["etag"]
