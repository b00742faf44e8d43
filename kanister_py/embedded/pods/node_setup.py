"""Setup of a node: folders, helper programs, and the launcher of processes."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kanister_py.embedded.pods.launcher import (
    Launcher,
    Mount,
    NamespaceMode,
    ProcessesUnavailable,
    Reactor,
)
from kanister_py.embedded.pods.volumes import Claims
from kanister_py.ports.clock import Clock

HELPERS_FOLDER: Final = "/.kanister-py"
"""Folder of the helper programs in pods with their own root."""

LOCATIONS_VARIABLE: Final = "KANDO_LOCATIONS"
"""Variable with the folder that `kando` uses instead of object stores."""

_LOCK: Final = "lock"
_PREFIX: Final = "kanister-py-pods-"
_PRIVATE: Final = 0o700


class NodeSetup:
    """Folders of one run of a node, and the common setup of its pods.

    `state` stores the data of claims, which otherwise ends with the run. `locations` replaces every
    object store that `kando` uses. The constructor removes folders of runs that were killed.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        state: Path | None = None,
        locations: Path | None = None,
        namespaces: NamespaceMode = "any",
        restart_backoff_seconds: float = 10.0,
    ) -> None:
        self.clock = clock
        self.restart_backoff_seconds = restart_backoff_seconds
        # Processes start in other working directories, so paths must be absolute.
        state = state.absolute() if state is not None else None
        runs = state / "runs" if state is not None else Path(tempfile.gettempdir())
        try:
            runs.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            sweep(runs, _PREFIX)
            self._run = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=runs))
            self._lock = _lock(self._run / _LOCK)
            if locations is not None:
                locations = locations.absolute()
                locations.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        except OSError as error:
            raise ProcessesUnavailable(f"{error.filename}: {error.strerror}") from error
        self.is_kept = state is not None
        self.claims = Claims((state or self._run) / "volumes")
        self._locations = locations
        self.launcher = Launcher(self._run, mode=namespaces)
        self.reactor = Reactor()
        self._helpers_folder: Path | None = None
        self._helpers_lock = threading.Lock()

    # Known only when the spawner is ready, so they are created lazily.

    @property
    def helpers_in_pod(self) -> str:
        """Folder of the helper programs in pods."""
        is_apart = bool(self.launcher.namespaces)
        return f"{HELPERS_FOLDER}/bin" if is_apart else str(self._helpers / "bin")

    @property
    def base_environment(self) -> Mapping[str, str]:
        """Return the environment that all containers have."""
        if self._locations is None:
            return {}
        is_apart = bool(self.launcher.namespaces)
        seen = f"{HELPERS_FOLDER}/locations" if is_apart else str(self._locations)
        return {LOCATIONS_VARIABLE: seen}

    def wait_until_ready(self) -> None:
        """Wait until processes can be started. Raises `ProcessesUnavailable`."""
        self.launcher.wait_until_ready()

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        """Return the folder of a pod, which is deleted with it."""
        return self._run / "pods" / str(pod["metadata"]["uid"])

    def log_folder_of(self, pod: Mapping[str, Any]) -> Path:
        """Return the folder of a pod's logs, which readers may need longer than the pod exists."""
        return self._run / "logs" / str(pod["metadata"]["uid"])

    def mounts(self) -> list[Mount]:
        """Return the mounts that all containers have."""
        mounts = [Mount(str(self._helpers), HELPERS_FOLDER, read_only=True)]
        if self._locations is not None:
            mounts.append(Mount(str(self._locations), f"{HELPERS_FOLDER}/locations"))
        # kando's interpreter and packages must be visible, even if they are in /tmp or a home.
        package = Path(__file__).parents[2]
        for folder in dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix), package)):
            place = folder.resolve()
            if place.is_relative_to("/tmp"):  # noqa: S108 - the path in the pod
                mounts.append(Mount(str(place), str(place), read_only=True))
        return mounts

    def close(self) -> None:
        """End all processes and remove the folders of this run."""
        self.launcher.close()
        self.reactor.close()
        shutil.rmtree(self._run, ignore_errors=True)
        os.close(self._lock)

    @property
    def _helpers(self) -> Path:
        """Folder of the helper programs, created for the first pod."""
        with self._helpers_lock:
            if self._helpers_folder is None:
                self._helpers_folder = self._write_helpers()
            return self._helpers_folder

    def _write_helpers(self) -> Path:
        folder = self._run / "helpers"
        (folder / "bin").mkdir(parents=True)
        # The mount point must exist before the folder is mounted read-only.
        (folder / "locations").mkdir()
        script = folder / "bin" / "kando"
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -m kanister_py.kando \"$@\"\n")
        script.chmod(0o755)
        return folder


def sweep(runs: Path, prefix: str = "") -> None:
    """Remove folders of runs that were killed. Running ones hold a lock on their folder."""
    for folder in runs.glob(f"{prefix}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            # A folder without a lock file is being created.
            fd = _lock(folder / _LOCK, os.O_RDWR)
        except OSError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def _lock(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd
