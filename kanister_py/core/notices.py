"""Notices: made in the core instead of logging, handed on at one place per surface."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Severity(StrEnum):
    """Severity of a notice: how loudly a surface shows it."""

    INFO = "info"
    WARNING = "warning"


class Notice(NamedTuple):
    """One thing worth saying, with its reason for machines and its facts as fields.

    `facts` holds what the message says (`removedIn`, `replacement`), so that no
    surface has to read prose. Nothing in here may be secret.
    """

    reason: str
    message: str
    severity: Severity = Severity.WARNING
    function: str = ""
    version: str = ""
    facts: Mapping[str, str] = _NOTHING

    def as_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"reason": self.reason, "severity": str(self.severity)}
        if self.function:
            data["function"] = self.function
        if self.version:
            data["version"] = self.version
        data.update(self.facts)
        data["message"] = self.message
        return data
