"""Timestamps in Kubernetes' format."""

from __future__ import annotations

from datetime import datetime


def timestamp(time: datetime) -> str:
    """Format a time in UTC, with a precision of one second."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
