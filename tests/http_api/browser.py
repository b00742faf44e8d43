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
    """Return the programs that are not installed, or an empty text."""
    programs = {"chromedriver": ("chromedriver",), "chromium": ("chromium", "chromium-browser")}
    missing = [name for name, files in programs.items() if not any(map(shutil.which, files))]
    return " and ".join(missing)


class Browser:
    """One browser window."""

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
        """Run a script in the page and return its result."""
        return self._do("/execute/sync", script=script, args=list(args))

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._do("/goog/cdp/execute", cmd=command, params=parameters)

    def press(self, *keys: str) -> None:
        """Press keys in sequence, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def click(self, selector: str) -> None:
        """Click an element, once it exists."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                element = self._do("/element", using="css selector", value=selector)
                self._do(f"/element/{element[_ELEMENT]}/click")
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
        """Set the colour scheme of the system to light or dark."""
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

    def console_messages(self) -> list[str]:
        """Return console messages since the last call."""
        return [entry["message"] for entry in self._do("/se/log", type="browser")]

    def requested_urls(self) -> list[str]:
        """Return requested_urls URLs since the last call."""
        events = [json.loads(entry["message"]) for entry in self._do("/se/log", type="performance")]
        return [
            event["message"]["params"]["request"]["url"]
            for event in events
            if event["message"]["method"] == "Network.requestWillBeSent"
        ]

    def quit(self) -> None:
        self._call("DELETE", self._session)


@contextmanager
def started_browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile in a folder, and stop it at the end of the block."""
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
    # chromedriver takes a free IPv4 port, and exits if the same IPv6 port is in use.
    for _attempt in range(10):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Browsers write into folders of the user, which tests must not change.
            env={**os.environ, "HOME": str(profile), "TMPDIR": str(profile)}
            | {name: str(profile) for name in _FOLDERS},
        )
        assert driver.stdout is not None
        output = []
        for line in driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return driver, match[1]
            output.append(line)
        driver.wait()
        driver.stdout.close()
    raise AssertionError("chromedriver does not start:\n" + "".join(output))
