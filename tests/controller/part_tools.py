"""Services of a controller's parts, for tests of single parts."""

from __future__ import annotations

from typing import Any

from kanister_py.controller.functions.settings import FunctionTools
from kanister_py.controller.machine.events import PostEvent
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.executor.timers import TimerService
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


def part_tools(
    cluster: Cluster, clock: Clock, post_event: PostEvent = lambda *_event: None
) -> PartTools:
    return PartTools(
        cluster=cluster,
        clock=clock,
        timers=TimerService(clock),
        post_event=post_event,
        metrics=ControllerMetrics(),
        check_leadership=lambda: None,
    )


def function_tools(
    entries: Registry[FunctionEntry], packages: Any = None, certificates: Any = None
) -> FunctionTools:
    """Return the tools of functions, with a runner that is never called."""
    runner: Any = None
    return FunctionTools(runner, entries, packages, certificates)
