"""Response cache: reuses responses of functions until their TTL ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from json import dumps
from typing import Any, NamedTuple

from kanister_py.core.compositions.cache_keys import (
    CacheKey,
    Digests,
    cache_seconds,
    is_storable,
    tag_of,
)
from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.requirements import requirements_of, with_fetched
from kanister_py.core.errors import KanisterError
from kanister_py.executor.requirements_loop import Settled, fetch
from kanister_py.ports.clock import Clock
from kanister_py.ports.function_runner import FunctionCall, FunctionMetrics, NoMetrics
from kanister_py.ports.requirement_source import RequirementSource
from kanister_py.ports.response_store import ResponseStore, StoredResponse, WriteResult
from kanister_py.weighted_cache import WeightedCache

DEFAULT_BYTES = 64 << 20
_REQUIREMENTS_BYTES = 16 << 20
_SWEEP_SECONDS = 10.0
"""Interval for removing expired responses."""


class MemoryStore:
    """Responses in memory, up to a number of bytes; the least recently used are removed first."""

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        self._responses: WeightedCache[CacheKey, StoredResponse] = WeightedCache(most_bytes)
        self._most_bytes = most_bytes

    def read(self, key: CacheKey) -> StoredResponse | None:
        stored = self._responses.get(key)
        # Return a copy. If the caller decodes it, the decoded data is not kept in the cache, whose
        # limit only counts the encoded bytes.
        return stored and stored._replace(response=_compact(stored.response))

    def write(self, key: CacheKey, stored: StoredResponse) -> WriteResult:
        size = _memory_of(stored.response)
        dropped = self._responses.put(
            key, stored._replace(response=_compact(stored.response)), size
        )
        if size > self._most_bytes:
            return WriteResult()
        return WriteResult(size, len(dropped), sum(dropped))

    def drop_expired(self, now: float) -> None:
        self._responses.discard_all(lambda stored: stored.deadline <= now)

    def __len__(self) -> int:
        return len(self._responses)


def _compact(response: FunctionResponse) -> FunctionResponse:
    return response._replace(desired=response.desired.compact(), context=response.context.compact())


def _memory_of(response: FunctionResponse) -> int:
    """Estimate the memory of a response whose parts are compact."""
    size = 0
    objects: list[Any] = [response.results, response.conditions]
    objects += [response.requirements, response.output]
    for part in (response.desired, response.context):
        received = part.as_received
        if received is None:
            objects.append(part.data)
        else:
            size += len(received)
    return size + memory_of_data(objects)


def memory_of_data(data: Any) -> int:
    """Estimate the memory of data: objects take about eight times the size of their JSON."""
    return 8 * len(dumps(data, default=str))


class ResponseCache:
    """Cache for the steps of all pipelines: stores, last requirements, calls in progress."""

    def __init__(
        self,
        clock: Clock,
        disk: ResponseStore | None = None,
        metrics: FunctionMetrics | None = None,
    ) -> None:
        self.memory = MemoryStore()
        self.disk = disk
        self.metrics = metrics or NoMetrics()
        self._clock = clock
        self._lock = threading.Lock()
        self._in_progress: dict[CacheKey, threading.Event] = {}
        self._requirements: WeightedCache[CacheKey, Data] = WeightedCache(_REQUIREMENTS_BYTES)
        self._last_sweep = 0.0

    def read(self, key: CacheKey, function: str, *, is_public: bool) -> FunctionResponse | None:
        """Return a cached response that has not expired, with its remaining time to live."""
        began, now = self._clock.monotonic(), self._clock.now().timestamp()
        if began - self._last_sweep >= _SWEEP_SECONDS:
            self._last_sweep = began
            self.memory.drop_expired(now)
        try:
            for store in self._stores(is_public):
                stored = store.read(key)
                if stored is not None and stored.deadline > now:
                    if store is self.disk:
                        self.memory.write(key, stored)
                    return stored.response._replace(calls=0, ttl_seconds=stored.deadline - now)
            return None
        finally:
            seconds = self._clock.monotonic() - began
            self.metrics.count_cache(function, "read_seconds", seconds)

    def _stores(self, is_public: bool) -> list[ResponseStore]:
        return [self.memory, *([self.disk] if self.disk is not None and is_public else [])]

    def write(
        self,
        key: CacheKey,
        function: str,
        response: FunctionResponse,
        seconds: float,
        *,
        is_public: bool,
    ) -> None:
        """Store a response for this time; on disk only if `is_public`."""
        began = self._clock.monotonic()
        stored = StoredResponse(response, self._clock.now().timestamp() + seconds)
        for store in self._stores(is_public):
            written = store.write(key, stored)
            counts = {
                "writes" if written.bytes else "errors": 1,
                "bytes_written": written.bytes,
                "deletes": written.deleted,
                "bytes_deleted": written.deleted_bytes,
            }
            for name, amount in counts.items():
                if amount:
                    self.metrics.count_cache(function, name, amount)
        self.metrics.count_cache(function, "write_seconds", self._clock.monotonic() - began)

    def last_requirements(self, key: CacheKey) -> Data | None:
        return self._requirements.get(key)

    def store_requirements(self, key: CacheKey, requirements: Data | None) -> None:
        if requirements is None:
            self._requirements.discard(key)
        else:
            self._requirements.put(key, requirements, memory_of_data(requirements))

    def once(
        self,
        key: CacheKey,
        read: Callable[[], FunctionResponse | None],
        call: Callable[[], FunctionResponse],
    ) -> FunctionResponse:
        """Make a call, or wait for an equal call that is in progress and read its result."""
        while True:
            with self._lock:
                ended = self._in_progress.get(key)
                if ended is None:
                    ended = self._in_progress[key] = threading.Event()
                    break
            ended.wait()
            response = read()
            if response is not None:
                return response
            # The other call stored no response, so this caller makes the call itself.
        try:
            # The response may have been stored in the meantime.
            return read() or call()
        finally:
            with self._lock:
                del self._in_progress[key]
            ended.set()


class CachedStep(NamedTuple):
    """A step that uses the cache before calling its function.

    The resources that the function required last time for the same request are fetched first, and
    are part of the cache key. A cached response is therefore not used after they have changed.
    """

    settle: Callable[[FunctionCall], Settled]
    step: Step
    source: RequirementSource
    cache: ResponseCache
    digests: Digests

    def run(self, call: FunctionCall) -> FunctionResponse:
        if self.step.ttl_seconds == 0:
            return self.settle(call).response
        base = CacheKey.of(call.revision, call.request.tag)
        request = self._with_last_requirements(base, call.request)
        key = base._replace(tag=request.tag)
        function = call.revision.function
        is_public = not request.credentials

        def read() -> FunctionResponse | None:
            return self.cache.read(key, function, is_public=is_public)

        response = read()
        if response is not None:
            self.cache.metrics.count_cache(function, "hits")
            return response
        self.cache.metrics.count_cache(function, "misses")
        return self.cache.once(key, read, lambda: self._call(call._replace(request=request), base))

    def _with_last_requirements(self, base: CacheKey, request: FunctionRequest) -> FunctionRequest:
        requirements = self.cache.last_requirements(base)
        if requirements is None:
            return request
        try:
            fetched = fetch(requirements, self.source)
        except KanisterError:
            # The function decides whether it still needs these resources.
            return request
        full = with_fetched(request, request, fetched)
        return full._replace(tag=tag_of(full, self.digests))

    def _call(self, call: FunctionCall, base: CacheKey) -> FunctionResponse:
        settled = self.settle(call)
        self.cache.store_requirements(base, requirements_of(settled.response))
        seconds = cache_seconds(settled.response, self.step.ttl_seconds)
        if seconds > 0:
            self._store_response(call, base, settled, seconds)
        return settled.response

    def _store_response(
        self, call: FunctionCall, base: CacheKey, settled: Settled, seconds: float
    ) -> None:
        # Use the key of the next equal call, which has the context from before the first round.
        next_request = settled.request._replace(context=call.request.context)
        tag = (
            call.request.tag if next_request == call.request else tag_of(next_request, self.digests)
        )
        is_public = is_storable(next_request, settled.response)
        self.cache.write(
            base._replace(tag=tag),
            call.revision.function,
            settled.response,
            seconds,
            is_public=is_public,
        )
