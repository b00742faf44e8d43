"""Commands of `kando` that move data: `location` and `chronicle`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

# Imported directly instead of through the wiring, whose imports would delay every phase that moves
# data.
from kanister_py.adapters.object_store_obstore import ObstoreStores
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.locations import Location, StoreKind, read_printed_profile
from kanister_py.kando.command import EXIT_ENDED, KandoError, write_output
from kanister_py.ports.object_store import ObjectMissing, ObjectStore

FOLDER_VARIABLE: Final = "KANDO_LOCATIONS"
_READ_BYTES: Final = 1024 * 1024


def run(command: str, words: list[str], flags: Mapping[str, str]) -> None:
    """Run a command. Errors are raised as `KandoError`."""
    # Exit normally on SIGTERM, so that an unfinished upload is aborted: its parts cost money.
    signal.signal(signal.SIGTERM, _exit)
    try:
        match command:
            case "location push":
                push(_target(flags), words[0], flags.get("output-name") or "kandoOutput")
            case "location pull":
                pull(_target(flags), words[0])
            case "location delete":
                delete(_target(flags))
            case "chronicle push":
                push_periodically(" ".join(words), flags)
            case _:
                pull_newest(_target(flags), words[0])
    except KanisterError as error:
        raise KandoError(error.message) from error


def _exit(*_: object) -> NoReturn:
    sys.exit(EXIT_ENDED)


class Target(NamedTuple):
    """Target of a command line: an object store, or a folder that replaces it, and a key."""

    store: ObjectStore
    key: str
    is_kopia: bool = False
    snapshot: str = ""

    def object_key(self) -> str:
        """Return the key of the object; with kopia, that of one snapshot."""
        return f"{self.key}@{_snapshot_id(self.snapshot)}" if self.is_kopia else self.key


def _target(flags: Mapping[str, str]) -> Target:
    for name in ("path", "profile"):
        if name not in flags:
            raise KandoError(f'required flag "{name}" not set')
    location = _location(flags["profile"], "--profile")
    return _target_in(location, flags["path"], flags.get("kopia-snapshot", ""))


def _location(text: str, where: str) -> Location:
    try:
        return read_printed_profile(json.loads(text))
    except ValueError as error:
        raise KandoError(f"{where} is not JSON: {error}") from error


def _target_in(location: Location, path: str, snapshot: str = "") -> Target:
    if not path.strip("/"):
        raise KandoError("--path is empty")
    folder = os.environ.get(FOLDER_VARIABLE, "")
    is_kopia = bool(folder) and location.kind is StoreKind.KOPIA
    may_lack_bucket = location.kind in {StoreKind.FILE, StoreKind.KOPIA}
    if not may_lack_bucket and not location.bucket.strip("/"):
        raise KandoError("location.bucket is empty")
    if folder:
        location = location.in_folder(folder)
    return Target(ObstoreStores().open(location), location.key_of(path), is_kopia, snapshot)


def _snapshot_id(printed: str) -> str:
    try:
        snapshot_id = json.loads(printed)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise KandoError("a kopia profile needs --kopia-snapshot, as printed by push") from error
    if not (str(snapshot_id).isascii() and str(snapshot_id).isalnum()):
        raise KandoError(f"{snapshot_id!r} is not a snapshot ID")
    return str(snapshot_id)


# location


def push(place: Target, source: str, output_name: str) -> None:
    """Upload a file or standard input atomically."""
    if source == "-":
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            raise KandoError(
                "standard input is neither a pipe nor a file; name a file, or use a pipe"
            )
        _widen_pipe(0)
        read = 0
    else:
        read = os.open(source, os.O_RDONLY)
    if not place.is_kopia:
        place.store.put(place.key, _chunks(read))
        return
    snapshot = os.urandom(16).hex()
    size = place.store.put(f"{place.key}@{snapshot}", _chunks(read))
    snapshot_data = {"id": snapshot, "logicalSize": size, "physicalSize": size}
    write_output(output_name, json.dumps(snapshot_data, separators=(",", ":")))


def pull(place: Target, target: str) -> None:
    """Download an object atomically to a file, or to standard output."""
    _write(place.store.get(place.object_key()), target)


def delete(place: Target) -> None:
    """Delete all objects whose keys start with the path. It is not an error if there are none."""
    if place.is_kopia:
        place.store.delete([place.object_key()])
        return
    place.store.delete(obj.key for obj in place.store.list(place.key))


def _chunks(read: int) -> Iterator[bytes]:
    while data := os.read(read, _READ_BYTES):
        yield data


def _widen_pipe(pipe: int) -> None:
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _READ_BYTES)


def _write(chunks: Iterator[bytes], target: str) -> None:
    # Read first, so that a missing object does not change the target.
    first = next(chunks, b"")
    path = Path(target)
    if target == "-":
        _widen_pipe(1)
        _copy(first, chunks, 1)
    elif os.path.lexists(target) and not path.is_file():
        _copy(first, chunks, os.open(target, os.O_WRONLY))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            write = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            _copy(first, chunks, write)
            os.fsync(write)
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _copy(first: bytes, following: Iterator[bytes], write: int) -> None:
    _write_all(write, first)
    for chunk in following:
        _write_all(write, chunk)


def _write_all(write: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(write, view) :]


# chronicle


def push_periodically(command: str, flags: Mapping[str, str]) -> None:
    """Store the output of a command periodically under a new key, and that key under the path.

    The path and the profile are read every time. While one of them is missing, nothing is done.
    """
    for name in ("profile-path", "artifact-path"):
        if name not in flags:
            raise KandoError(f'required flag "{name}" not set')
    seconds = parse_seconds(flags.get("frequency") or "1m")
    number = 0
    while True:
        started = time.monotonic()
        try:
            _push_newest(command, number, flags)
        except TransientError as error:
            sys.stderr.write(f"{error.message}; retrying in {seconds:g}s\n")
        number += 1
        time.sleep(max(0.0, seconds - (time.monotonic() - started)))


def _push_newest(command: str, number: int, flags: Mapping[str, str]) -> None:
    profile, path = _text_of(flags["profile-path"]), _text_of(flags["artifact-path"])
    if not profile or not path:
        return
    location = _location(profile, flags["profile-path"])
    manifest, newest = _target_in(location, path), f"{path}-{number}"
    key = _target_in(location, newest).key
    env = {**os.environ, **_env_of(flags.get("env-dir", ""))}
    shell = ["/bin/sh", "-c", command]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, env=env) as process:  # noqa: S603 - the user's own command
        assert process.stdout is not None
        try:
            manifest.store.put(key, _output_of(process, process.stdout.fileno()))
        except BaseException:
            process.kill()
            raise
    manifest.store.put(manifest.key, [newest.encode()])
    manifest.store.delete([_target_in(location, f"{path}-{number - 1}").key])


def _output_of(process: subprocess.Popen[bytes], read: int) -> Iterator[bytes]:
    """Yield the output of a command. If it fails, raise an error so that no object is written."""
    yield from _chunks(read)
    if code := process.wait():
        raise KandoError(f"the command ended with exit code {code}: its output is not stored")


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _env_of(folder: str) -> dict[str, str]:
    """Read environment variables from the first lines of the files in a folder, like envdir."""
    if not folder:
        return {}
    files = (path for path in Path(folder).iterdir() if path.is_file())
    return {path.name: (path.read_text().splitlines() or [""])[0].rstrip() for path in files}


def pull_newest(place: Target, target: str) -> None:
    """Download the newest object of a chronicle."""
    newest = b"".join(place.store.get(place.key)).decode("utf-8", "replace").strip()
    base, dash, number = newest.rpartition("-")
    if not dash or not number.isdigit() or not place.key.endswith(base.strip("/")):
        raise KandoError(f"{place.key!r} is not a chronicle")
    key = f"{place.key}-{number}"
    try:
        _write(place.store.get(key), target)
    except ObjectMissing as error:
        raise KandoError(f"{error.message}: it has just been replaced, pull again") from error
