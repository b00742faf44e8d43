"""Uploads, downloads and deletions on an S3 server, compared with rclone."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.wiring import object_stores
from tests.bench.measure import Row
from tests.kando.printed import printed
from tests.stores import running_store

TITLE = "Object stores"
MEBIBYTES = int(os.environ.get("BENCH_MEBIBYTES", "2048"))
OBJECTS = 10_000
ROUNDS = 7
_KANDO = (
    "import resource, sys\n"
    "from kanister_py.kando.command import main\n"
    "code = main()\n"
    "sys.stderr.write(f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}\\n')\n"
    "sys.exit(code)\n"
)


def rows() -> list[Row]:
    if shutil.which("rclone") is None:
        return [Row("rclone is not installed", "", "", holds=True)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        _fill(source)
        with ExitStack() as stack:
            with _with_priority():
                store = running_store(StoreKind.S3, Path(folder) / "s3")
                location = stack.enter_context(store)
            return [*_moving(location, source), _deleting(location)]


@contextmanager
def _with_priority() -> Iterator[None]:
    """Give this process and new children real-time priority, if permitted.

    On a busy machine every thread gets a share, and rclone has a dozen threads while kando has one.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _moving(location: Location, source: Path) -> list[Row]:
    env, bucket = _environment(location), location.bucket
    program = source.with_name("kando.py")
    program.write_text(_KANDO)
    kando = f"{sys.executable} {program} location"
    flags = '-p "$PROFILE" 2>>peak'
    rclone = "rclone -q --s3-no-check-bucket"

    def timed(command: str) -> Callable[[], float]:
        def run() -> float:
            began = time.monotonic()
            subprocess.run(
                ["bash", "-o", "pipefail", "-c", command], env=env, cwd=source.parent, check=True
            )
            return time.monotonic() - began

        return run

    push = _in_turns(
        timed(f"cat {source} | {kando} push -s a - {flags}"),
        timed(f"cat {source} | {rclone} rcat s:{bucket}/b --s3-chunk-size 8M"),
        rounds=1,
    )
    with _with_priority():
        pull = _in_turns(
            timed(f"{kando} pull -s a - {flags} >/dev/null"),
            timed(f"{rclone} cat s:{bucket}/a >/dev/null"),
        )
        piped = _in_turns(
            timed(f"{kando} pull -s a - {flags} | cat >/dev/null"),
            timed(f"{rclone} cat s:{bucket}/a | cat >/dev/null"),
        )
    peak = max(map(int, source.with_name("peak").read_text().split()))
    return [
        _compared(f"push of {MEBIBYTES} MiB", *push, 1 / 0.9),
        _compared(f"pull of {MEBIBYTES} MiB, checksums compared", *pull, 1 / 0.9),
        _compared("the same through a pipe", *piped, 1 / 0.9),
        Row("memory of kando", f"{peak} MiB", "<= 96 MiB", holds=peak <= 96),
    ]


def _deleting(location: Location) -> Row:
    store, env = object_stores().open(location), _environment(location)
    store.delete(obj.key for obj in store.list(""))

    def ours() -> float:
        began = time.monotonic()
        store.delete(obj.key for obj in store.list("many/"))
        return time.monotonic() - began

    def theirs() -> float:
        began = time.monotonic()
        command = ["rclone", "-q", "--s3-no-check-bucket", "delete", f"s:{location.bucket}/many"]
        subprocess.run(command, env=env, check=True)
        return time.monotonic() - began

    def filled(call: Callable[[], float]) -> float:
        for number in range(OBJECTS):
            store.put(f"many/{number}", [b"x"])
        return call()

    return _compared(f"deletion of {OBJECTS} objects", filled(ours), filled(theirs), 1.2)


def _in_turns(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Take turns, and return the medians of both times."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return statistics.median(one for one, _ in pairs), statistics.median(
        other for _, other in pairs
    )


def _compared(name: str, ours: float, theirs: float, limit: float) -> Row:
    ratio = ours / theirs
    return Row(
        name,
        f"{ours:.2f} s, rclone {theirs:.2f} s: {ratio:.2f}",
        f"<= {limit:.2f} of rclone",
        holds=ratio <= limit,
    )


def _fill(file: Path) -> None:
    piece = os.urandom(16 * 2**20)
    with file.open("wb") as opened:
        for _ in range(MEBIBYTES // 16):
            opened.write(piece)


def _environment(location: Location) -> Mapping[str, str]:
    config = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": location.endpoint,
        "ACCESS_KEY_ID": location.credential.id,
        "SECRET_ACCESS_KEY": location.credential.secret,
        "REGION": location.region,
    }
    kept = {key: setting for key, setting in os.environ.items() if key != "AWS_CA_BUNDLE"}
    return {
        **kept,
        **{f"RCLONE_CONFIG_S_{key}": setting for key, setting in config.items()},
        "PROFILE": printed(location),
    }
