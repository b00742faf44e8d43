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
    """Something that acts for as long as the controller leads."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    @property
    def is_settled(self) -> bool:
        """Whether all that was there has been looked at, and nothing is under way."""

    @property
    def trouble(self) -> str:
        """What keeps it from being up to date; empty if nothing does."""


class PartTools(NamedTuple):
    """Services that all parts share. `cluster` refuses requests once leadership is lost."""

    cluster: Cluster
    clock: Clock
    timers: TimerService
    post_event: PostEvent
    metrics: ControllerMetrics
    check_leadership: Callable[[], None]
    """Raises `LeadershipLost` once this process may not act any more."""


PartMaker = Callable[[PartTools], Part]
