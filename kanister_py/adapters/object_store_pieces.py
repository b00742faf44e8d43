"""Chunks of uploads and downloads: their sizes and checksums."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from kanister_py.core.errors import UsageError

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    # The same result; without the library, computing the checksum takes as long as reading.
    from zlib import crc32

FIRST_PART_BYTES: Final = 8 * 1024 * 1024
PARTS_OF_ONE_SIZE: Final = 320
CRC_PREFIX: Final = "crc32:"


class OpenedObject(NamedTuple):
    """An object opened for reading: its size, its expected checksum and its content."""

    size: int
    checksum: str
    pieces: Iterator[bytes]


def part_bytes(number: int) -> int:
    """Return the size of an S3 part, counted from 0: 8 MiB, and 8 MiB more per 320 parts."""
    return FIRST_PART_BYTES * (1 + number // PARTS_OF_ONE_SIZE)


def resize_chunks(chunks: Iterable[bytes], bytes_of: Callable[[int], int]) -> Iterator[bytes]:
    """Combine chunks of any size to chunks of the requested sizes.

    The last chunk may be shorter or empty. There is at least one.
    """
    held, size, number = list[bytes](), 0, 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        while size >= (target_size := bytes_of(number)):
            piece = held[0] if len(held) == 1 else b"".join(held)
            held, size = ([piece[target_size:]] if size > target_size else []), size - target_size
            number += 1
            yield piece if len(piece) == target_size else piece[:target_size]
            del piece
    if size or not number:
        yield b"".join(held)


def tag_of_parts(digests: Iterable[bytes]) -> str:
    """Return the ETag of an S3 object with these parts: the checksum of their checksums."""
    listed = list(digests)
    checksum = hashlib.md5(b"".join(listed), usedforsecurity=False).hexdigest()
    return f"{checksum}-{len(listed)}"


def is_tag_of_parts(tag: str) -> bool:
    """Return True if an ETag is that of a multipart object."""
    return re.fullmatch(r"[0-9a-f]{32}-\d+", tag) is not None


class Checksum:
    """Verifier of downloads: CRC32 with its prefix, MD5, the ETag of a multipart object, or none.

    MD5 is computed in a separate thread, one chunk behind the reader. For a CRC, this would take
    longer than computing it.
    """

    def __init__(self, expected: str) -> None:
        self._expected = expected
        self._whole = hashlib.md5(usedforsecurity=False)
        self._digests: list[bytes] | None = [] if is_tag_of_parts(expected) else None
        self._in_part = 0
        self._crc: int | None = 0 if expected.startswith(CRC_PREFIX) else None
        is_slow = expected and self._crc is None
        self._worker = ThreadPoolExecutor(1, "checksum") if is_slow else None
        self._behind: Future[None] | None = None

    def feed(self, data: bytes) -> None:
        if self._crc is not None:
            self._crc = crc32(data, self._crc)
        elif self._worker is not None:
            self._wait_for_md5()
            self._behind = self._worker.submit(self._take, data)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()

    def check(self, key: str) -> None:
        """Raise an error unless the content is the same as uploaded."""
        self._wait_for_md5()
        if self._expected and (checksum := self._computed()) != self._expected:
            raise UsageError(
                f"Object {key!r} has checksum {checksum}, not {self._expected}",
                reason="ObjectDamaged",
            )

    def _wait_for_md5(self) -> None:
        if self._behind is not None:
            self._behind.result()

    def _take(self, data: bytes) -> None:
        if self._digests is None:
            self._whole.update(data)
        else:
            self._take_parts(memoryview(data), self._digests)

    def _take_parts(self, view: memoryview, digests: list[bytes]) -> None:
        while view:
            left = part_bytes(len(digests)) - self._in_part
            self._whole.update(view[:left])
            self._in_part += len(view[:left])
            view = view[left:]
            if self._in_part == part_bytes(len(digests)):
                self._end_part(digests)

    def _end_part(self, digests: list[bytes]) -> None:
        digests.append(self._whole.digest())
        self._whole, self._in_part = hashlib.md5(usedforsecurity=False), 0

    def _computed(self) -> str:
        if self._crc is not None:
            return f"{CRC_PREFIX}{self._crc:08x}"
        if self._digests is None:
            return self._whole.hexdigest()
        if self._in_part:
            self._end_part(self._digests)
        return tag_of_parts(self._digests)


__all__ = [
    "CRC_PREFIX",
    "FIRST_PART_BYTES",
    "PARTS_OF_ONE_SIZE",
    "Checksum",
    "OpenedObject",
    "crc32",
    "is_tag_of_parts",
    "part_bytes",
    "resize_chunks",
    "tag_of_parts",
]
