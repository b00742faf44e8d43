"""One entry of the table of reasons."""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """A CamelCase reason as users meet it in an error, a condition or an event."""

    name: str
    meaning: str
    fix: str = "Nothing to do."


class ReasonGroup(NamedTuple):
    """Reasons that appear in the same place, under one heading of the troubleshooting page."""

    heading: str
    introduction: str
    reasons: tuple[Reason, ...]
