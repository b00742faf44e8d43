"""Launcher of processes for pods, and connections to them."""

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
    """Processes for pods cannot be started on this machine."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Pods cannot run as processes here: {why}")
        self.why = why


NamespaceMode: TypeAlias = Literal["any", "user", "none"]
"""Namespaces to try: all, only user namespaces, or none."""

QUIT: Final = b"q"
"""Request to the spawner to exit."""

_START_SECONDS: Final = 30
_READ_BYTES: Final = 256 * 1024

# Runs the spawner without importing the package.
_SPAWNER: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from pods.spawner import main; "
    "main(int(sys.argv[2]), sys.argv[3], sys.argv[4])"
)


class Mount(NamedTuple):
    """File or folder of this machine, and its path in a container."""

    source: str
    target: str
    read_only: bool = False


class Launch(NamedTuple):
    """Container or exec command to start."""

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
        # Sorted by depth, so that nested mounts follow their parents.
        mounts = sorted(self.mounts, key=lambda mount: mount.target.rstrip("/").count("/"))
        plain = {
            "argv": list(self.argv),
            "env": dict(self.env),
            "mounts": [mount._asdict() for mount in mounts],
        }
        return line_of({**self._asdict(), **plain})


class Exit(NamedTuple):
    """End of a process: its exit code as in a shell, and the signal that killed it, if any."""

    code: int
    signal: int = 0


class StartFailed(Exception):
    """A process could not be started. The text is that of a container runtime.

    Never raised outside of this package.
    """

    def __init__(self, why: str, number: int | None) -> None:
        super().__init__(why)
        self.exit_code = {2: 127, 13: 126}.get(number or 0, 128)


class Reactor:
    """Thread that reads the output of all processes."""

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
        """Call `ready` when `fd` is readable, until it returns False. Then close `fd`."""
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
    """One process, controlled through its supervisor."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._rest = b""
        self._pidfd: int | None = None
        self.pid = 0
        self.exit: Exit | None = None

    def wait_started(self) -> None:
        """Wait until the command runs. Raises `StartFailed`."""
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
        """Wait until the process has ended."""
        while self.exit is None:
            line, _ = self._read_line()
            if not line:
                # The supervisor was killed, and with it the process.
                self.exit = Exit(128 + signal.SIGKILL, signal.SIGKILL)
            elif "exited" in line:
                self.exit = Exit(line["exited"], line["signal"])
        return self.exit

    def fileno(self) -> int:
        return self._control.fileno()

    @property
    def pidfd(self) -> int | None:
        """File descriptor to join the namespaces of the process."""
        return self._pidfd

    def send_signal(self, number: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._control.send(bytes((number,)))

    def detach_control(self) -> int:
        """Return a duplicate of the control socket, which the caller closes."""
        return os.dup(self._control.fileno())

    def close(self) -> None:
        """Kill the process if it is still running, and release it."""
        with self._lock:
            self._control.close()
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None

    def _read_line(self) -> tuple[dict[str, Any], list[int]]:
        fds: list[int] = []
        while b"\n" not in self._rest:
            try:
                data, received, _, _ = socket.recv_fds(
                    self._control, 4096, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
                )
            except OSError:
                data, received = b"", []
            fds += received
            if not data:
                return {}, fds
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return message_of(line), fds


class Launcher:
    """Starts all processes of pods, through a spawner process.

    All processes end with the launcher, and with this process even if it is killed. `namespaces`
    is empty if there are none, and `why` is the reason. Both wait until the spawner is ready.
    """

    def __init__(self, folder: Path, *, mode: NamespaceMode = "any") -> None:
        """Start the spawner. It removes `folder` when this process has ended."""
        own_end, child_end = socket.socketpair()
        (folder / "probe").mkdir(exist_ok=True)
        package = Path(__file__).parent.parent
        log = (folder / "spawner.log").open("wb")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a program of this package
                [
                    sys.executable,
                    "-I",
                    "-S",
                    # By default, it writes bytecode if this process does.
                    *(("-B",) if sys.dont_write_bytecode else ()),
                    "-c",
                    _SPAWNER,
                    str(package),
                    str(child_end.fileno()),
                    str(folder),
                    mode,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(child_end.fileno(),),
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as error:
            own_end.close()
            raise ProcessesUnavailable(error.strerror or str(error)) from error
        finally:
            child_end.close()
            log.close()
        self._channel = own_end
        self._lock = threading.Lock()
        self._log = folder / "spawner.log"
        self._greeting: Mapping[str, str] | None = None
        self._greeting_lock = threading.Lock()

    @property
    def _capabilities(self) -> Mapping[str, str]:
        """Capabilities of this machine. Waits until the spawner is ready."""
        # The message is sent once: of two concurrent readers, one would wait forever.
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
            raise ProcessesUnavailable(lines[-1] if lines else "the spawner exited immediately")
        return message_of(line)

    def wait_until_ready(self) -> None:
        """Wait until processes can be started. Raises `ProcessesUnavailable`."""
        self._capabilities  # noqa: B018 - reads what the spawner sends when it is ready

    @property
    def namespaces(self) -> str:
        return self._capabilities["namespaces"]

    @property
    def why(self) -> str:
        return self._capabilities["why"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self, launch: Launch, *, stdin: int, stdout: int, stderr: int, inside: Process | None = None
    ) -> Process:
        """Start a process. The streams are duplicated and can be closed afterwards."""
        own_end, child_end = socket.socketpair()
        try:
            with child_end, tempfile.TemporaryFile() as spec:
                spec.write(launch.as_bytes())
                spec.flush()
                fds = [spec.fileno(), child_end.fileno(), stdin, stdout, stderr]
                if inside is not None and inside.pidfd is not None:
                    fds.append(inside.pidfd)
                self._send(fds)
        except BaseException:
            own_end.close()
            raise
        return Process(own_end)

    def _send(self, fds: list[int]) -> None:
        try:
            with self._lock:
                socket.send_fds(self._channel, [b"s"], fds)
        except OSError as error:
            raise StartFailed("the spawner has exited", None) from error

    def close(self) -> None:
        """Kill all processes. The caller removes the folder."""
        with contextlib.suppress(OSError):
            self._channel.send(QUIT)
        self._channel.close()
        try:
            self._process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def drain(fd: int, take: Callable[[bytes], None]) -> bool:
    """Read available data from a non-blocking pipe. Returns False at its end."""
    try:
        data = os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return True
    if data:
        take(data)
    return bool(data)
