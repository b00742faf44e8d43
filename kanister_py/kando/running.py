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

# Not by way of the wiring: every phase that moves data waits for what is loaded here.
from kanister_py.adapters.object_store_obstore import ObstoreStores
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.locations import Location, StoreKind, read_printed_profile
from kanister_py.kando.command import EXIT_ENDED, KandoError, write_output
from kanister_py.ports.object_store import ObjectMissing, ObjectStore

FOLDER_VARIABLE: Final = "KANDO_LOCATIONS"
_READ_BYTES: Final = 1024 * 1024


def run(command: str, words: list[str], flags: Mapping[str, str]) -> None:
    """Run a command; what stops it is a `KandoError`."""
    # Ended from outside, it takes back what was begun: parts of an upload are paid for.
    signal.signal(signal.SIGTERM, _end)
    try:
        match command:
            case "location push":
                push(_place(flags), words[0], flags.get("output-name") or "kandoOutput")
            case "location pull":
                pull(_place(flags), words[0])
            case "location delete":
                delete(_place(flags))
            case "chronicle push":
                push_again_and_again(" ".join(words), flags)
            case _:
                pull_newest(_place(flags), words[0])
    except KanisterError as error:
        raise KandoError(error.message) from error


def _end(*_: object) -> NoReturn:
    sys.exit(EXIT_ENDED)


class Place(NamedTuple):
    """What a command line points at: a key in a bucket, or a folder in its stead."""

    store: ObjectStore
    key: str
    is_kopia: bool = False
    snapshot: str = ""

    def asked_key(self) -> str:
        """Say which key is meant: of kopia, that of one snapshot."""
        return f"{self.key}@{_snapshot_id(self.snapshot)}" if self.is_kopia else self.key


def _place(flags: Mapping[str, str]) -> Place:
    for name in ("path", "profile"):
        if name not in flags:
            raise KandoError(f'required flag "{name}" not set')
    location = _location(flags["profile"], "--profile")
    return _place_in(location, flags["path"], flags.get("kopia-snapshot", ""))


def _location(text: str, where: str) -> Location:
    try:
        return read_printed_profile(json.loads(text))
    except ValueError as error:
        raise KandoError(f"{where} is not JSON: {error}") from error


def _place_in(location: Location, path: str, snapshot: str = "") -> Place:
    if not path.strip("/"):
        raise KandoError("--path is empty")
    folder = os.environ.get(FOLDER_VARIABLE, "")
    is_kopia = bool(folder) and location.kind is StoreKind.KOPIA
    may_lack_bucket = location.kind in {StoreKind.FILE, StoreKind.KOPIA}
    if not may_lack_bucket and not location.bucket.strip("/"):
        raise KandoError("location.bucket is empty")
    if folder:
        location = location.in_folder(folder)
    return Place(ObstoreStores().open(location), location.key_of(path), is_kopia, snapshot)


def _snapshot_id(printed: str) -> str:
    try:
        snapshot_id = json.loads(printed)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise KandoError("a kopia profile needs --kopia-snapshot, as push printed it") from error
    if not (str(snapshot_id).isascii() and str(snapshot_id).isalnum()):
        raise KandoError(f"{snapshot_id!r} is not the id of a snapshot")
    return str(snapshot_id)


# location


def push(place: Place, source: str, output_name: str) -> None:
    """Copy a file or what comes through a pipe; the object is there whole, or not at all."""
    if source == "-":
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            raise KandoError(
                "stdin is neither a pipe nor a file: nothing to push; name a file, or pipe into it"
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


def pull(place: Place, target: str) -> None:
    """Copy an object to a file, which is there whole or not at all, or to stdout."""
    _write(place.store.get(place.asked_key()), target)


def delete(place: Place) -> None:
    """Remove all that begins with the path; that nothing does is no error."""
    if place.is_kopia:
        place.store.delete([place.asked_key()])
        return
    place.store.delete(obj.key for obj in place.store.list(place.key))


def _chunks(read: int) -> Iterator[bytes]:
    while data := os.read(read, _READ_BYTES):
        yield data


def _widen_pipe(pipe: int) -> None:
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _READ_BYTES)


def _write(chunks: Iterator[bytes], target: str) -> None:
    # Before anything is written: an object that is not there leaves the target alone.
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


def _copy(first: bytes, rest: Iterator[bytes], write: int) -> None:
    _write_all(write, first)
    for chunk in rest:
        _write_all(write, chunk)


def _write_all(write: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(write, view) :]


# chronicle


def push_again_and_again(command: str, flags: Mapping[str, str]) -> None:
    """Store what a command prints under a new key each time, and under the path which is newest.

    The path and the profile are read anew each time: while there is none, nothing is done.
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
            sys.stderr.write(f"{error.message}; tried again in {seconds:g}s\n")
        number += 1
        time.sleep(max(0.0, seconds - (time.monotonic() - started)))


def _push_newest(command: str, number: int, flags: Mapping[str, str]) -> None:
    profile, path = _text_of(flags["profile-path"]), _text_of(flags["artifact-path"])
    if not profile or not path:
        return
    location = _location(profile, flags["profile-path"])
    manifest, newest = _place_in(location, path), f"{path}-{number}"
    key = _place_in(location, newest).key
    env = {**os.environ, **_env_of(flags.get("env-dir", ""))}
    shell = ["/bin/sh", "-c", command]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, env=env) as process:  # noqa: S603 - the user's own command
        assert process.stdout is not None
        try:
            manifest.store.put(key, _checked(process, process.stdout.fileno()))
        except BaseException:
            process.kill()
            raise
    manifest.store.put(manifest.key, [newest.encode()])
    manifest.store.delete([_place_in(location, f"{path}-{number - 1}").key])


def _checked(process: subprocess.Popen[bytes], read: int) -> Iterator[bytes]:
    """Read what a command prints; one that fails leaves no object that looks whole."""
    yield from _chunks(read)
    if code := process.wait():
        raise KandoError(f"the command ended with exit code {code}: what it printed is not kept")


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _env_of(folder: str) -> dict[str, str]:
    """Read a variable from each file of a folder, as envdir does: its first line counts."""
    if not folder:
        return {}
    files = (path for path in Path(folder).iterdir() if path.is_file())
    return {path.name: (path.read_text().splitlines() or [""])[0].rstrip() for path in files}


def pull_newest(place: Place, target: str) -> None:
    """Copy what a chronicle stored last."""
    newest = b"".join(place.store.get(place.key)).decode("utf-8", "replace").strip()
    base, dash, number = newest.rpartition("-")
    if not dash or not number.isdigit() or not place.key.endswith(base.strip("/")):
        raise KandoError(f"what is stored at {place.key!r} is not the newest of a chronicle")
    key = f"{place.key}-{number}"
    try:
        _write(place.store.get(key), target)
    except ObjectMissing as error:
        raise KandoError(f"{error.message}: it was replaced meanwhile, pull again") from error
