"""A real browser, driven over the W3C WebDriver protocol."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

_PATIENCE_SECONDS = 180.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")

TAB, ENTER, ESCAPE, SPACE = "\ue004", "\ue007", "\ue00c", " "


def missing_parts() -> str:
    """Say what of the browser is not installed, or nothing."""
    wanted = {"chromedriver": ("chromedriver",), "chromium": ("chromium", "chromium-browser")}
    missing = [name for name, files in wanted.items() if not any(map(shutil.which, files))]
    return " and ".join(missing)


class Browser:
    """One window."""

    def __init__(self, driver: str, options: dict[str, Any]) -> None:
        self._driver = driver
        capabilities = {
            "alwaysMatch": {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
        }
        session = self._call("POST", "/session", {"capabilities": capabilities})
        self._session = f"/session/{session['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        request = Request(
            self._driver + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as response:
            return json.load(response)["value"]

    def _do(self, path: str, **body: Any) -> Any:
        return self._call("POST", self._session + path, body)

    def open(self, url: str) -> None:
        self._do("/url", url=url)

    @property
    def url(self) -> str:
        return cast("str", self._call("GET", f"{self._session}/url"))

    def ask(self, script: str, *args: Any) -> Any:
        """Run a script in the page and give what it returns."""
        return self._do("/execute/sync", script=script, args=list(args))

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._do("/goog/cdp/execute", cmd=command, params=parameters)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def click(self, selector: str) -> None:
        """Click on something, once it is there: a page may be on its way, or change just now."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                found = self._do("/element", using="css selector", value=selector)
                self._do(f"/element/{found[_ELEMENT]}/click")
            except HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def resize(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, colours: str) -> None:
        """Have the system ask for light or dark colours."""
        self.devtools(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": colours},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )

    def screenshot(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def complaints(self) -> list[str]:
        """The messages of the console since it was asked last."""
        return [each["message"] for each in self._do("/se/log", type="browser")]

    def requested(self) -> list[str]:
        """Every address that was asked for since it was asked last."""
        events = [json.loads(each["message"]) for each in self._do("/se/log", type="performance")]
        return [
            each["message"]["params"]["request"]["url"]
            for each in events
            if each["message"]["method"] == "Network.requestWillBeSent"
        ]

    def quit(self) -> None:
        self._call("DELETE", self._session)


@contextmanager
def started_browser(profile: Path) -> Iterator[Browser]:
    """Start a browser whose profile is in a folder of ours, and end it."""
    driver, port = _started_driver(profile)
    browser = None
    try:
        options = {"args": [*_FLAGS, f"--user-data-dir={profile}"]}
        browser = Browser(f"http://127.0.0.1:{port}", options)
        yield browser
    finally:
        if browser is not None:
            browser.quit()
        driver.terminate()
        driver.communicate()


def _started_driver(profile: Path) -> tuple[subprocess.Popen[str], str]:
    # It takes a free port of IPv4, then the same one of IPv6, and ends if that is in use.
    for _attempt in range(10):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Browsers keep things in the user's folders that a test has no business with.
            env={**os.environ, "HOME": str(profile), "TMPDIR": str(profile)}
            | {name: str(profile) for name in _FOLDERS},
        )
        assert driver.stdout is not None
        output = []
        for line in driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                return driver, found[1]
            output.append(line)
        driver.wait()
        driver.stdout.close()
    raise AssertionError("chromedriver does not start:\n" + "".join(output))
