"""Node setup, shared by its pods: folders, helpers on the PATH, the process launcher."""

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
    ProcessesUnavailable,
    Reactor,
    Wanted,
)
from kanister_py.embedded.pods.volumes import Claims
from kanister_py.ports.clock import Clock

HELPERS_FOLDER: Final = "/.kanister-py"
"""The folder of our helpers, as a pod with a root of its own sees it."""

LOCATIONS_VARIABLE: Final = "KANDO_LOCATIONS"
"""Tells `kando` which folder stands in for every bucket."""

_LOCK: Final = "lock"
_PREFIX: Final = "kanister-py-pods-"
_PRIVATE: Final = 0o700


class NodeSetup:
    """The folders of one run of a node, and what its pods are started with.

    `state` holds the data of claims, which without it lives as long as the run
    does. `locations` stands in for every store that `kando` uses. What runs
    that died left behind is removed here.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        state: Path | None = None,
        locations: Path | None = None,
        namespaces: Wanted = "any",
        restart_backoff_seconds: float = 10.0,
    ) -> None:
        self.clock = clock
        self.restart_backoff_seconds = restart_backoff_seconds
        # Processes are started elsewhere: a folder must mean the same from everywhere.
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
        self.launcher = Launcher(self._run, wanted=namespaces)
        self.reactor = Reactor()
        self._laid: Path | None = None
        self._laying = threading.Lock()

    # How a pod sees these is known when the first process is there: nobody waits for it before.

    @property
    def helpers_in_pod(self) -> str:
        """Say which folder goes on the PATH of a pod."""
        is_apart = bool(self.launcher.namespaces)
        return f"{HELPERS_FOLDER}/bin" if is_apart else str(self._helpers / "bin")

    @property
    def given_env(self) -> Mapping[str, str]:
        """Say what every container's environment holds besides its own."""
        if self._locations is None:
            return {}
        is_apart = bool(self.launcher.namespaces)
        seen = f"{HELPERS_FOLDER}/locations" if is_apart else str(self._locations)
        return {LOCATIONS_VARIABLE: seen}

    def wait_until_ready(self) -> None:
        """Wait until processes can be started; `ProcessesUnavailable` says why they cannot."""
        self.launcher.wait_until_ready()

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        """Say where a pod keeps what ends with it."""
        return self._run / "pods" / str(pod["metadata"]["uid"])

    def log_folder_of(self, pod: Mapping[str, Any]) -> Path:
        """Say where the logs of a pod are; a reader may hold them longer than the pod lives."""
        return self._run / "logs" / str(pod["metadata"]["uid"])

    def mounts(self) -> list[Mount]:
        """Say what every container sees besides its volumes."""
        mounts = [Mount(str(self._helpers), HELPERS_FOLDER, read_only=True)]
        if self._locations is not None:
            mounts.append(Mount(str(self._locations), f"{HELPERS_FOLDER}/locations"))
        # What kando starts from must be visible, though it lie in a /tmp or a home that is not.
        package = Path(__file__).parents[2]
        for each in dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix), package)):
            place = each.resolve()
            if place.is_relative_to("/tmp"):  # noqa: S108 - the very place is meant
                mounts.append(Mount(str(place), str(place), read_only=True))
        return mounts

    def close(self) -> None:
        """End all processes and remove what belonged to this run."""
        self.launcher.close()
        self.reactor.close()
        shutil.rmtree(self._run, ignore_errors=True)
        os.close(self._lock)

    @property
    def _helpers(self) -> Path:
        """Give the folder of what we lay into pods; laid out when the first pod wants it."""
        with self._laying:
            if self._laid is None:
                self._laid = self._lay_out()
            return self._laid

    def _lay_out(self) -> Path:
        folder = self._run / "helpers"
        (folder / "bin").mkdir(parents=True)
        # The mount point of the locations must stand before the folder is mounted read-only.
        (folder / "locations").mkdir()
        script = folder / "bin" / "kando"
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -m kanister_py.kando \"$@\"\n")
        script.chmod(0o755)
        return folder


def sweep(runs: Path, prefix: str = "") -> None:
    """Remove the folders of runs that ended without doing so; a run that lives holds its lock."""
    for folder in runs.glob(f"{prefix}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            # One without a lock is only just being made.
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
