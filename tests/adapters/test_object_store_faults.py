"""A store that fails: either one clear error, or what was asked for; never less in silence."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.objects.locations import Location, StoreKind
from kanister_py.ports.object_store import ObjectStore
from kanister_py.wiring import object_stores
from tests.stores import Faults, faulty, running_store

MIB = 1024 * 1024
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
INTERNAL = b"<Error><Code>InternalError</Code><Message>We failed.</Message></Error>"
FULL = b"<Error><Code>QuotaExceeded</Code><Message>There is no room.</Message></Error>"


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture
def store(location: Location) -> ObjectStore:
    store = object_stores().open(location)
    store.delete(each.key for each in store.list(""))
    return store


@pytest.mark.parametrize(
    ("status", "body"),
    [pytest.param(503, SLOW_DOWN, id="slow down"), pytest.param(500, INTERNAL, id="internal")],
)
@pytest.mark.parametrize("size", [100, 20 * MIB], ids=["short", "long"])
def test_what_fails_for_a_moment_is_tried_again(
    location: Location, store: ObjectStore, status: int, body: bytes, size: int
) -> None:
    data = os.urandom(size)
    with faulty(location, Faults(status, body, times=2)) as failing:
        object_stores().open(failing).put("key", [data])
    with faulty(location, Faults(status, body, times=2)) as failing:
        assert b"".join(object_stores().open(failing).get("key")) == data
    with faulty(location, Faults(status, body, times=2)) as failing:
        other = object_stores().open(failing)
        assert other.delete(each.key for each in other.list("")) == 1
    assert list(store.list("")) == []


def test_what_fails_for_good_is_told_once_and_leaves_nothing(
    location: Location, store: ObjectStore
) -> None:
    with faulty(location, Faults(500, INTERNAL, times=10_000, method="PUT")) as failing:
        for size in (100, 20 * MIB):
            with pytest.raises(TransientError) as caught:
                object_stores().open(failing).put("key", [bytes(size)])
            assert caught.value.reason == "StoreUnavailable"
            assert "InternalError: We failed" in caught.value.message
    assert list(store.list("")) == []


def test_a_full_store_says_so(location: Location, store: ObjectStore) -> None:
    faults = Faults(403, FULL, times=10, method="PUT")
    with faulty(location, faults) as failing, pytest.raises(KanisterError) as caught:
        object_stores().open(failing).put("key", [b"x"])
    assert caught.value.reason == "StorageFull"
    assert list(store.list("")) == []


@pytest.mark.parametrize("size", [100, 20 * MIB], ids=["short", "long"])
def test_bytes_that_change_on_their_way_are_found_out(
    location: Location, store: ObjectStore, size: int
) -> None:
    store.put("key", [bytes(size)])
    faults = Faults(200, times=0, method="GET")
    faults.flips_bytes = True
    with faulty(location, faults) as failing, pytest.raises(KanisterError, match="has checksum"):
        list(object_stores().open(failing).get("key"))
