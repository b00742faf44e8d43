"""Restic: addresses of repositories, command lines, and parsers of their output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from posixpath import normpath
from typing import Any, Final, NamedTuple

import re2

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.locations import Location, StoreKind

GOOGLE_CREDENTIALS_FILE: Final = "/tmp/creds.txt"  # noqa: S108 - a path in the pod, the same as in the originals
WRONG_PASSWORD: Final = "wrong password"  # noqa: S105 - a message of restic, not a password
NO_REPOSITORY: Final = "Is there a repository at the following location?"
STORE_FAILED: Final = "the store failed"
RAW_DATA: Final = "raw-data"
"""Mode of `restic stats` that counts blobs instead of files."""
_AWS_ENDPOINT: Final = "s3.amazonaws.com"
_SIZE: Final = r"[\d]+(?:\.[\d]+)?\s(?:[TGMK]iB|B)"
_SAVED: Final = re.compile(r"snapshot\s([a-zA-Z0-9]{8}) saved")
_PROCESSED: Final = re.compile(rf"processed\s(\d+)\sfiles,\s({_SIZE})\sin")
_ADDED: Final = re.compile(rf"Added to the repo:\s({_SIZE})")
_FREED: Final = re.compile(rf"this frees\s+({_SIZE})")
_STATS_COUNT: Final = re2.compile(r"(?m)Total File Count:\s+(.*?)\s*$")
_STATS_BLOBS: Final = re2.compile(r"(?m)Total Blob Count:\s+(.*?)\s*$")
_STATS_SIZE: Final = re2.compile(r"(?m)Total Size:\s+(.*?)\s*$")
_RETRIED: Final = re2.compile(r"(\S+\(.*\)) returned error, retrying after \S+: (.*)")
_OVERLOOKED: Final = re.compile(r"could not load snapshot|Ignoring \"")
_MISSING: Final = re.compile(r"exist|NotFound|404")
_DAMAGED: Final = re.compile(
    "ciphertext verification failed|invalid data returned|is damaged|Unmarshal: "
)
_SNAPSHOT_ID: Final = re.compile(r"[0-9a-f]{8,64}")
_PLAIN_ID: Final = re.compile(r"[0-9A-Za-z]+")
_PLAIN_TAG: Final = re.compile(r"[0-9A-Za-z_.:/@%+,=-]+")
_COMPLAINT_LINES: Final = 10
_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def check_snapshot_id(text: str) -> None:
    """Raise a UsageError unless a text is the ID of a snapshot, or the beginning of one."""
    if not _SNAPSHOT_ID.fullmatch(text):
        raise UsageError(
            f"Backup ID {text[:80]!r} must have 8 to 64 hexadecimal digits",
            reason="InvalidArguments",
        )


def check_shell_words(*, ids: Iterable[str] = (), tags: Iterable[str] = ()) -> None:
    """Raise a UsageError if IDs or tags contain characters with a meaning for the shell.

    Version v0.0.0 of the functions puts them into a command line without quotes.
    """
    for text in ids:
        if not _PLAIN_ID.fullmatch(text):
            raise UsageError(
                f"Backup ID {text[:80]!r} must be letters and digits", reason="InvalidArguments"
            )
    for text in tags:
        if not _PLAIN_TAG.fullmatch(text):
            raise UsageError(
                f"Backup tag {text[:80]!r} must be letters, digits and any of -_.:/@%+,=",
                reason="InvalidArguments",
            )


def prefix_with_bucket(prefix: str, location: Location) -> str:
    """Prepend the bucket to a prefix, unless it is already the first folder.

    A path that is joined is also cleaned, like with Go's `path.Join`.
    """
    if prefix.split("/", maxsplit=1)[0] == location.bucket:
        return prefix
    return normpath("/".join(part for part in (location.bucket, prefix) if part))


def repository_url(location: Location, path: str) -> str:
    """Return the URL of a repository for restic; `path` starts with the bucket."""
    location.check_repository()
    match location.kind:
        case StoreKind.S3:
            endpoint = location.endpoint.rstrip("/") or _AWS_ENDPOINT
            return f"s3:{endpoint}/{path}"
        case StoreKind.GCS:
            return f"gs:{path.replace('/', ':/', 1)}/"
        case _:
            return f"azure:{path.replace('/', ':/', 1)}/"


def environment(location: Location, path: str, key: str) -> dict[str, str]:
    """Return the environment of restic, in the order of its exports."""
    credential = location.credential
    match location.kind:
        case StoreKind.S3:
            login = {
                "AWS_ACCESS_KEY_ID": credential.id,
                "AWS_SECRET_ACCESS_KEY": credential.secret,
            }
            if credential.token:
                login["AWS_SESSION_TOKEN"] = credential.token
        case StoreKind.GCS:
            login = {
                "GOOGLE_PROJECT_ID": credential.id,
                "GOOGLE_APPLICATION_CREDENTIALS": GOOGLE_CREDENTIALS_FILE,
            }
        case _:
            login = {
                "AZURE_ACCOUNT_NAME": credential.id,
                "AZURE_ACCOUNT_KEY": credential.secret,
            }
    url = repository_url(location, path)
    return {**login, "RESTIC_REPOSITORY": url, "RESTIC_PASSWORD": key}


def shell_command(
    exported: dict[str, str], words: Sequence[str], *, insecure_tls: bool
) -> list[str]:
    """Return the shell command that runs restic. Blueprints rely on the missing quotes."""
    exports = [f"export {name}={value}\n" for name, value in exported.items()]
    flags = ["--insecure-tls"] if insecure_tls else []
    text = " ".join([*exports, "restic", *words, *flags])
    return ["bash", "-o", "errexit", "-o", "pipefail", "-c", text]


class BackupSummary(NamedTuple):
    """Summary that restic prints at the end of a backup; missing values are empty."""

    id: str
    file_count: str = ""
    size: str = ""
    added: str = ""


def read_backup_log(log: str) -> BackupSummary:
    """Parse the output of a backup."""
    saved, processed, added = _SAVED.search(log), _PROCESSED.search(log), _ADDED.search(log)
    if saved is None:
        raise UsageError(
            "Failed to parse the backup ID from logs, no snapshot was saved",
            reason="BackupUnreadable",
        )
    return BackupSummary(
        saved[1],
        processed[1] if processed else "",
        processed[2] if processed else "",
        added[1] if added else "",
    )


def read_stats_log(log: str, mode: str = "") -> tuple[str, str]:
    """Parse the number of files in a snapshot (blobs in the mode `raw-data`), and their size."""
    counts = _STATS_BLOBS if mode == RAW_DATA else _STATS_COUNT
    count, size = counts.search(log), _STATS_SIZE.search(log)
    if count is None or size is None:
        raise UsageError("Failed to parse snapshot stats from logs", reason="StatsUnreadable")
    return count[1], size[1]


def read_only_snapshot(log: str) -> str:
    """Return the ID of the only snapshot in a list."""
    try:
        listed: list[Any] = json.loads(log) or []
        if len(listed) > 1:
            raise UsageError(
                f"Snapshot not found: there are {len(listed)} of them", reason="SnapshotNotFound"
            )
        (snapshot,) = listed
        return str(snapshot["short_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError("Snapshot not found", reason="SnapshotNotFound") from error


def read_freed_bytes(log: str) -> int:
    """Parse the number of bytes that a prune reclaimed; 0 with restic 0.12 and later."""
    match = _FREED.search(log)
    if match is None:
        return 0
    number, unit = match[1].split()
    return int(float(number) * _UNITS[unit])


def read_complaint(lines: Iterable[str]) -> str:
    """Summarize restic's error output in one line. Retries are mentioned only once."""
    ids = list[str]()
    retries, where, why = 0, "", ""
    for line in lines:
        if line.startswith("\t"):
            # A line of restic's stack trace; the preceding line contains the name of the function.
            del ids[-1:]
        elif notice := _RETRIED.fullmatch(line):
            retries += 1
            where, why = notice.groups()
        else:
            ids.append(_file_message(line) if line.startswith("{") else " ".join(line.split()))
    text = " ".join(ids[-_COMPLAINT_LINES:])
    if not retries:
        return text
    return f"{STORE_FAILED} at {where}: {why} (retries: {retries}) {text}".rstrip()


def _file_message(line: str) -> str:
    """Format a message of `backup --json` about a file that could not be read."""
    try:
        line_data = json.loads(line)
        return f"{line_data['item']} failed during {line_data['during']}"
    except (ValueError, KeyError):
        return line


def ignores_unreadable_snapshot(complaint: str) -> bool:
    """Return True if restic ignored an unreadable snapshot and reported success."""
    return _OVERLOOKED.search(complaint) is not None


def is_missing(complaint: str) -> bool:
    """Return True if there is no repository, as opposed to one without access."""
    before, separator, _ = complaint.partition(NO_REPOSITORY)
    return bool(separator and _MISSING.search(before.partition("unable to open config file")[2]))


def is_damaged(complaint: str) -> bool:
    """Return True if a check found damaged data; errors of the object store do not count."""
    found_errors = "repository contains errors" in complaint and STORE_FAILED not in complaint
    return found_errors or _DAMAGED.search(complaint) is not None
