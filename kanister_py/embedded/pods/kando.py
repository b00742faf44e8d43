"""The small `kando` on the PATH of pods that run as processes.

Stands alone: started as a script inside a pod, standard library only, and as
little of that as possible, since blueprints call it often.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_ERROR = 69
_READ_BYTES = 1024 * 1024

USAGE = """\
kando: hand outputs to the phases after this one, and move data to and from a location

  kando output <key> <value>
  kando location push <file|->  --path/-s PATH --profile/-p JSON [--output-name/-o NAME]
  kando location pull <file|->  --path/-s PATH --profile/-p JSON [--kopia-snapshot/-k JSON]
  kando location delete         --path/-s PATH --profile/-p JSON [--kopia-snapshot/-k JSON]

This is the kando of pods that run as local processes. A location is a folder:
  type file or filestore       location.endpoint (a path or file:// URL), then bucket
  s3Compliant, gcs, azure      $KANDO_LOCATIONS/<type>/<bucket>: it stands in for the bucket,
                               nothing is sent anywhere and credentials are not looked at
  kopia                        the same; push prints the snapshot as the output NAME
                               (kandoOutput), which pull and delete take back
Below that come location.prefix and PATH. delete removes all that begins with PATH.
Every error ends with exit code 69.
"""

_FLAGS = {
    "-s": "path",
    "--path": "path",
    "-p": "profile",
    "--profile": "profile",
    "-o": "output-name",
    "--output-name": "output-name",
    "-k": "kopia-snapshot",
    "--kopia-snapshot": "kopia-snapshot",
    "-v": "verbosity",
    "--verbosity": "verbosity",
}
_ALLOWED = {
    "output": set(),
    "push": {"path", "profile", "output-name"},
    "pull": {"path", "profile", "kopia-snapshot"},
    "delete": {"path", "profile", "kopia-snapshot"},
}


class KandoError(Exception):
    """What stops kando, in words for the log of the phase."""


def main(arguments: list[str]) -> int:
    """Do what the command line says, and give the exit code."""
    try:
        words, flags = parse(arguments)
        if "help" in flags or not words:
            sys.stdout.write(USAGE)
            return 0
        _run(words, flags)
        sys.stdout.flush()
    except KandoError as error:
        sys.stderr.write(f"Error: {error}\n")
        return EXIT_ERROR
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"Error: {place}{error.strerror}\n")
        return EXIT_ERROR
    return 0


def parse(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Split a command line into words and flags, which may stand anywhere."""
    words: list[str] = []
    flags: dict[str, str] = {}
    left = iter(arguments)
    for argument in left:
        if argument in {"-h", "--help", "help"} and (argument != "help" or not words):
            flags["help"] = ""
        elif argument == "--":
            words += left
        elif argument == "-" or not argument.startswith("-"):
            words.append(argument)
        else:
            name, value = _flag(argument, left)
            flags[name] = value
    return words, flags


def _flag(argument: str, left: Iterator[str]) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    if not argument.startswith("--") and len(argument) > 2 and argument[:2] in _FLAGS:
        name, equals, value = argument[:2], "=", argument[2:].removeprefix("=")
    if name not in _FLAGS:
        raise KandoError(f"unknown flag: {name}")
    if not equals:
        given = next(left, None)
        if given is None:
            raise KandoError(f"flag needs an argument: {name}")
        value = given
    return _FLAGS[name], value


def _run(words: list[str], flags: dict[str, str]) -> None:
    command, *rest = words
    if command == "location" and rest:
        command, *rest = rest
        if command not in {"push", "pull", "delete"}:
            raise KandoError(f'unknown command "location {command}"')
    elif command != "output":
        raise KandoError(
            f'"{command}" is not offered to pods that run as processes; '
            "there are output, location push, location pull and location delete"
        )
    wanted = {"output": 2, "push": 1, "pull": 1, "delete": 0}[command]
    if len(rest) != wanted:
        raise KandoError(f"{command} takes {wanted} argument(s), got {len(rest)}")
    for name in flags:
        if name not in _ALLOWED[command] | {"verbosity"}:
            raise KandoError(f"{command} does not take --{name}")
    if command == "output":
        write_output(*rest)
        return
    location = Location(flags)
    if command == "push":
        push(location, rest[0], flags.get("output-name") or "kandoOutput")
    elif command == "pull":
        pull(location, rest[0])
    else:
        delete(location)


def write_output(key: str, value: str) -> None:
    """Print the line that a phase's outputs are read from."""
    if not _is_word(key.replace("_", "a")):
        raise KandoError(f"key {key!r} may hold letters, digits and underscores only")
    sys.stdout.write(f'###Phase-output###: {{"key":"{key}","value":{_quoted(value)}}}\n')


def _is_word(text: str) -> bool:
    return text.isascii() and text.isalnum()


def _quoted(text: str) -> str:
    """Write a text as JSON; most texts need no library for that, which takes time to load."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text)


class Location:
    """Which file stands for an object of a profile's location."""

    def __init__(self, flags: dict[str, str]) -> None:
        import json

        for name in ("path", "profile"):
            if name not in flags:
                raise KandoError(f'required flag "{name}" not set')
        try:
            profile = json.loads(flags["profile"])
        except ValueError as error:
            raise KandoError(f"--profile is not JSON: {error}") from error
        if not isinstance(profile, dict):
            raise KandoError("--profile holds no profile: is one set in the ActionSet?")
        location = _member(profile, "location")
        if not isinstance(location, dict):
            raise KandoError("--profile has no location")
        fields = {
            name: str(_member(location, name) or "")
            for name in ("type", "bucket", "endpoint", "prefix")
        }
        self.is_kopia = fields["type"].lower() == "kopia"
        self.root = _root(fields)
        self._key = "/".join(_parts(fields["prefix"]) + _parts(flags["path"]))
        if not _parts(flags["path"]):
            raise KandoError("--path is empty")
        self._snapshot = flags.get("kopia-snapshot", "")

    def file(self) -> str:
        """Say which file holds the object."""
        return os.path.join(self.root, self._key)  # noqa: PTH118 - pathlib takes time to load

    def snapshot_file(self, snapshot_id: str) -> str:
        """Say which file holds one snapshot of the object."""
        return f"{self.file()}@{snapshot_id}"

    def asked_file(self) -> str:
        """Say which file the command line means: of kopia, one snapshot."""
        if not self.is_kopia:
            return self.file()
        import json

        try:
            snapshot = json.loads(self._snapshot)["id"]
        except (ValueError, KeyError, TypeError) as error:
            raise KandoError(
                "a kopia profile needs --kopia-snapshot, as push printed it"
            ) from error
        if not _is_word(str(snapshot)):
            raise KandoError(f"{snapshot!r} is not the id of a snapshot")
        return self.snapshot_file(snapshot)


def push(location: Location, source: str, output_name: str) -> None:
    """Copy a file or what comes through a pipe; the object is there whole, or not at all."""
    if source == "-":
        if not stat.S_ISFIFO(os.fstat(0).st_mode):
            raise KandoError("stdin is not a pipe: nothing to push")
        read = 0
    else:
        read = os.open(source, os.O_RDONLY)
    snapshot_id = os.urandom(16).hex()
    target = location.snapshot_file(snapshot_id) if location.is_kopia else location.file()
    size = _write_whole(read, target)
    if location.is_kopia:
        import json

        snapshot = {"id": snapshot_id, "logicalSize": size, "physicalSize": size}
        write_output(output_name, json.dumps(snapshot, separators=(",", ":")))


def pull(location: Location, target: str) -> None:
    """Copy an object to a file or to stdout."""
    source = location.asked_file()
    try:
        read = os.open(source, os.O_RDONLY)
    except FileNotFoundError as error:
        raise KandoError(f"there is no {source}") from error
    if target == "-":
        _copy(read, 1)
    elif os.path.lexists(target) and not os.path.isfile(target):  # noqa: PTH113 - as above
        _copy(read, os.open(target, os.O_WRONLY))
    else:
        _write_whole(read, target)


def delete(location: Location) -> None:
    """Remove all that begins with the path; that nothing does is no error."""
    asked = location.asked_file()
    for file in [asked] if location.is_kopia else list(_beginning_with(asked)):
        try:
            os.unlink(file)  # noqa: PTH108 - pathlib takes time to load
        except FileNotFoundError:
            continue
        _remove_empty(os.path.dirname(file), location.root)  # noqa: PTH120 - as above


def _root(fields: dict[str, str]) -> str:
    kind, bucket = fields["type"], _parts(fields["bucket"])
    if kind.lower() in {"file", "filestore"}:
        folder = fields["endpoint"].removeprefix("file://")
        if not folder.startswith("/"):
            raise KandoError(f"location.endpoint must be a folder, not {fields['endpoint']!r}")
        return "/".join([folder.rstrip("/"), *bucket])
    if kind.lower() not in {"s3compliant", "gcs", "azure", "kopia"}:
        raise KandoError(f"location.type {kind!r} is not known")
    if not bucket:
        raise KandoError("location.bucket is empty")
    locations = os.environ.get("KANDO_LOCATIONS", "")
    if not locations:
        raise KandoError("KANDO_LOCATIONS does not say which folder stands in for the bucket")
    return "/".join([locations, kind, *bucket])


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise KandoError(f"{path!r} leads out of the location")
    return parts


def _member(of: dict[str, object], name: str) -> object:
    """Find a member as Go does: whatever its case."""
    for key, value in of.items():
        if key.lower() == name:
            return value
    return None


def _write_whole(read: int, target: str) -> int:
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)  # noqa: PTH103, PTH120 - as above
    partial = f"{target}.{os.getpid()}.partial"
    write = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        size = _copy(read, write)
        os.fsync(write)
        os.rename(partial, target)  # noqa: PTH104 - as above
    except BaseException:
        os.unlink(partial)  # noqa: PTH108 - as above
        raise
    os.close(write)
    return size


def _copy(read: int, write: int) -> int:
    size = 0
    while data := os.read(read, _READ_BYTES):
        size += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(write, view) :]
    return size


def _beginning_with(path: str) -> Iterator[str]:
    folder, _, beginning = path.rpartition("/")
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        return
    for entry in os.scandir(folder):
        if not entry.name.startswith(beginning):
            continue
        if entry.is_dir(follow_symlinks=False):
            for parent, _, names in os.walk(entry.path):
                yield from (f"{parent}/{name}" for name in names)
        else:
            yield entry.path


def _remove_empty(folder: str, root: str) -> None:
    while folder.startswith(root) and folder != root:
        try:
            os.rmdir(folder)  # noqa: PTH106 - as above
        except OSError:
            return
        folder = folder.rpartition("/")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
