"""Timestamps as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def timestamp(time: datetime) -> str:
    """Write a moment in UTC, to the second."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
