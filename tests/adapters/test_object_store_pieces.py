"""Chunks of uploads: sizes of parts, and checksums."""

from __future__ import annotations

import hashlib

import pytest

from kanister_py.adapters.object_store_pieces import (
    Checksum,
    part_bytes,
    resize_chunks,
    tag_of_parts,
)
from kanister_py.core.errors import UsageError

MOST_PARTS = 10_000


def test_terabyte_fits_into_the_parts_of_s3() -> None:
    assert sum(map(part_bytes, range(MOST_PARTS))) > 2**40


def test_two_gibibytes_are_uploaded_in_small_parts() -> None:
    assert {part_bytes(number) for number in range(256)} == {8 * 2**20}


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        pytest.param([], [b""], id="nothing"),
        pytest.param([b"ab"], [b"ab"], id="one that is short"),
        pytest.param([b"abc"], [b"abc"], id="one that is whole"),
        pytest.param([b"a", b"b", b"cde"], [b"abc", b"de"], id="many small"),
        pytest.param([b"abcdefghijk"], [b"abc", b"defgh", b"ijk"], id="sizes grow"),
    ],
)
def test_chunks_have_the_requested_sizes(chunks: list[bytes], pieces: list[bytes]) -> None:
    assert list(resize_chunks(chunks, lambda number: 3 + 2 * number)) == pieces


def test_a_checksum_of_parts_is_read_from_chunks_of_any_size() -> None:
    data = bytes(20 * 2**20)
    first = part_bytes(0)
    parts = [data[start : start + first] for start in range(0, len(data), first)]
    tag = tag_of_parts(hashlib.md5(part).digest() for part in parts)
    checksum = Checksum(tag)
    for start in range(0, len(data), 3 * 2**20):
        checksum.feed(data[start : start + 3 * 2**20])
    checksum.check("key")
    checksum.close()
    checksum = Checksum(tag)
    checksum.feed(data + b"x")
    with pytest.raises(UsageError, match="has checksum"):
        checksum.check("key")
    checksum.close()
