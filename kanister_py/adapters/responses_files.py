"""Response cache on disk, with one file per response."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import suppress
from pathlib import Path

from kanister_py.core.compositions.cache_keys import CacheKey
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.files import write_atomically
from kanister_py.ports.response_store import StoredResponse, WriteResult

DEFAULT_BYTES = 512 * 1024 * 1024
_FORMAT = 1
_SUFFIX = ".json"


class FileStore:
    """Cache in a private folder. When it is full, the oldest files are deleted.

    A file is renamed to its final name once it is complete, so a killed process leaves no readable
    file. Unreadable files count as missing.
    """

    def __init__(self, folder: Path, most_bytes: int = DEFAULT_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path_of(self, key: CacheKey) -> Path:
        name = hashlib.sha256("\0".join(key).encode()).hexdigest()
        return self._folder / f"{name}{_SUFFIX}"

    def read(self, key: CacheKey) -> StoredResponse | None:
        try:
            data = json.loads(self._path_of(key).read_bytes())
            # Detects another format, and hash collisions.
            if data["format"] != _FORMAT or data["key"] != list(key):
                return None
            return StoredResponse(
                FunctionResponse.from_data(data["response"]), float(data["deadline"])
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, key: CacheKey, stored: StoredResponse) -> WriteResult:
        data = {
            "format": _FORMAT,
            "key": list(key),
            "deadline": stored.deadline,
            "response": stored.response.as_data(),
        }
        try:
            text = json.dumps(data).encode()
            if len(text) > self._most_bytes:
                return WriteResult()
            with self._lock:
                write_atomically(self._path_of(key), text, is_shared=True)
                return WriteResult(len(text), *self._make_room())
        except (OSError, TypeError, ValueError):
            return WriteResult()

    def _make_room(self) -> tuple[int, int]:
        """Delete the oldest files and temporary files of killed processes; return how much."""
        files = []
        for path in self._folder.iterdir():
            if path.name.startswith(".part-") or path.suffix == _SUFFIX:
                # Another process may have deleted or renamed the file.
                with suppress(FileNotFoundError):
                    status = path.stat()
                    files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        count = gone = 0
        for _, size, path in sorted(files):
            if total - gone <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            count, gone = count + 1, gone + size
        return count, gone
