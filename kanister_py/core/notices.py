"""What the core says instead of logging: made once, handed on at one place per surface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class Severity(StrEnum):
    """How loudly a surface should say it."""

    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing worth saying, with its reason for machines and its facts as fields.

    `facts` holds what the message says (`removedIn`, `replacement`), so that no
    surface has to read prose. Nothing in here may be secret.
    """

    reason: str
    message: str
    severity: Severity = Severity.WARNING
    function: str = ""
    version: str = ""
    facts: Mapping[str, str] = field(default_factory=_nothing)

    def as_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"reason": self.reason, "severity": str(self.severity)}
        if self.function:
            data["function"] = self.function
        if self.version:
            data["version"] = self.version
        data.update(self.facts)
        data["message"] = self.message
        return data
