"""Effects of templates in real runs: time, randomness and time zones."""

from __future__ import annotations

import os
from zoneinfo import ZoneInfo

from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.times import UTC, Location, from_datetime, zone_of
from kanister_py.limited_calls import execute_template
from kanister_py.ports.clock import Clock


def system_effects(clock: Clock) -> Effects:
    """Return effects with a clock, real randomness and the time zones of the machine.

    Times are in UTC on every machine, as in Kanister's container, so that a blueprint has the same
    result on a laptop and in a cluster.
    """
    return Effects(
        now=lambda: from_datetime(clock.now()),
        zone=UTC,
        load_zone=load_zone,
        random_bytes=os.urandom,
        run_in_process=execute_template,
    )


def load_zone(name: str) -> Location:
    """Return a time zone by its IANA name."""
    try:
        return zone_of(name, ZoneInfo(name))
    # Names of folders and of files that are not time zones raise one of the last two.
    except (KeyError, ValueError, OSError):
        raise GoError(f"unknown time zone {name}") from None
