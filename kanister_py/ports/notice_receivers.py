"""Receivers of notices outside the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class NoticeReceivers(Protocol):
    """Receivers to which notices may be sent."""

    @property
    def origins(self) -> Sequence[str]:
        """Allowed receivers, as scheme, host and port."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a notice within a few seconds, and return the HTTP status.

        Raises TransientError if there is no response. Redirects are never followed.
        """
