"""Schedules for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

CREATED = datetime(2026, 11, 18, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    """Parse a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(name: str = "nightly", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Build a Schedule that runs the action `act` of the Blueprint `made-up` at two."""
    action = {
        "name": "act",
        "blueprint": "made-up",
        "object": {"kind": "Namespace", "name": namespace, "namespace": namespace},
    }
    return {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedule": "0 2 * * *",
            "template": {"spec": {"actions": [action]}},
            **spec,
        },
    }
