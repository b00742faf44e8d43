"""Contract of object stores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest

from kanister_py.ports.object_store import ObjectMissing, ObjectStore

MIB = 1024 * 1024

KEYS = (
    "a b",
    "time/2026-11-19T00:00:00Z",
    "plus+and&=",
    "percent%41",
    "question?mark",
    "hash#mark",
    "tilde~star*",
    "brackets[1]{2}",
    "ümläut/é",
    "dots/..three.dots",
)


def read(store: ObjectStore, key: str) -> bytes:
    return b"".join(store.get(key))


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(obj.key for obj in store.list(prefix))


class ObjectStoreContract:
    """Behaviour of every object store."""

    def test_stored_object_is_read_back(self, store: ObjectStore) -> None:
        assert store.put("folder/one", [b"hel", b"", b"lo"]) == 5
        assert read(store, "folder/one") == b"hello"
        assert store.head("folder/one").size == 5

    def test_an_object_may_be_empty(self, store: ObjectStore) -> None:
        assert store.put("empty", []) == 0
        assert read(store, "empty") == b""
        assert store.head("empty").size == 0

    def test_last_write_wins(self, store: ObjectStore) -> None:
        store.put("key", [b"first, and longer"])
        store.put("key", [b"second"])
        assert read(store, "key") == b"second"

    @pytest.mark.parametrize("key", KEYS)
    def test_key_may_contain_any_characters(self, store: ObjectStore, key: str) -> None:
        store.put(key, [b"x"])
        assert keys(store) == [key]
        assert read(store, key) == b"x"
        assert store.delete([key]) == 1
        assert keys(store) == []

    @pytest.mark.parametrize("size", [8 * MIB, 45 * MIB + 7], ids=["whole parts", "and a rest"])
    def test_large_object_is_read_back(self, store: ObjectStore, size: int) -> None:
        piece = os.urandom(MIB)
        written, read_back = hashlib.sha256(), hashlib.sha256()

        def pieces() -> Iterator[bytes]:
            for start in range(0, size, MIB):
                chunk = piece[: size - start]
                written.update(chunk)
                yield chunk

        assert store.put("long", pieces()) == size
        for chunk in store.get("long"):
            read_back.update(chunk)
        assert read_back.hexdigest() == written.hexdigest()
        assert store.head("long").size == size

    @pytest.mark.parametrize("before", [0, 1, 30], ids=["at once", "early", "late"])
    def test_failed_write_keeps_the_previous_object(self, store: ObjectStore, before: int) -> None:
        store.put("key", [b"old"])

        def breaking() -> Iterator[bytes]:
            for _ in range(before):
                yield bytes(MIB)
            raise ConnectionError("the source broke")

        with pytest.raises(ConnectionError):
            store.put("key", breaking())
        with pytest.raises(ConnectionError):
            store.put("another", breaking())
        assert read(store, "key") == b"old"
        assert keys(store) == ["key"]

    def test_list_matches_prefixes_of_keys(self, store: ObjectStore) -> None:
        names = ["loc/a", "loc/sub/b", "location2", "lo", "lob/c", "z"]
        for name in names:
            store.put(name, [b"x"])
        assert keys(store, "loc") == ["loc/a", "loc/sub/b", "location2"]
        assert keys(store, "loc/") == ["loc/a", "loc/sub/b"]
        assert keys(store, "loc/s") == ["loc/sub/b"]
        assert keys(store, "lo") == sorted(set(names) - {"z"})
        assert keys(store, "none") == []
        assert keys(store, "none/of/them") == []

    def test_list_reports_sizes(self, store: ObjectStore) -> None:
        store.put("a", [b"12345"])
        (stored,) = store.list("")
        assert (stored.key, stored.size) == ("a", 5)
        assert stored.modified.tzinfo is not None

    def test_list_is_not_limited_to_one_page(self, store: ObjectStore) -> None:
        for number in range(1203):
            store.put(f"many/{number:05}", [b"x"])
        assert len(keys(store, "many/")) == 1203
        assert store.delete(obj.key for obj in store.list("many/")) == 1203
        assert keys(store) == []

    def test_deleting_missing_objects_succeeds(self, store: ObjectStore) -> None:
        for name in ("a", "c"):
            store.put(name, [b"x"])
        store.delete(["a", "b", "c"])
        assert keys(store) == []

    def test_missing_object_is_named(self, store: ObjectStore) -> None:
        for read_it in (store.head, lambda key: list(store.get(key))):
            with pytest.raises(ObjectMissing) as caught:
                read_it("not/there")
            assert caught.value.key == "not/there"

    def test_check_of_an_existing_bucket_succeeds(self, store: ObjectStore) -> None:
        store.check()
