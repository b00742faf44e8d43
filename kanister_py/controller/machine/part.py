"""Parts of a controller: what each of them is handed, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kanister_py.controller.machine.events import Tell
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.core.errors import KanisterError
from kanister_py.executor.alarms import Alarms
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
    """What every part of a controller acts with: a cluster that refuses who does not lead."""

    cluster: Cluster
    clock: Clock
    alarms: Alarms
    tell: Tell
    on_error: Callable[[KanisterError], None]
    metrics: ControllerMetrics
    check_leadership: Callable[[], None]
    """Raises `LeadershipLost` once this process may not act any more."""


PartMaker = Callable[[PartTools], Part]
