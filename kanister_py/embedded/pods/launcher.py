"""Launcher of processes for pods, and the channels to them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kanister_py.core.errors import UsageError
from kanister_py.embedded.pods import line_of, message_of


class ProcessesUnavailable(UsageError, reason="ProcessesUnavailable"):
    """Processes for pods cannot be started on this machine at all."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Pods cannot run as processes here: {why}")
        self.why = why


Wanted: TypeAlias = Literal["any", "user", "none"]
"""Namespaces to try: all there are, those an ordinary user gets, or none."""

QUIT: Final = b"q"
"""Asks the process that starts others to end, in place of a process to start."""

_START_SECONDS: Final = 30
_READ_BYTES: Final = 256 * 1024

# Runs the spawner out of its file, without the package and all that it imports.
_SPAWNER: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from pods.spawner import main; "
    "main(int(sys.argv[2]), sys.argv[3], sys.argv[4])"
)


class Mount(NamedTuple):
    """A file or folder of this machine, and where a container sees it."""

    source: str
    target: str
    read_only: bool = False


class Launch(NamedTuple):
    """A container to start, or a command in one."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str = "/"
    hostname: str = ""
    root: str = ""
    tmp: str = ""
    mounts: Sequence[Mount] = ()
    is_exec: bool = False
    has_read_only_root: bool = False

    def as_bytes(self) -> bytes:
        # In order of depth, so that a mount inside another one comes after it.
        mounts = sorted(self.mounts, key=lambda mount: mount.target.rstrip("/").count("/"))
        plain = {
            "argv": list(self.argv),
            "env": dict(self.env),
            "mounts": [mount._asdict() for mount in mounts],
        }
        return line_of({**self._asdict(), **plain})


class Exit(NamedTuple):
    """End of a process: its code as a shell has it, and the signal, if one killed it."""

    code: int
    signal: int = 0


class StartFailed(Exception):
    """A process could not be started; the text says why as a container runtime does.

    It never leaves this package.
    """

    def __init__(self, why: str, number: int | None) -> None:
        super().__init__(why)
        self.exit_code = {2: 127, 13: 126}.get(number or 0, 128)


class Reactor:
    """One thread that reads what processes write, for all of them."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, Callable[[], bool]]] = []
        self._is_closed = False
        self._wake, self._wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="pods-reader", daemon=True)
        self._thread.start()

    def watch(self, fd: int, ready: Callable[[], bool]) -> None:
        """Call `ready` whenever there is something to read, until it answers false.

        Then `fd` is closed.
        """
        with self._lock:
            self._waiting.append((fd, ready))
        os.write(self._wake_write, b"x")

    def close(self) -> None:
        self._is_closed = True
        os.write(self._wake_write, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        os.close(self._wake_write)

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select():
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    with self._lock:
                        waiting, self._waiting = self._waiting, []
                    for fd, ready in waiting:
                        self._selector.register(fd, selectors.EVENT_READ, ready)
                elif not key.data():
                    self._selector.unregister(key.fd)
                    os.close(key.fd)


class Process:
    """One process that was started, seen through its supervisor."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._rest = b""
        self._pidfd: int | None = None
        self.pid = 0
        self.exit: Exit | None = None

    def wait_started(self) -> None:
        """Come back when the command runs; `StartFailed` says why it does not."""
        while True:
            line, fds = self._read_line()
            if fds:
                self._pidfd = fds[0]
            if "started" in line:
                self.pid = line["started"]
                return
            if not line or "failed" in line:
                self.close()
                why = line.get("failed", "the process was killed before it started")
                raise StartFailed(why, line.get("errno"))

    def wait_exited(self) -> Exit:
        """Come back when the process has ended."""
        while self.exit is None:
            line, _ = self._read_line()
            if not line:
                # The supervisor itself was killed, and took the process with it.
                self.exit = Exit(128 + signal.SIGKILL, signal.SIGKILL)
            elif "exited" in line:
                self.exit = Exit(line["exited"], line["signal"])
        return self.exit

    def fileno(self) -> int:
        return self._control.fileno()

    @property
    def pidfd(self) -> int | None:
        """The file by which other processes can join this one's namespaces."""
        return self._pidfd

    def send_signal(self, number: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._control.send(bytes((number,)))

    def detach_control(self) -> int:
        """Give a copy of the channel, which its taker closes."""
        return os.dup(self._control.fileno())

    def close(self) -> None:
        """Let go of the process; what still runs is killed."""
        with self._lock:
            self._control.close()
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None

    def _read_line(self) -> tuple[dict[str, Any], list[int]]:
        fds: list[int] = []
        while b"\n" not in self._rest:
            try:
                data, found, _, _ = socket.recv_fds(
                    self._control, 4096, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
                )
            except OSError:
                data, found = b"", []
            fds += found
            if not data:
                return {}, fds
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return message_of(line), fds


class Launcher:
    """The source of all processes of pods, and of what this machine offers them.

    Everything it started ends with it, and with our own process however that
    ends. `namespaces` is empty where there are none; `why` then says why. Both
    wait until the first process is there, which starts beside our own.
    """

    def __init__(self, folder: Path, *, wanted: Wanted = "any") -> None:
        """Start the first process; when our own is gone, it removes `folder`."""
        ours, theirs = socket.socketpair()
        (folder / "probe").mkdir(exist_ok=True)
        package = Path(__file__).parent.parent
        log = (folder / "spawner.log").open("wb")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    sys.executable,
                    "-I",
                    "-S",
                    # Otherwise it keeps what it compiled, as our own process does.
                    *(("-B",) if sys.dont_write_bytecode else ()),
                    "-c",
                    _SPAWNER,
                    str(package),
                    str(theirs.fileno()),
                    str(folder),
                    wanted,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as error:
            ours.close()
            raise ProcessesUnavailable(error.strerror or str(error)) from error
        finally:
            theirs.close()
            log.close()
        self._channel = ours
        self._lock = threading.Lock()
        self._log = folder / "spawner.log"
        self._greeting: Mapping[str, str] | None = None
        self._greeting_lock = threading.Lock()

    @property
    def _offer(self) -> Mapping[str, str]:
        """Say what this machine offers; comes back when processes can be started."""
        # It comes once: of two that listen at the same time, one would wait in vain.
        with self._greeting_lock:
            if self._greeting is None:
                self._greeting = self._read_greeting()
            return self._greeting

    def _read_greeting(self) -> Mapping[str, str]:
        line = b""
        with contextlib.suppress(OSError):
            self._channel.settimeout(_START_SECONDS)
            while not line.endswith(b"\n") and (data := self._channel.recv(4096)):
                line += data
            self._channel.settimeout(None)
        if not line.endswith(b"\n"):
            self.close()
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
            raise ProcessesUnavailable(lines[-1] if lines else "its first process ended at once")
        return message_of(line)

    def wait_until_ready(self) -> None:
        """Wait until processes can be started; `ProcessesUnavailable` says why they cannot."""
        self._offer  # noqa: B018 - reads what the spawner sends when it is ready

    @property
    def namespaces(self) -> str:
        return self._offer["namespaces"]

    @property
    def why(self) -> str:
        return self._offer["why"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self, launch: Launch, *, stdin: int, stdout: int, stderr: int, inside: Process | None = None
    ) -> Process:
        """Start a process. The streams are taken over as they are and may be closed then."""
        ours, theirs = socket.socketpair()
        try:
            with theirs, tempfile.TemporaryFile() as spec:
                spec.write(launch.as_bytes())
                spec.flush()
                fds = [spec.fileno(), theirs.fileno(), stdin, stdout, stderr]
                if inside is not None and inside.pidfd is not None:
                    fds.append(inside.pidfd)
                self._send(fds)
        except BaseException:
            ours.close()
            raise
        return Process(ours)

    def _send(self, fds: list[int]) -> None:
        try:
            with self._lock:
                socket.send_fds(self._channel, [b"s"], fds)
        except OSError as error:
            raise StartFailed("the process that starts others has ended", None) from error

    def close(self) -> None:
        """End everything that was started here; the caller removes the folder."""
        with contextlib.suppress(OSError):
            self._channel.send(QUIT)
        self._channel.close()
        try:
            self._process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def drain(fd: int, take: Callable[[bytes], None]) -> bool:
    """Read what is there from a pipe that does not block; false at its end."""
    try:
        data = os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return True
    if data:
        take(data)
    return bool(data)
