"""Parts of a controller, and the services that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kanister_py.controller.machine.events import PostEvent
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.executor.timers import TimerService
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster


class Part(Protocol):
    """Component of the controller. It is started when the process becomes the leader."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    @property
    def is_settled(self) -> bool:
        """Whether all existing objects were reconciled, and nothing is in progress."""

    @property
    def trouble(self) -> str:
        """Why it is not ready or not up to date; empty if it is."""


class PartTools(NamedTuple):
    """Services that all parts share. `cluster` refuses requests once leadership is lost."""

    cluster: Cluster
    clock: Clock
    timers: TimerService
    post_event: PostEvent
    metrics: ControllerMetrics
    check_leadership: Callable[[], None]
    """Raises `LeadershipLost` once this process is no longer the leader."""


PartMaker = Callable[[PartTools], Part]
