"""Inputs of steps from registries. They are cached, because a digest identifies its content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.step_inputs import ArtifactRef, parse_input
from kanister_py.core.errors import KanisterError
from kanister_py.ports.clock import Clock
from kanister_py.ports.packages import Packages, RegistryLogin

_MOST_KEPT: Final = 64
_SPARED_SECONDS: Final = 10.0


class _CachedInput:
    """One input, or the error of the last attempt to read it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.input: Data | None = None
        self.error: KanisterError | None = None
        self.again_at = 0.0


class StepArtifacts:
    """Inputs of steps from registries; the most recently used ones are cached.

    Concurrent readers of the same input share one request. After a failure, no request is sent for
    some seconds and the error is raised again, since many resources may need the same input.
    """

    def __init__(
        self,
        packages: Packages,
        clock: Clock,
        logins: Callable[[ArtifactRef], Sequence[RegistryLogin]],
    ) -> None:
        self._packages = packages
        self._clock = clock
        self._logins = logins
        self._lock = Lock()
        self._kept: OrderedDict[ArtifactRef, _CachedInput] = OrderedDict()

    def read(self, ref: ArtifactRef) -> Data:
        with self._lock:
            kept = self._kept.setdefault(ref, _CachedInput())
            self._kept.move_to_end(ref)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        with kept.lock:
            if kept.input is not None:
                return kept.input
            if kept.error is not None and self._clock.monotonic() < kept.again_at:
                raise kept.error.with_traceback(None)
            try:
                text = self._packages.read_file(ref.package, ref.path, self._logins(ref))
                kept.input = parse_input(text, str(ref.package), ref.path)
            except KanisterError as error:
                kept.error, kept.again_at = error, self._clock.monotonic() + _SPARED_SECONDS
                raise
            return kept.input
