"""A controller that is killed repeatedly, at any of its writes, with active runs.

Some of the runs never end by themselves, and are cancelled or deleted at any moment.

KANISTER_PY_CONTROLLER_KILLS is the number of kills; `.ci/run --all` uses 1,000. The counts are
printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import ACTION_SETS, CONFIG_MAPS, PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Counted,
    Environment,
    Mortal,
    actionset,
    blueprint,
    definitions,
    phase,
)

KILLS = int(os.environ.get("KANISTER_PY_CONTROLLER_KILLS") or 40)
AT_ONCE = 6
# Terms that are long enough for a busy machine.
TERMS = LeaseTerms(600.0, 500.0, 0.5)
PARTS = ("first", "second", "tidy")


def once(part: str) -> dict[str, Any]:
    return phase("Once", part, args={"name": "{{ .Options.run }}-" + part})


ADOPTS = blueprint(once("first"), once("second"), deferred=once("tidy"), name="adopts")
COUNTS = blueprint(phase("Counted"), deferred=once("tidy"), name="counts")
STAYS = blueprint(phase("Stays"), deferred=once("tidy"), name="stays")
KINDS = ("adopts", "adopts", "counts", "stays")
WANTED_PARTS = {"adopts": PARTS, "counts": ("tidy",), "stays": ()}
"""The parts that every run of a kind creates, unless it was cancelled before it started."""


class Kills:
    """A cluster with runs, and counts of their effects."""

    def __init__(self, choose: random.Random) -> None:
        clock = SystemClock()
        self.env = Environment(MemoryCluster(clock=clock), clock)
        self.env.create(*definitions(), ADOPTS, COUNTS, STAYS)
        self.kills = self.made = self.stopped = 0
        self._choose = choose
        self._staying: list[str] = []
        self._open: list[str] = []

    def fill_up(self) -> None:
        """Create runs of all kinds until enough are active."""
        while len(self.under_way()) < AT_ONCE:
            name = f"r{self.made}"
            kind = KINDS[self.made % len(KINDS)]
            if kind == "stays":
                self._staying.append(name)
            action = {"options": {"run": name}}
            self.env.create(actionset(name, blueprint=kind, action=action))
            self._open.append(name)
            self.made += 1

    def stop_some(self, share: float) -> None:
        """Cancel or delete some of the runs that would never end."""
        for name in [*self._staying]:
            if self._choose.random() >= share:
                continue
            self._staying.remove(name)
            self.stopped += 1
            if self._choose.random() < 0.5:
                cancel: dict[str, Any] = {"spec": {"cancel": True}}
                self.env.cluster.patch(ACTION_SETS, name, cancel, namespace="default")
            else:
                self.env.cluster.delete(ACTION_SETS, name, namespace="default")

    def states(self) -> dict[str, str]:
        actionsets = self.env.cluster.list(ACTION_SETS).items
        return {
            obj["metadata"]["name"]: (obj.get("status") or {}).get("state", "")
            for obj in actionsets
        }

    def under_way(self) -> list[str]:
        """Return the names of the runs that have not ended."""
        for name in [*self._open]:
            if self._has_ended(name):
                self._open.remove(name)
        return self._open

    def _has_ended(self, name: str) -> bool:
        try:
            stored = self.env.get(name)
        except NotFound:
            return True
        return (stored.get("status") or {}).get("state") in ("complete", "failed")

    def kill_at(self, writes: int, *, is_lost: bool) -> None:
        """Run a controller until a number of writes, of which the last one may be lost."""
        mortal = Mortal(self.env.cluster, writes, before=is_lost)
        controller = self.env.controller(mortal, identity="one-pod", terms=TERMS)
        until = time.monotonic() + PATIENCE_SECONDS
        while not mortal.died.wait(0.002) and self.under_way():
            assert time.monotonic() < until, self.under_way()
            self.stop_some(0.05)
        controller.kill()
        self.env.controllers.remove(controller)
        self.kills += mortal.died.is_set()

    def settle(self) -> None:
        """Run a controller until all runs have ended."""
        self.stop_some(1.0)
        controller = self.env.controller(identity="one-pod", terms=TERMS)
        until = time.monotonic() + PATIENCE_SECONDS
        while (self.under_way() or self.pods()) and time.monotonic() < until:
            time.sleep(0.01)
        controller.kill()

    def pods(self) -> list[Any]:
        return self.env.cluster.list(PODS).items

    def table(self) -> dict[str, int]:
        """Count runs, effects, and errors such as lost or repeated effects."""
        states = self.states()
        maps = self.env.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items
        effects = Counter(obj["metadata"]["name"].rpartition("-")[0] for obj in maps)
        expected = {
            f"r{number}-{part}"
            for number in range(self.made)
            for part in WANTED_PARTS[KINDS[number % len(KINDS)]]
        }
        calls = Counter(Counted.calls)
        return {
            "kills": self.kills,
            "runs": self.made,
            "stopped": self.stopped,
            "effects": effects.total() + calls.total(),
            "lost": len(expected - set(effects)),
            "doubled": sum(count > 1 for count in (*effects.values(), *calls.values())),
            "stuck": sum(state not in ("complete", "failed") for state in states.values()),
            "pods": len(self.pods()),
        }


def test_no_effect_is_lost_or_repeated_when_the_controller_is_killed_repeatedly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    choose = random.Random(20261119)
    Counted.calls.clear()
    kills = Kills(choose)
    try:
        while kills.kills < KILLS:
            kills.fill_up()
            kills.stop_some(0.3)
            kills.kill_at(choose.randint(1, 40), is_lost=choose.random() < 0.5)
        kills.settle()
        table = kills.table()
    finally:
        kills.env.close()
        Counted.calls.clear()
    with capsys.disabled():
        print("\n" + ", ".join(f"{count} {what}" for what, count in table.items()))
    assert table["kills"] >= KILLS
    assert table["stopped"] > 0
    assert (table["lost"], table["doubled"], table["stuck"], table["pods"]) == (0, 0, 0, 0)
