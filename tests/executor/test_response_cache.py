"""Response cache: keys, times to live, and no confusion of responses."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kanister_py.core.compositions.cache_keys import CacheKey
from kanister_py.core.compositions.messages import Data, FunctionResponse, Part
from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.pipeline import Observed
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.entries import FunctionRevision, RegistryBuilder
from kanister_py.executor.response_cache import MemoryStore, ResponseCache
from kanister_py.ports.function_runner import FunctionUnavailable, NoMetrics
from kanister_py.ports.response_store import StoredResponse
from tests.executor.stage import Stage, config_map, passes, xr
from tests.fake_clock import FakeClock


class Counted(NoMetrics):
    def __init__(self) -> None:
        self.cache: dict[str, float] = {}

    def count_cache(self, function: str, what: str, amount: float = 1) -> None:
        self.cache[what] = self.cache.get(what, 0) + amount


def lives(seconds: int, **more: Any) -> Any:
    return lambda request: passes(request, meta={"ttl": f"{seconds}s"}, **more)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(jumps=True)


def stage(clock: FakeClock, functions: Mapping[str, Any], **more: Any) -> Stage:
    cached_stage = Stage(
        functions, cache=ResponseCache(clock, metrics=more.pop("metrics", None)), **more
    )
    cached_stage.engine = cached_stage.engine._replace(clock=clock)
    return cached_stage


def test_an_equal_call_is_answered_from_the_cache(clock: FakeClock) -> None:
    metrics = Counted()
    at = stage(clock, {"a": lives(60)}, metrics=metrics)
    first = at.compose(*at.steps("a"))
    second = at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 1
    assert [first.outcomes[0].is_cached, second.outcomes[0].is_cached] == [False, True]
    assert {"misses": 1, "writes": 1, "hits": 1}.items() <= metrics.cache.items()
    assert metrics.cache["bytes_written"] > 0
    assert not {"errors", "deletes"} & set(metrics.cache)


def test_a_cached_response_expires_and_reports_its_remaining_time(
    clock: FakeClock,
) -> None:
    at = stage(clock, {"a": lives(60)})
    at.compose(*at.steps("a"))
    clock.advance(45)
    assert at.compose(*at.steps("a")).ttl_seconds == pytest.approx(15)
    clock.advance(15)
    at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 2


@pytest.mark.parametrize(
    ("ttl", "says", "calls"),
    [
        pytest.param(None, 0, 2, id="neither says anything"),
        pytest.param(60.0, 0, 1, id="the step says it may be kept"),
        pytest.param(0.0, 60, 2, id="the step says it may not"),
    ],
)
def test_a_step_overrides_the_time_to_live(
    clock: FakeClock, ttl: float | None, says: int, calls: int
) -> None:
    at = stage(clock, {"a": lives(says)})
    for _ in range(2):
        at.compose(Step("a", "a", ttl_seconds=ttl))
    assert len(at.runner.calls) == calls


def test_server_side_metadata_does_not_change_the_key(clock: FakeClock) -> None:
    at = stage(clock, {"a": lives(60)})
    for version in ("1", "2"):
        own = {"resourceVersion": version, "managedFields": [{"time": version}]}
        seen = config_map(name="c", **own)
        metadata = {"name": "shop", "uid": "u", **own}
        at.compose(*at.steps("a"), observed=Observed(xr(metadata=metadata), {"c": seen}))
    assert len(at.runner.calls) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec": {"region": "us"}}, id="another spec"),
        pytest.param({"metadata": {"name": "other", "uid": "u"}}, id="another name"),
    ],
)
def test_other_changes_of_the_request_change_the_key(clock: FakeClock, change: Data) -> None:
    at = stage(clock, {"a": lives(60)})
    base = {"metadata": {"name": "shop", "uid": "u"}}
    at.compose(*at.steps("a"), observed=Observed(xr(**base)))
    at.compose(*at.steps("a"), observed=Observed(xr(**{**base, **change})))
    assert len(at.runner.calls) == 2


def test_a_new_revision_does_not_use_responses_of_the_old_one(clock: FakeClock) -> None:
    at = stage(clock, {"f": lives(60)})
    for digest in ("sha256:1", "sha256:2"):
        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        revision = FunctionRevision("f", "f-1", 1, is_healthy=True, endpoint="x", digest=digest)
        builder.add([revision])
        at.engine = at.engine._replace(revisions=builder.build())
        at.compose(*at.steps("f"))
    assert len(at.runner.calls) == 2


def test_a_fatal_response_is_not_cached(clock: FakeClock) -> None:
    fatal = [{"severity": "SEVERITY_FATAL", "message": "no"}]
    at = stage(clock, {"a": lives(60, results=fatal)})
    for _ in range(2):
        at.compose(Step("a", "a", ttl_seconds=60))
    assert len(at.runner.calls) == 2


def test_a_response_with_unmet_requirements_is_not_cached(clock: FakeClock) -> None:
    def restless(request: Data) -> Data:
        selector = {"apiVersion": "v1", "kind": "X", "matchName": str(len(at.runner.calls))}
        return passes(request, meta={"ttl": "60s"}, requirements={"resources": {"r": selector}})

    at = stage(clock, {"a": restless})
    for _ in range(2):
        assert at.compose(*at.steps("a")).error is not None
    assert len(at.runner.calls) == 12


SELECTOR = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "c", "namespace": "n"}


def test_a_response_is_only_used_with_the_same_required_resources(clock: FakeClock) -> None:
    asks = lives(60, requirements={"resources": {"c": SELECTOR}})
    seen = config_map(name="c", namespace="n")
    at = stage(clock, {"a": asks}, objects=[seen])
    at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 2
    at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 2, "nothing has changed"
    seen["data"] = {"a": "something else"}
    at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 3, "the last requirements were fetched before the first call"
    at.compose(*at.steps("a"))
    assert len(at.runner.calls) == 3


def test_two_hundred_concurrent_equal_calls_become_one() -> None:
    began = threading.Event()
    go_on = threading.Event()
    clock = FakeClock()

    def slow(request: Data) -> Data:
        began.set()
        assert go_on.wait(30)
        return passes(request, meta={"ttl": "60s"})

    at = stage(clock, {"a": slow})
    with ThreadPoolExecutor(50) as pool:
        running = [pool.submit(at.compose, *at.steps("a")) for _ in range(200)]
        assert began.wait(30)
        go_on.set()
        assert all(future.result().error is None for future in running)
    assert len(at.runner.calls) == 1


def test_a_caller_calls_itself_after_an_equal_call_fails(clock: FakeClock) -> None:
    errors: list[KanisterError] = [FunctionUnavailable("a", "a", "a-1", "gone")]

    def first_fails(request: Data) -> Data:
        if len(at.runner.calls) <= 4:
            raise errors[0]
        return passes(request, meta={"ttl": "60s"})

    at = stage(clock, {"a": first_fails})
    assert at.compose(*at.steps("a")).error is not None
    assert at.compose(*at.steps("a")).error is None


class TestMemory:
    def kept(self, size: int) -> StoredResponse:
        return StoredResponse(FunctionResponse(desired=Part({"x": "y" * size})), 0.0)

    def test_the_least_recently_used_response_is_removed_first(self) -> None:
        store = MemoryStore(most_bytes=8000)
        keys = [CacheKey("f", str(number)) for number in range(3)]
        for key in keys[:2]:
            store.write(key, self.kept(400))
        store.read(keys[0])
        written = store.write(keys[2], self.kept(400))
        assert (written.deleted, written.deleted_bytes) == (1, written.bytes)
        assert [store.read(key) is not None for key in keys] == [True, False, True]

    def test_a_response_larger_than_the_store_is_not_cached(self) -> None:
        store = MemoryStore(most_bytes=1000)
        key = CacheKey("f", "1")
        assert store.write(key, self.kept(10)).bytes > 0
        assert store.write(key, self.kept(400)).bytes == 0
        assert store.read(key) is None
        assert len(store) == 0
