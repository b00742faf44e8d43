"""List of function revisions on a cluster, as the controller reports it."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.controller_endpoint import sources_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.install_definitions import read_definitions
from kanister_py.wiring import read_functions
from tests.cli.revision_objects import function_revision
from tests.fake_clock import FakeClock


def test_revisions_are_read_soon_after_the_start_with_compositions_enabled() -> None:
    clock = FakeClock()
    cluster = MemoryCluster(clock=SystemClock())
    for definition in read_definitions("compositions"):
        cluster.create(definition)
    cluster.load([function_revision(1, "Active", channel="stable", serves=True)])
    with ExitStack() as stack:
        seen = sources_of(cluster, clock, read_functions(), (), stack, has_revisions=True)
        without = sources_of(cluster, clock, read_functions(), (), stack)
        assert seen.revisions() is None
        assert clock.wait_for_sleepers(3)
        clock.advance(5.0)
        end = time.monotonic() + 60.0
        pause = threading.Event()
        while seen.revisions() is None and time.monotonic() < end:
            pause.wait(0.01)
        revision = seen.revisions()
        assert revision is not None
        assert [(entry["name"], entry["state"]) for entry in revision] == [
            ("templates-1", "routable")
        ]
        assert without.revisions() is None
