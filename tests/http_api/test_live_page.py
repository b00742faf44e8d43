"""Pages of runs in a real browser: live updates, accessibility and security."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlencode

import pytest

from e2e.cluster.programs import AXE_VERSION, NpmMissing, cache_folder, find_axe
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.executor.review_access import Access
from kanister_py.http_api.guard import Guard
from tests.http_api.browser import ENTER, TAB, Browser, missing_parts, started_browser
from tests.http_api.runs_of import HOSTILE, RunsOf, phase, runs_of_a_cluster, status_of
from tests.http_api.serving import served

PATIENCE_SECONDS = 180.0
LOG = "return document.getElementById('log')?.innerText ?? ''"
NOW = "return document.getElementById('now')?.innerText ?? ''"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = missing_parts()
    if missing:
        pytest.skip(f"{missing} is not installed: the pages were NOT tried in a browser")
    with started_browser(tmp_path_factory.mktemp("browser") / "profile") as started:
        yield started


@pytest.fixture
def window(browser: Browser) -> Iterator[Browser]:
    browser.resize(1280, 900)
    browser.prefer("light")
    browser.open("about:blank")
    browser.console_messages()
    browser.requested_urls()
    yield browser
    browser.open("about:blank")


@pytest.fixture(scope="module")
def runs() -> Iterator[RunsOf]:
    with runs_of_a_cluster() as cluster_runs:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(cluster_runs.overview.runs().rows) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield cluster_runs


@pytest.fixture(scope="module")
def url(runs: RunsOf) -> Iterator[str]:
    with served(runs.app()) as started:
        yield started


@pytest.fixture(scope="module")
def axe() -> str:
    """Script of the accessibility checker axe-core."""
    folder = cache_folder() / "programs" / f"axe-core-{AXE_VERSION}" / "node_modules"
    if not folder.exists() and not os.environ.get("KANISTER_PY_EVERY_GATE"):
        pytest.skip("axe-core is not installed: `npm`, and KANISTER_PY_EVERY_GATE=1, bring it")
    try:
        return find_axe().read_text(encoding="utf-8")
    except NpmMissing as error:
        pytest.skip(f"axe-core: {error}")


def until(window: Browser, script: str, is_so: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so(result := window.ask(script)):
        assert time.monotonic() < deadline, result
        time.sleep(0.02)


PAGES = [
    "/runs",
    "/runs/shop/under-way",
    "/runs/shop/broken",
    "/runs/shop/nothing",
    "/schedules",
    "/schedules/shop/nightly",
    "/signin",
]


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible(
    window: Browser, url: str, axe: str, path: str, width: int, colours: str
) -> None:
    window.resize(width, 900)
    window.prefer(colours)
    window.open(url + path)
    if path == "/runs/shop/nothing":
        window.console_messages()
    window.ask(f"{axe}; return null")
    window.ask("axe.run().then((found) => { window.found = found.violations; })")
    until(window, "return window.found !== undefined", bool)
    violations = window.ask(
        "return window.found.map((each) => [each.id, each.nodes.map((node) => node.html)])"
    )
    assert violations == []
    assert window.ask("return document.documentElement.scrollWidth <= innerWidth")
    assert window.console_messages() == []


def test_the_pages_only_send_requests_to_their_server(window: Browser, url: str) -> None:
    window.open(f"{url}/runs")
    window.open(f"{url}/runs/shop/broken")
    requests = [request for request in window.requested_urls() if request.startswith("http")]
    assert requests
    assert all(request.startswith(url) for request in requests)


def test_lines_appear_live_and_are_escaped(window: Browser, runs: RunsOf, url: str) -> None:
    window.open(f"{url}/runs/shop/under-way")
    runs.say("under-way", "first of all")
    until(window, LOG, lambda text: "first of all" in text)
    runs.say("under-way", HOSTILE)
    until(window, LOG, lambda text: "\\u202eevil" in text)
    assert window.ask("return document.querySelectorAll('#log img').length") == 0
    assert window.console_messages() == []


def test_the_page_of_a_run_is_updated_live(window: Browser, runs: RunsOf, url: str) -> None:
    runs.add("moving", status_of("running", phase("dump", "running", 1)))
    window.open(f"{url}/runs/shop/moving")
    until(window, NOW, lambda text: "running" in text)
    runs.change("moving", status_of("complete", phase("dump", "complete", 1, 4)))
    until(window, NOW, lambda text: "complete" in text and "running" not in text)


def test_the_list_is_updated_live(window: Browser, runs: RunsOf, url: str) -> None:
    window.open(f"{url}/runs?blueprint=brand-new")
    until(window, NOW, lambda text: "No matching runs" in text)
    runs.add("brand-new", {}, blueprint="brand-new")
    until(window, NOW, lambda text: "1 of" in text)


def test_a_run_is_found_and_cancelled_by_keyboard(window: Browser, runs: RunsOf, url: str) -> None:
    runs.add("by-keys", status_of("running", phase("dump", "running", 1)), blueprint="keys")
    window.open(f"{url}/runs?blueprint=keys")
    until(window, NOW, lambda text: "by-keys" in text)
    focused = "return document.activeElement?.textContent.trim() ?? ''"
    _tab_to(window, focused, "by-keys")
    window.press(ENTER)
    until(window, "return location.pathname", lambda path: path == "/runs/shop/by-keys")
    _tab_to(window, focused, "Cancel")
    window.press(ENTER)

    def is_cancelled(_: Any) -> bool:
        actionset = runs.cluster.get(ACTION_SETS, "by-keys", namespace="shop")
        return actionset["spec"].get("cancel") is True

    until(window, "return null", is_cancelled)


def _tab_to(window: Browser, script: str, expected: str) -> None:
    for _ in range(40):
        if window.ask(script) == expected:
            return
        window.press(TAB)
    raise AssertionError(f"no Tab leads to {expected}")


def test_the_signed_in_page_hides_the_token_from_scripts(window: Browser, runs: RunsOf) -> None:
    def review(token: str, _asked: Any) -> Access:
        return Access.ALLOWED if token == "secret-token" else Access.UNKNOWN

    with served(Guard(runs.app(review), review)) as url:
        window.open(f"{url}/runs/shop/done")
        assert window.url.endswith("/signin?next=%2Fruns%2Fshop%2Fdone")
        window.click("#token")
        window.press(*"secret-token", ENTER)
        until(window, "return location.pathname", lambda path: path == "/runs/shop/done")
        assert window.ask("return document.cookie") == ""
        assert "secret-token" not in window.ask("return document.documentElement.outerHTML")
        window.click("form[action='/signout'] button")
        until(window, "return location.pathname", lambda path: path == "/signin")


@pytest.mark.parametrize("path", ["/runs", "/runs/shop/done"])
def test_a_page_with_an_expired_token_leads_to_sign_in(
    window: Browser, runs: RunsOf, path: str
) -> None:
    requests = SimpleQueue[str]()

    def review(token: str, _asked: Any) -> Access:
        # The token is valid for the sign-in and the page, and then expires.
        requests.put(token)
        return Access.ALLOWED if token == "short" and requests.qsize() <= 2 else Access.UNKNOWN

    with served(Guard(runs.app(review), review)) as url:
        window.open(f"{url}/signin?{urlencode({'next': path})}")
        window.click("#token")
        window.press(*"short", ENTER)
        # The refused stream shows that the page was loaded.
        until(window, "return null", lambda _: requests.qsize() > 2)
        until(window, "return document.getElementById('token') !== null", bool)
