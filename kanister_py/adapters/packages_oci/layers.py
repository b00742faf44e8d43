"""Layers: streaming extraction of files from a compressed archive, with limits."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

_BLOCK: Final = 512
_MAX_ENTRIES: Final = 100_000
_MAX_HEADER_BYTES: Final = 1 << 16
_STEP_BYTES: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b"
_FILES: Final = b"0\0"
_LONG_NAME, _PAX, _PAX_OF_ALL = b"L", b"x", b"g"


class UnreadableLayer(Exception):
    """A layer is not an archive, or exceeds a limit."""


class Allowance:
    """Number of bytes that may still be unpacked, shared by all layers of an image."""

    def __init__(self, unpacked_bytes: int) -> None:
        self._all = self._left = unpacked_bytes

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise UnreadableLayer(f"it unpacks to more than {self._all >> 20} MiB")


def find_file(
    packed: Iterator[bytes], name: str, allowance: Allowance, most_bytes: int
) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Reads to the end of the archive, because the digest of the layer is known only then.
    """
    content: bytes | None = None
    archive = _Archive(_unpacked(packed, allowance))
    for entry_name, size, is_file in archive.entries():
        plain = entry_name.removeprefix("./").lstrip("/")
        if plain == f".wh.{name}":
            raise UnreadableLayer(f"{name} was removed from it")
        if plain == name and is_file and content is None:
            if size > most_bytes:
                raise UnreadableLayer(f"{name} has more than {most_bytes >> 20} MiB")
            content = archive.take(size)
    for _ in packed:
        pass
    return content


def _unpacked(packed: Iterator[bytes], allowance: Allowance) -> Iterator[bytes]:
    """Decompress gzip; other data is passed through."""
    first = b""
    for piece in packed:
        first += piece
        if len(first) >= len(_GZIP):
            break
    if not first.startswith(_GZIP):
        yield from _counted(first, packed, allowance)
        return
    data = first
    while True:
        unpack = zlib.decompressobj(wbits=31)
        while not unpack.eof:
            if not data:
                data = next(packed, b"")
                if not data:
                    raise UnreadableLayer("it is truncated")
            try:
                piece = unpack.decompress(data, _STEP_BYTES)
            except zlib.error as error:
                raise UnreadableLayer(f"it is not valid gzip: {error}") from None
            data = unpack.unconsumed_tail
            allowance.take(len(piece))
            if piece:
                yield piece
        # A gzip file may consist of several members.
        data = unpack.unused_data
        while len(data) < len(_GZIP) and (more := next(packed, b"")):
            data += more
        if not data.startswith(_GZIP):
            return


def _counted(first: bytes, packed: Iterator[bytes], allowance: Allowance) -> Iterator[bytes]:
    allowance.take(len(first))
    if first:
        yield first
    for piece in packed:
        allowance.take(len(piece))
        yield piece


class _Archive:
    """Entries of a streamed tar archive."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._begun = b""
        self._left = 0
        """Number of unread bytes of the entry, including the padding of its last block."""

    def entries(self) -> Iterator[tuple[str, int, bool]]:
        """Yield the name and the size of every entry, and whether it is a file."""
        named = ""
        for _ in range(_MAX_ENTRIES):
            self._skip(self._left)
            header = self._read(_BLOCK)
            if not header.strip(b"\0"):
                return
            size = _number(header[124:136])
            if _sum_of(header) != _number(header[148:156]):
                raise UnreadableLayer("an entry of it is damaged")
            self._left = -(-size // _BLOCK) * _BLOCK
            kind = header[156:157]
            if kind in (_LONG_NAME, _PAX, _PAX_OF_ALL):
                if size > _MAX_HEADER_BYTES:
                    raise UnreadableLayer(f"a header in it has more than {_MAX_HEADER_BYTES} bytes")
                content = self.take(size)
                if kind == _LONG_NAME:
                    named = _text(content)
                elif kind == _PAX:
                    named = _path_of(content) or named
                continue
            yield named or _name_of(header), size, kind in _FILES
            named = ""
        raise UnreadableLayer(f"it has more than {_MAX_ENTRIES} entries")

    def take(self, size: int) -> bytes:
        """Read the beginning of the current entry."""
        self._left -= size
        return self._read(size)

    def _read(self, size: int) -> bytes:
        pieces, left = [self._begun], size - len(self._begun)
        while left > 0:
            piece = next(self._pieces, None)
            if piece is None:
                if size == _BLOCK and not any(pieces):
                    return b""  # An archive without end-of-archive blocks is accepted.
                raise UnreadableLayer("it is truncated")
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        self._begun = data[size:]
        return data[:size]

    def _skip(self, size: int) -> None:
        self._left = 0
        while size > len(self._begun):
            size -= len(self._begun)
            self._begun = next(self._pieces, b"")
            if not self._begun:
                raise UnreadableLayer("it is truncated")
        self._begun = self._begun[size:]


def _number(field: bytes) -> int:
    """Parse a number: octal digits, or for large ones bytes after a marker."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    try:
        number = int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        number = -1
    if number < 0:
        raise UnreadableLayer("it is not an archive")
    return number


def _sum_of(header: bytes) -> int:
    return sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _name_of(header: bytes) -> str:
    name = _text(header[:100])
    prefix = (
        _text(header[345:500]) if header[257:262] == b"ustar" and header[262:263] == b"\0" else ""
    )
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _path_of(records: bytes) -> str:
    r"""Return the path in records such as `16 path=a/b.txt\\n`."""
    while records:
        length, space, _ = records.partition(b" ")
        if not (space and length.isdigit() and len(length) < 8 and 0 < int(length) <= len(records)):
            raise UnreadableLayer("a header in it is damaged")
        key, _, value = records[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "replace")
        records = records[int(length) :]
    return ""
