"""Page of functions, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from pydantic import Field
from starlette.applications import Starlette

from kanister_py import Args, Func, OnRestart, Outputs, VersionedFunc
from kanister_py.http_api.app import build_app
from kanister_py.http_api.page import own_headers
from tests.http_api.asking import ask
from tests.http_api.browser import ENTER, ESCAPE, TAB, Browser, missing_parts, started_browser
from tests.http_api.conftest import published, registered
from tests.http_api.serving import served

SHOWN = """
return [...document.querySelectorAll('article.function')]
  .filter((each) => each.checkVisibility()).map((each) => each.id)
"""
# Texts with too little contrast to their background.
CONTRAST = """
const channel = (value) => {
  value /= 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};
const rgba = (text) => {
  const parts = text.match(/[\\d.]+/g).map(Number);
  return parts.length === 3 ? [...parts, 1] : parts;
};
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const found = rgba(getComputedStyle(each).backgroundColor);
    if (found[3] === 1) return found;
  }
  return [255, 255, 255, 1];
};
const low = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let count = 0;
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
  const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  count += 1;
  if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim()}`);
}
return [count, low];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = missing_parts()
    if missing:
        pytest.skip(f"{missing} is not installed: the page was NOT tried in a browser")
    with started_browser(tmp_path_factory.mktemp("browser") / "profile") as started:
        started.open("about:blank")
        yield started


@pytest.fixture
def window(browser: Browser) -> Iterator[Browser]:
    """Window of usual size with light colours and without stored data."""
    browser.resize(1440, 1000)
    browser.prefer("light")
    browser.console_messages()
    browser.requested_urls()
    yield browser
    browser.open("about:blank")


@pytest.fixture(scope="module")
def sample(sample_app: Starlette) -> Iterator[str]:
    with served(sample_app) as url:
        yield url


@pytest.fixture(scope="module")
def many(many_app: Starlette) -> Iterator[str]:
    with served(many_app) as url:
        yield url


def test_the_page_loads_no_other_files_and_logs_nothing(window: Browser, sample: str) -> None:
    window.open(f"{sample}/")
    window.press("n", "o", TAB)
    fetched = [request for request in window.requested_urls() if request.startswith("http")]
    assert fetched == [f"{sample}/"]
    assert window.console_messages() == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_is_readable_in_light_and_dark(
    window: Browser, sample: str, repository: Path, colours: str
) -> None:
    window.prefer(colours)
    window.open(f"{sample}/#Notify@v0.1.0")
    window.screenshot(repository / "build" / "screenshots" / f"page-{colours}.png")
    window.ask("for (const each of document.querySelectorAll('details')) each.open = true")
    count, low = window.ask(CONTRAST)
    assert count > 100
    assert low == []


def test_a_chosen_colour_scheme_is_stored(window: Browser, sample: str) -> None:
    dark = "return getComputedStyle(document.body).backgroundColor"
    window.open(f"{sample}/")
    light = window.ask(dark)
    window.click("#_theme")
    assert window.ask(dark) == light
    window.click("#_theme")
    assert window.ask(dark) != light
    window.open(f"{sample}/?again")
    assert window.ask(dark) != light
    assert window.ask("return document.getElementById('_theme').ariaLabel") == "Colours: dark"
    window.ask("localStorage.clear()")


def test_search_finds_a_function_by_an_argument(window: Browser, sample: str) -> None:
    window.open(f"{sample}/")
    window.press("/", *"recipient")
    assert window.ask(SHOWN) == ["Notify"]
    assert window.ask("return document.getElementById('_found').textContent") == (
        "1 function, 4 versions"
    )
    assert urlsplit(window.url).query == "q=recipient"
    window.press(*"xyz")
    assert window.ask(SHOWN) == []
    assert window.ask("return document.getElementById('_nothing').checkVisibility()")
    window.press(ESCAPE)
    assert window.ask(SHOWN) == ["CountRows", "Greet", "Notify"]


def test_a_search_can_be_shared_as_a_link(window: Browser, many: str) -> None:
    window.open(f"{many}/?q=restore&status=removed")
    shown = window.ask(SHOWN)
    assert shown
    assert all("Restore" in function for function in shown)
    versions = window.ask(
        "return [...document.querySelectorAll('details.version')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.dataset.status)"
    )
    assert set(versions) == {"removed"}


@pytest.mark.parametrize(
    "fragment", ["Notify@v0.0.1", "/Notify@v0.0.1", "notify@0.0.1", "Notify%40v0.0.1"]
)
def test_a_link_opens_the_version_it_names(window: Browser, sample: str, fragment: str) -> None:
    window.open(f"{sample}/?{fragment.encode().hex()}#{fragment}")
    assert window.ask(
        "const found = document.getElementById('Notify@v0.0.1');"
        "const box = found.getBoundingClientRect();"
        "return [found.open, found.checkVisibility(), box.top >= 0 && box.top < innerHeight]"
    ) == [True, True, True]


def test_everything_is_reachable_by_keyboard(window: Browser, sample: str) -> None:
    window.open(f"{sample}/")
    focused = "const it = document.activeElement; return it.textContent.trim() || it.id"
    window.press(TAB)
    assert window.ask(focused) == "Skip to the functions"
    window.press(ENTER)
    assert window.ask("return document.activeElement.id") == "_functions"
    window.press(TAB, TAB)
    assert window.ask("return document.activeElement.tagName") == "SUMMARY"
    assert window.ask("return document.activeElement.parentElement.open") is False
    window.press(ENTER)
    assert window.ask("return document.activeElement.parentElement.open") is True


def test_landmarks_and_names_are_set_for_screen_readers(window: Browser, sample: str) -> None:
    window.open(f"{sample}/")
    nodes = window.devtools("Accessibility.getFullAXTree")["nodes"]
    named = {
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    }
    roles = {role for role, _ in named}
    assert {"main", "banner", "contentinfo", "search", "complementary"} <= roles
    assert ("navigation", "Functions") in named
    assert ("searchbox", "Search functions, arguments and versions") in named
    assert ("article", "Notify") in named
    assert not [
        role for role, name in named if role in ("button", "link", "searchbox") and not name
    ]


def test_everything_is_readable_without_javascript(window: Browser, sample: str) -> None:
    window.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        window.open(f"{sample}/?plain#Notify@v0.1.0")
        assert window.ask("return document.documentElement.className") == ""
        window.click("[id='Notify@v0.1.0'] > summary")
        text = window.ask("return document.body.innerText")
        for expected in ("Who is told", "recipient", "ends in 1.3.0", "1 removed version"):
            assert expected in text
        shown = "return document.querySelector('{}').checkVisibility()"
        for useless in ("#_theme", ".find", ".copy"):
            assert window.ask(shown.format(useless)) is False
    finally:
        window.devtools("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("width", [360, 800, 1280, 1920])
def test_the_page_fits_every_width(window: Browser, many: str, width: int) -> None:
    window.resize(width, 900)
    window.open(f"{many}/?{width}")
    assert window.ask("return document.documentElement.scrollWidth") <= width


def test_sixty_functions_are_searched_quickly(window: Browser, many: str) -> None:
    window.open(f"{many}/")
    assert len(window.ask(SHOWN)) == 60
    milliseconds = window.ask(
        "const query = document.getElementById('_query'); const start = performance.now();"
        "query.value = 'volume'; query.dispatchEvent(new Event('input', { bubbles: true }));"
        "document.body.offsetHeight; return performance.now() - start"
    )
    assert {name.endswith("Volume") for name in window.ask(SHOWN)} == {True}
    assert milliseconds < 1000


def test_a_plugin_that_failed_to_load_is_named(many_app: Starlette) -> None:
    assert "broken (acme_broken:Broken)" in ask(many_app, "/").text


def test_a_page_without_functions_explains_how_to_add_some(empty_app: Starlette) -> None:
    text = ask(empty_app, "/").text
    assert "No functions are registered" in text
    assert "kanister_py.functions" in text


def test_texts_of_authors_are_escaped(sample_app: Starlette) -> None:
    text = ask(sample_app, "/").text
    assert "&lt;b&gt;no&lt;/b&gt; promise &amp; no hurry" in text
    assert "Count rows in <code>table</code>." in ask(sample_app, "/").text


def test_a_browser_only_runs_the_script_of_the_page(sample_app: Starlette) -> None:
    response = ask(sample_app, "/")
    policy = response.headers["content-security-policy"]
    assert policy == own_headers()["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "style=" not in response.text
    assert "onclick" not in response.text


# Texts that authors may write: markup, ends of the enclosing syntax, invisible characters.
EVIL = (
    "<img src=/evil onerror=window.evil=1><script>window.evil=1</script></script></style></title>"
    "\"'><svg onload=window.evil=1> `javascript:window.evil=1` [x](javascript:window.evil=1) "
    "${window.evil=1} {{ 7*7 }} <!-- ]]> &lt;b&gt; \u202e\u2066\u200b \x1b[31m \x00 \ufeff"
)


class EvilArgs(Args):
    text: str = Field(default=EVIL, description=EVIL)
    number: int = Field(description=EVIL, title=EVIL, examples=[EVIL])


class EvilOutputs(Outputs):
    answer: str = Field(description=EVIL)


class Evil(Func):
    name = "Evil"
    Args = EvilArgs
    Outputs = EvilOutputs
    on_restart = OnRestart.REPEAT
    __doc__ = f"{EVIL}\n\n{EVIL}"

    def exec(self, ctx: Any, params: Any, args: Any) -> dict[str, Any]:
        return {}


class EvilVersions(VersionedFunc):
    __doc__ = EVIL
    name = "Evil"
    stable_version = "v0.1.0"
    versions: ClassVar = {"v0.0.0": Evil, "v0.1.0": Evil}
    lifecycle: ClassVar = {
        "releases": [{"version": f"1.{minor}.0"} for minor in range(4)],
        "versions": {
            "v0.0.0": {"since": "1.0.0", "deprecatedIn": "1.1.0", "message": EVIL},
            "v0.1.0": {"since": "1.1.0", "message": EVIL},
        },
    }


def test_texts_of_a_hostile_plugin_are_escaped(window: Browser) -> None:
    registry = registered(EvilVersions, source="evil-plugin", release="1.2.0")
    with served(build_app(published(registry, left_out=(EVIL,)))) as url:
        for place in ("/", "/#Evil@v0.0.0", "/?q=window.evil", "/#<img src=x onerror=evil=1>"):
            window.open(url + place)
            window.ask("for (const each of document.querySelectorAll('details')) each.open = true")
            window.press("/", *"onerror=window", ENTER, TAB, ENTER)
            assert window.ask("return window.evil ?? null") is None
        text = window.ask("return document.body.textContent")
        assert "<img src=/evil onerror=window.evil=1>" in text
        assert window.ask("return document.images.length") == 0
        links = window.ask("return [...document.links].map((each) => each.protocol)")
        assert "javascript:" not in links
        assert window.console_messages() == []
        assert f"{url}/evil" not in window.requested_urls()
