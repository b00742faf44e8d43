"""Receivers of notices: what takes them outside of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class NoticeReceivers(Protocol):
    """Receivers that notices may go to."""

    @property
    def origins(self) -> Sequence[str]:
        """Where notices may go: scheme, host and port of each place."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Bring one, within seconds, and give the HTTP status; TransientError if nobody answers.

        Another place that an answer points to is never followed.
        """
