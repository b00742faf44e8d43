"""Notices: messages that the core returns instead of logging them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

_NO_FACTS: Mapping[str, str] = MappingProxyType({})


class Severity(StrEnum):
    """Severity of a notice."""

    INFO = "info"
    WARNING = "warning"


class Notice(NamedTuple):
    """A message with a machine-readable reason.

    `facts` has the details of the message (`removedIn`, `replacement`), so that callers do
    not have to parse it. A notice must not contain secrets.
    """

    reason: str
    message: str
    severity: Severity = Severity.WARNING
    function: str = ""
    version: str = ""
    facts: Mapping[str, str] = _NO_FACTS

    def as_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"reason": self.reason, "severity": str(self.severity)}
        if self.function:
            data["function"] = self.function
        if self.version:
            data["version"] = self.version
        data.update(self.facts)
        data["message"] = self.message
        return data
