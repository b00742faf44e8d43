"""Object stores with faults: an operation succeeds or fails with one clear error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.ports.object_store import ObjectStore
from kanister_py.wiring import object_stores
from tests.faulty_stores import ALWAYS, Fault, Faults, faulty
from tests.hostile_server import Request, hostile_server
from tests.stores import running_store

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture
def store(location: Location) -> ObjectStore:
    store = object_stores().open(location)
    store.delete(obj.key for obj in store.list(""))
    return store


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.INTERNAL])
@pytest.mark.parametrize("size", [100, 20 * MIB], ids=["short", "long"])
def test_transient_faults_are_retried(
    location: Location, store: ObjectStore, fault: Fault, size: int
) -> None:
    data = os.urandom(size)
    with faulty(location, Faults(fault, times=2)) as failing:
        object_stores().open(failing).put("key", [data])
    with faulty(location, Faults(fault, times=2)) as failing:
        assert b"".join(object_stores().open(failing).get("key")) == data
    with faulty(location, Faults(fault, times=2)) as failing:
        other = object_stores().open(failing)
        assert other.delete(obj.key for obj in other.list("")) == 1
    assert list(store.list("")) == []


@pytest.mark.parametrize("kind", [StoreKind.S3, StoreKind.AZURE])
def test_batch_delete_continues_after_a_connection_reset(kind: StoreKind, tmp_path: Path) -> None:
    with running_store(kind, tmp_path) as location:
        store = object_stores().open(location)
        for key in "abc":
            store.put(key, [b"x"])
        faults = Faults(Fault.LOST, times=1, pattern="POST")
        with faulty(location, faults) as failing:
            assert object_stores().open(failing).delete(["a", "b", "c"]) == 3
        assert faults.injected["POST"] == 1
        assert list(store.list("")) == []


def test_permanent_fault_is_one_error_and_leaves_nothing(
    location: Location, store: ObjectStore
) -> None:
    with faulty(location, Faults(Fault.INTERNAL, times=ALWAYS, pattern="PUT")) as failing:
        for size in (100, 20 * MIB):
            with pytest.raises(TransientError) as caught:
                object_stores().open(failing).put("key", [bytes(size)])
            assert caught.value.reason == "StoreUnavailable"
            assert "InternalError: We failed" in caught.value.message
    assert list(store.list("")) == []


def test_full_store_has_its_own_reason(location: Location, store: ObjectStore) -> None:
    faults = Faults(Fault.FULL, times=ALWAYS, pattern="PUT")
    with faulty(location, faults) as failing, pytest.raises(KanisterError) as caught:
        object_stores().open(failing).put("key", [b"x"])
    assert caught.value.reason == "StorageFull"
    assert list(store.list("")) == []


@pytest.mark.parametrize("size", [100, 20 * MIB], ids=["short", "long"])
def test_corrupted_transfer_is_detected(location: Location, store: ObjectStore, size: int) -> None:
    store.put("key", [bytes(size)])
    faults = Faults(Fault.FLIPPED, times=1)
    with faulty(location, faults) as failing, pytest.raises(KanisterError, match="has checksum"):
        list(object_stores().open(failing).get("key"))


@pytest.mark.parametrize("status", ["403 Forbidden", "200 OK"])
def test_endless_response_is_limited(location: Location, status: str) -> None:
    sent = 0

    def endless(_: Request) -> Iterator[bytes]:
        nonlocal sent
        yield f"HTTP/1.1 {status}\r\n\r\n<Code>".encode()
        while True:
            yield b" " * MIB
            sent += 1

    with hostile_server(endless) as server:
        hostile = location._replace(endpoint=f"http://{server.address}")
        with pytest.raises(KanisterError) as caught:
            object_stores().open(hostile).put("key", [b"x"])
    assert caught.value.reason in {"AccessDenied", "StoreRefused"}
    assert len(caught.value.message) < 1000
    assert sent < 64
