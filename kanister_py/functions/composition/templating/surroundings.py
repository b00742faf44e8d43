"""What do templates see of the world? The time, chance and time zones, and nothing else."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from kanister_py.gotemplate import Effects, GoError
from kanister_py.gotemplate.times import Location, Time, from_datetime, zone_of


def _now() -> Time:
    # A function of a composition is handed a request and no clock: it may run in a
    # container of its own.
    return from_datetime(datetime.now(UTC))  # noqa: TID251 - as said


def _zone(name: str) -> Location:
    from zoneinfo import ZoneInfo  # few templates name a zone

    try:
        return zone_of(name, ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise GoError(f"unknown time zone {name}") from None


EFFECTS = Effects(now=_now, load_zone=_zone, random_bytes=os.urandom)
