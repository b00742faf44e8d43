"""Atomic writes of files: readers see the old content or the new content, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(
    path: Path, data: bytes, mode: int = 0o600, *, is_shared: bool = False, is_durable: bool = False
) -> None:
    """Replace a file atomically. If the write fails, the old file is unchanged.

    The content is first written to a temporary file in the same folder. With `is_shared` its name
    is unique, so that several processes may write the file at the same time; otherwise the next
    attempt replaces the temporary file of a failed one.
    """
    name = f".part-{os.urandom(8).hex()}" if is_shared else f"{path.name}.new"
    temporary = path.with_name(name)
    try:
        temporary.unlink(missing_ok=True)
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                os.fchmod(file, mode)
                stream.write(data)
                if is_durable:
                    stream.flush()
                    os.fsync(file)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        # Report the name that the user gave, not that of the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error
