"""Whole files: a reader finds what was there before or all that is new, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(
    path: Path, data: bytes, mode: int = 0o600, *, is_shared: bool = False, is_durable: bool = False
) -> None:
    """Put a file in the place of another at once; what fails leaves that one as it was.

    It is written beside it first: as `.part-…` if it `is_shared`, so that several processes may
    write it at the same time, or else under a name that the next attempt finds again.
    """
    name = f".part-{os.urandom(8).hex()}" if is_shared else f"{path.name}.new"
    begun = path.with_name(name)
    try:
        begun.unlink(missing_ok=True)
        file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                os.fchmod(file, mode)
                stream.write(data)
                if is_durable:
                    stream.flush()
                    os.fsync(file)
            begun.replace(path)
        except BaseException:
            begun.unlink(missing_ok=True)
            raise
    except OSError as error:
        # The user knows the file, not the one that is written first.
        raise OSError(error.errno, error.strerror, str(path)) from error
