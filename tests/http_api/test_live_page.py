"""The pages of runs in a real browser: they live, everybody can use them, and nothing leaks."""

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
    with started_browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture
def window(browser: Browser) -> Iterator[Browser]:
    browser.resize(1280, 900)
    browser.prefer("light")
    browser.open("about:blank")
    browser.complaints()
    browser.requested()
    yield browser
    browser.open("about:blank")


@pytest.fixture(scope="module")
def runs() -> Iterator[RunsOf]:
    with runs_of_a_cluster() as made:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(made.overview.runs().rows) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield made


@pytest.fixture(scope="module")
def url(runs: RunsOf) -> Iterator[str]:
    with served(runs.app()) as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    """Give the judge of pages."""
    there = cache_folder() / "programs" / f"axe-core-{AXE_VERSION}" / "node_modules"
    if not there.exists() and not os.environ.get("KANISTER_PY_EVERY_GATE"):
        pytest.skip("axe-core is not installed: `npm`, and KANISTER_PY_EVERY_GATE=1, bring it")
    try:
        return find_axe().read_text(encoding="utf-8")
    except NpmMissing as error:
        pytest.skip(f"axe-core: {error}")


def until(window: Browser, script: str, is_so: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so(found := window.ask(script)):
        assert time.monotonic() < deadline, found
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
def test_a_page_can_be_used_by_everybody(
    window: Browser, url: str, axe: str, path: str, width: int, colours: str
) -> None:
    window.resize(width, 900)
    window.prefer(colours)
    window.open(url + path)
    if path == "/runs/shop/nothing":
        window.complaints()
    window.ask(f"{axe}; return null")
    window.ask("axe.run().then((found) => { window.found = found.violations; })")
    until(window, "return window.found !== undefined", bool)
    found = window.ask(
        "return window.found.map((each) => [each.id, each.nodes.map((node) => node.html)])"
    )
    assert found == []
    assert window.ask("return document.documentElement.scrollWidth <= innerWidth")
    assert window.complaints() == []


def test_the_pages_ask_nobody_but_their_own_server(window: Browser, url: str) -> None:
    window.open(f"{url}/runs")
    window.open(f"{url}/runs/shop/broken")
    asked = [each for each in window.requested() if each.startswith("http")]
    assert asked
    assert all(each.startswith(url) for each in asked)


def test_lines_come_as_they_are_printed_and_stay_text(
    window: Browser, runs: RunsOf, url: str
) -> None:
    window.open(f"{url}/runs/shop/under-way")
    runs.say("under-way", "first of all")
    until(window, LOG, lambda text: "first of all" in text)
    runs.say("under-way", HOSTILE)
    until(window, LOG, lambda text: "\\u202eevil" in text)
    assert window.ask("return document.querySelectorAll('#log img').length") == 0
    assert window.complaints() == []


def test_a_run_changes_before_the_eyes_of_who_watches_it(
    window: Browser, runs: RunsOf, url: str
) -> None:
    runs.add("moving", status_of("running", phase("dump", "running", 1)))
    window.open(f"{url}/runs/shop/moving")
    until(window, NOW, lambda text: "running" in text)
    runs.change("moving", status_of("complete", phase("dump", "complete", 1, 4)))
    until(window, NOW, lambda text: "complete" in text and "running" not in text)


def test_the_list_changes_before_the_eyes_of_who_watches_it(
    window: Browser, runs: RunsOf, url: str
) -> None:
    window.open(f"{url}/runs?blueprint=brand-new")
    until(window, NOW, lambda text: "No run fits" in text)
    runs.add("brand-new", {}, blueprint="brand-new")
    until(window, NOW, lambda text: "1 of" in text)


def test_the_keyboard_is_enough_to_find_a_run_and_to_cancel_it(
    window: Browser, runs: RunsOf, url: str
) -> None:
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
        found = runs.cluster.get(ACTION_SETS, "by-keys", namespace="shop")
        return found["spec"].get("cancel") is True

    until(window, "return null", is_cancelled)


def _tab_to(window: Browser, script: str, wanted: str) -> None:
    for _ in range(40):
        if window.ask(script) == wanted:
            return
        window.press(TAB)
    raise AssertionError(f"no Tab leads to {wanted}")


def test_signing_in_shows_what_the_token_may_and_leaves_it_to_no_script(
    window: Browser, runs: RunsOf
) -> None:
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
def test_a_page_whose_token_is_over_leads_to_where_one_signs_in(
    window: Browser, runs: RunsOf, path: str
) -> None:
    asked = SimpleQueue[str]()

    def review(token: str, _asked: Any) -> Access:
        # It is good to sign in with, and for the page; then it is over.
        asked.put(token)
        return Access.ALLOWED if token == "short" and asked.qsize() <= 2 else Access.UNKNOWN

    with served(Guard(runs.app(review), review)) as url:
        window.open(f"{url}/signin?{urlencode({'next': path})}")
        window.click("#token")
        window.press(*"short", ENTER)
        # The stream of the page is refused: so the page was there.
        until(window, "return null", lambda _: asked.qsize() > 2)
        until(window, "return document.getElementById('token') !== null", bool)
