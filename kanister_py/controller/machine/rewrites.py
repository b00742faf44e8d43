"""Rewrites in turn: two loops of this controller that undo each other's writes to an object.

Both are wrong about who decides: a bug, but one that would write for as long as the
process lives. So one of the two loops is stopped for a while, as log and event say.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, local
from typing import Any, Final, NamedTuple, cast

from kanister_py.controller.machine.events import WARNING, Tell, subject_of
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.core.errors import TransientError
from kanister_py.core.kube.parts import annotations_of, labels_of, namespace_of, status_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

_MOST_UNDONE: Final = 4
"""How many writes that undo the other loop's, one after the other, are no accident."""
_WINDOW_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 60.0
_OF_OBJECTS: Final = ("create", "replace", "replace_status", "apply")


class RewrittenInTurn(TransientError, reason="RewrittenInTurn"):
    """A loop may not write to an object for a while, as another one takes its writes back."""


class _Place(NamedTuple):
    """What of an object is written: its status, or all else."""

    resource: GroupVersionResource
    namespace: str
    name: str
    is_status: bool


class _Write(NamedTuple):
    loop: str
    state: Mapping[str, Any]


class _History(NamedTuple):
    """The latest writes of two loops, and how many in a row have undone the other's."""

    at: float
    latest: _Write
    before: _Write | None = None
    undone: int = 0


class RewriteGuard:
    """A cluster that refuses a loop's writes to an object once two loops rewrite it in turn."""

    def __init__(
        self, cluster: Cluster, clock: Clock, tell: Tell, metrics: ControllerMetrics
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._metrics = metrics
        self._acting = local()
        self._lock = Lock()
        self._histories: OrderedDict[_Place, _History] = OrderedDict()
        self._stopped: dict[tuple[_Place, str], tuple[float, str]] = {}

    def as_cluster(self) -> Cluster:
        """Give it as what it stands for."""
        return cast("Cluster", self)

    @contextmanager
    def acting(self, loop: str) -> Iterator[None]:
        """Hold what this thread writes for the writes of a loop."""
        self._acting.loop = loop
        try:
            yield
        finally:
            self._acting.loop = ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name in _OF_OBJECTS:
            found = self._guarded(found, self._place_of_object, is_status=name == "replace_status")
        elif name == "patch":
            found = self._guarded(found, _place_of_patch, is_status=False)
        self.__dict__[name] = found
        return found

    def _guarded(
        self, write: Callable[..., Any], place_of: Callable[..., _Place], *, is_status: bool
    ) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            loop = getattr(self._acting, "loop", "")
            if not loop or options.get("dry_run"):
                return write(*args, **options)
            place = place_of(*args, **options)
            if is_status or options.get("subresource") == "status":
                place = place._replace(is_status=True)
            self._check(place, loop)
            written = write(*args, **options)
            self._note(place, loop, written)
            return written

        return call

    def _place_of_object(self, obj: Mapping[str, Any], **_options: Any) -> _Place:
        resource = self._cluster.resource_for(obj["apiVersion"], obj["kind"]).gvr
        metadata = obj["metadata"]
        return _Place(resource, namespace_of(obj), str(metadata.get("name") or ""), is_status=False)

    def _check(self, place: _Place, loop: str) -> None:
        if not self._stopped:
            return
        with self._lock:
            until, message = self._stopped.get((place, loop), (0.0, ""))
            left = until - self._clock.monotonic()
            if message and left <= 0:
                del self._stopped[place, loop]
        if left > 0:
            raise RewrittenInTurn(message, left)

    def _note(self, place: _Place, loop: str, written: KubeObject) -> None:
        now = self._clock.monotonic()
        state = status_of(written) if place.is_status else _state_of(written)
        with self._lock:
            self._forget_old(now)
            history = self._histories.pop(place, None)
            if history is None:
                self._histories[place] = _History(now, _Write(loop, state))
                return
            other, before = history.latest, history.before
            if other.loop == loop:
                self._histories[place] = history._replace(at=now, latest=_Write(loop, state))
                return
            path = ""
            if before is not None and before.loop == loop:
                path = _undone_in(before.state, other.state, state)
            undone = history.undone + 1 if path else 0
            if undone < _MOST_UNDONE:
                self._histories[place] = _History(now, _Write(loop, state), other, undone)
                return
            message = _message_of(written, path.removeprefix("."), loop, other.loop)
            self._stopped[place, loop] = (now + _STOP_SECONDS, message)
        _LOG.error("%s", message)
        self._tell(subject_of(written), WARNING, RewrittenInTurn.reason, message)
        self._metrics.rewrites_stopped.labels(str(written.get("kind")), loop).inc()

    def _forget_old(self, now: float) -> None:
        while self._histories:
            place, oldest = next(iter(self._histories.items()))
            if oldest.at >= now - _WINDOW_SECONDS:
                return
            del self._histories[place]


def _place_of_patch(
    resource: GroupVersionResource, name: str, _patch: Any, *, namespace: str = "", **_options: Any
) -> _Place:
    return _Place(resource, namespace, name, is_status=False)


def _state_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Give what people and loops decide about an object, without what the cluster adds."""
    left_out = ("apiVersion", "kind", "metadata", "status")
    rest = {key: value for key, value in obj.items() if key not in left_out}
    return {**rest, "labels": labels_of(obj), "annotations": annotations_of(obj)}


def _undone_in(before: Any, between: Any, after: Any) -> str:
    """Say where a value is back that another write had changed; empty if nowhere."""
    if before == between:
        return ""
    if all(isinstance(each, Mapping) for each in (before, between, after)):
        for key in sorted({*before, *between}):
            found = _undone_in(before.get(key), between.get(key), after.get(key))
            if found:
                return f".{key}{found.rstrip('.')}"
        return ""
    return "." if before == after else ""


def _message_of(obj: Mapping[str, Any], path: str, stopped: str, other: str) -> str:
    return (
        f"{obj.get('kind')} {obj['metadata']['name']}: {path} is rewritten in turn by the loops "
        f"{other} and {stopped} of this controller; {stopped} leaves it alone for "
        f"{_STOP_SECONDS:.0f}s. This is a bug of the controller: say the same in both objects, "
        "and report it"
    )
