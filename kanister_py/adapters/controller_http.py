"""Output lines of phases, from a controller over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import urllib3

from kanister_py.core.errors import UsageError
from kanister_py.ports.phase_lines import PrintedLine

_SECONDS: Final = 30.0


class LinesOverHttp:
    """Output lines of phases, from the endpoint of a controller.

    `ca_file` contains the CA certificates to trust. By default, the system's are used.
    """

    def __init__(self, server: str, token: str = "", ca_file: str = "") -> None:
        self._server = server.rstrip("/")
        self._token = token
        self._ca_file = ca_file or None
        self._after = 0

    def new_lines(self, actionset: Mapping[str, Any]) -> Iterator[PrintedLine]:
        metadata = actionset["metadata"]
        path = "/".join(
            quote(str(segment), safe="")
            for segment in ("namespaces", metadata["namespace"], "actionsets", metadata["name"])
        )
        for line in self._ask(f"{self._server}/v1/{path}/lines?after={self._after}"):
            self._after = max(self._after, int(line["number"]))
            yield PrintedLine(
                str(line["time"]),
                str(line["action"]),
                str(line["phase"]),
                str(line["line"]),
                str(line["function"]),
                str(line["version"]),
                int(line["attempt"]),
            )

    def _ask(self, url: str) -> list[Mapping[str, Any]]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with urllib3.PoolManager(retries=2, ca_certs=self._ca_file) as pools:
                answer = pools.request("GET", url, headers=headers, timeout=_SECONDS)
        except urllib3.exceptions.HTTPError as error:
            raise UsageError(
                f"No connection to {self._server}: {error}; is the controller running?",
                reason="PhaseLinesUnavailable",
            ) from error
        if answer.status != 200:
            why = f"{self._server} returned {answer.status} {_detail(answer.data)}".rstrip()
            hint = "give --token-file" if answer.status in (401, 403) else "check its log"
            raise UsageError(f"{why}; {hint}", reason="PhaseLinesUnavailable")
        lines: list[Mapping[str, Any]] = json.loads(answer.data)["lines"]
        return lines


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body).get("detail", ""))
    except (ValueError, AttributeError):
        return ""
