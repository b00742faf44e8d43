"""Spawner: small process that forks all processes of all pods.

It has one thread, so that PR_SET_PDEATHSIG, which refers to the parent thread, is reliable. It
forks quickly because it is small. All its processes end with it, and it ends when the other end of
its channel is closed.

A container has three processes: a supervisor outside (`_supervise`), which forwards signals and
reports the exit; process 1 of the container, which reaps orphans, and whose end makes the kernel
kill all others; and the command. This module runs without the package: standard library only.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from . import OWN_FOLDERS, line_of, linux, message_of

_NAMESPACES: Final = (
    linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWPID
)
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
_FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_MAX_LINKS: Final = 40
_OWN_BYTES: Final = 16 << 20
"""Size of file systems in memory that replace folders. Files belong on volumes."""
_MOST_FDS: Final = 8
_CLOSE_ON_EXEC: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def main(channel_fd: int, folder: str, mode: str) -> None:
    """Report the capabilities of this machine, then start processes until the channel is closed.

    Finally remove `folder`, because the parent may have been killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=channel_fd)
    namespaces, why = "", "they are disabled"
    if mode != "none":
        namespaces, why = _probe(f"{folder}/probe", mode)
    # Children need not be reaped: their supervisors report to the client.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    channel.sendall(line_of({"namespaces": namespaces, "why": why}))
    parent = os.getpid()
    while True:
        request, fds = _receive(channel)
        if request != b"s":
            if not request and os.fork() == 0:
                _exit_after(lambda: _remove(folder))
            os._exit(0)
        if os.fork() == 0:
            _exit_after(lambda: _start(fds, namespaces, parent, channel))  # noqa: B023 - called at once
        for fd in fds:
            os.close(fd)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a request of one byte with its file descriptors."""
    request, fds, _, _ = socket.recv_fds(channel, 1, _MOST_FDS, _CLOSE_ON_EXEC)
    return request, fds


def _remove(folder: str) -> None:
    """Remove a folder into which processes that are being killed may still write."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.05)


def _start(fds: list[int], namespaces: str, parent: int, channel: socket.socket) -> None:
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    spec_fd, control_fd, *streams = fds
    os.lseek(spec_fd, 0, os.SEEK_SET)
    spec = message_of(_read_all(spec_fd))
    control = socket.socket(fileno=control_fd)
    try:
        _supervise(spec, control, streams, namespaces, parent)
    except OSError as error:
        _send_message(control, {"failed": error.strerror or str(error), "errno": error.errno})


def _supervise(
    spec: dict[str, Any], control: socket.socket, fds: list[int], namespaces: str, parent: int
) -> None:
    """Start a container or exec command, forward signals, and report its exit."""
    streams, target = fds[:3], fds[3:]
    is_exec: bool = spec["is_exec"]
    if namespaces and is_exec:
        user = linux.CLONE_NEWUSER if namespaces == "user" else 0
        linux.setns(target[0], _NAMESPACES | user)
        os.close(target[0])
    elif namespaces:
        _unshare(namespaces)
    if sys.platform == "linux":
        linux.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            return
    wake = _wake_on_exits()
    report, report_write = os.pipe()
    result, result_write = os.pipe()
    alive, alive_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for fd in (report, result, alive_write, control.detach()):
            os.close(fd)
        _die_with(alive)
        if namespaces and not is_exec:
            _exit_after(lambda: _run_as_init(spec, streams, report_write, result_write))
        os.close(result_write)
        _exit_after(lambda: _run_command(spec, streams, report_write))
    for fd in (*streams, report_write, result_write, alive):
        os.close(fd)
    failure = _read_all(report)
    if failure:
        os.waitpid(pid, 0)
        control.sendall(failure)
        return
    _report_started(control, pid)
    kill = _kill_group if is_exec or not namespaces else _kill_process
    status = _follow(pid, control, wake, kill)
    if not is_exec:
        if not namespaces:
            # With namespaces, the kernel has killed the rest of the container.
            _kill_group(pid, signal.SIGKILL)
        report_text = _read_all(result)
        status = int(report_text) if report_text else status
    code = os.waitstatus_to_exitcode(status)
    _send_message(control, {"exited": 128 - code if code < 0 else code, "signal": max(0, -code)})


def _wake_on_exits() -> int:
    """Return a pipe that becomes readable when a child exits."""
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    return wake


def _die_with(alive: int) -> None:
    """End with the parent, or immediately if it has ended and closed its end of `alive`."""
    if sys.platform == "linux":
        linux.die_with_parent(signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        os._exit(0)
    os.close(alive)


def _follow(pid: int, control: socket.socket, wake: int, kill: Callable[[int, int], None]) -> int:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        for fd, _ in poll.poll():
            if fd == wake:
                os.read(wake, 4096)
                continue
            signals = control.recv(64)
            if not signals:
                # The client has closed the connection.
                kill(pid, signal.SIGKILL)
                poll.unregister(control)
            for number in signals:
                kill(pid, number)


def _unshare(namespaces: str) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if namespaces == "user":
        linux.unshare(linux.CLONE_NEWUSER | _NAMESPACES)
        linux.map_own_ids(uid, gid)
    else:
        linux.unshare(_NAMESPACES)


def _run_as_init(spec: dict[str, Any], streams: list[int], report: int, result: int) -> None:
    """Run as process 1 of a container: build the root, run the command, and reap orphans."""
    try:
        build_root(spec)
        if spec["hostname"]:
            socket.sethostname(spec["hostname"][:63])
    except OSError as error:
        _report(report, error)
        return
    command = os.fork()
    if command == 0:
        os.close(result)
        _exit_after(lambda: _run_command(spec, streams, report))
    # Set handlers before reporting the start: process 1 ignores signals without a handler.
    for forwarded in _FORWARDED:
        signal.signal(forwarded, lambda number, _: _kill_process(command, number))
    os.close(report)
    for fd in streams:
        os.close(fd)
    while True:
        pid, status = os.wait()
        if pid == command:
            os.write(result, str(status).encode())
            return


def _run_command(spec: dict[str, Any], streams: list[int], report: int) -> None:
    try:
        os.setsid()
        for number in (*_FORWARDED, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        folder = spec["folder"]
        with suppress(OSError):
            # Container runtimes create missing working folders.
            Path(folder).mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        for place, fd in enumerate(streams):
            os.dup2(fd, place)
        argv = spec["argv"]
    except OSError as error:
        _report(report, error)
        return
    try:
        os.execvpe(argv[0], argv, spec["env"])  # noqa: S606 - starts the command
    except (OSError, ValueError) as error:
        _report(report, error, spec["argv"][0])


def build_root(spec: dict[str, Any]) -> None:
    """Build a private root: folders of this machine, a private /tmp and /dev, and the mounts.

    If a mount point is missing in a folder of the machine, the folder is replaced by a copy that
    consists of mounts. Nothing is created on the machine.
    """
    root: str = spec["root"]
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NODEV, f"mode=0755,size={_OWN_BYTES}")
    own = {root: True}
    for entry in os.scandir("/"):
        # The private folders of the pod are created below.
        if entry.name not in OWN_FOLDERS:
            _expose(entry, f"{root}/{entry.name}")
            own[f"{root}/{entry.name}"] = False
    temporary, devices = f"{root}/tmp", f"{root}/dev"  # noqa: S108 - in the private root
    Path(temporary).mkdir()
    linux.bind(spec["tmp"], temporary)
    _make_devices(devices)
    own |= {temporary: True, devices: True}
    _make_proc(f"{root}/proc")
    writable = [temporary, devices, f"{root}/proc"]
    for mount in spec["mounts"]:
        is_folder = Path(mount["source"]).is_dir()
        if spec["has_read_only_root"] and is_folder and not mount["read_only"]:
            _mirror_parents(root, mount["target"], own)
        place = _mount_point(root, mount["target"], own, is_folder=is_folder)
        linux.bind(mount["source"], place, read_only=mount["read_only"])
        own[place] = not mount["read_only"]
        writable += [] if mount["read_only"] else [place]
    if spec["has_read_only_root"]:
        private = [place for place, is_own in own.items() if is_own]
        linux.make_tree_read_only(root, private, below=writable)
    linux.change_root(root)


def _make_proc(folder: str) -> None:
    Path(folder).mkdir()
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    try:
        linux.mount("proc", folder, "proc", flags)
    except OSError:
        # Inside of a container with a masked /proc, a new one cannot be mounted.
        linux.bind("/proc", folder)


def _make_devices(folder: str) -> None:
    Path(folder).mkdir()
    linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID, "mode=0755")
    for name in _DEVICES:
        if Path(f"/dev/{name}").exists():
            linux.touch(f"{folder}/{name}")
            linux.bind(f"/dev/{name}", f"{folder}/{name}")
    Path(f"{folder}/shm").mkdir()
    linux.mount("tmpfs", f"{folder}/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")
    if Path("/dev/pts").is_dir():
        Path(f"{folder}/pts").mkdir()
        linux.bind("/dev/pts", f"{folder}/pts")
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ):
        Path(f"{folder}/{name}").symlink_to(target)


def _expose(entry: os.DirEntry[str], place: str, source: str = "") -> None:
    """Make a file or folder appear at a second path."""
    source = source or entry.path
    # Files that the user cannot access are left out.
    with suppress(PermissionError):
        if entry.is_symlink():
            Path(place).symlink_to(Path(source).readlink())
        elif entry.is_dir():
            Path(place).mkdir()
            linux.bind(source, place)
        elif stat.S_ISREG(entry.stat().st_mode) or stat.S_ISSOCK(entry.stat().st_mode):
            linux.touch(place)
            linux.bind(source, place)


def _mount_point(root: str, target: str, own: dict[str, bool], *, is_folder: bool) -> str:
    """Return the path of a mount point, created if necessary. Resolves links in the new root."""
    waiting = [part for part in target.split("/") if part not in {"", "."}][::-1]
    at, links = root, 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = at.rpartition("/")[0] if at != root else root
            continue
        path = f"{at}/{part}"
        if Path(path).is_symlink():
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, f"too many links in {target}")
            aim = str(Path(path).readlink())
            if aim.startswith("/"):
                at = root
            waiting += [piece for piece in aim.split("/") if piece not in {"", "."}][::-1]
            continue
        if not Path(path).exists():
            if not _is_own(at, own):
                _mirror(at, own)
            if waiting or is_folder:
                Path(path).mkdir()
            else:
                linux.touch(path)
        at = path
    return at


def _is_own(path: str, own: dict[str, bool]) -> bool:
    while path not in own:
        path = path.rpartition("/")[0]
    return own[path]


def _mirror_parents(root: str, target: str, own: dict[str, bool]) -> None:
    """Replace the parents of a mount point by folders of mounts.

    A restore sets owners, modes and times of all folders above the files that it writes.
    """
    at = root
    for part in [part for part in target.split("/") if part not in {"", "."}][:-1]:
        at = f"{at}/{part}"
        if part == ".." or Path(at).is_symlink() or not Path(at).is_dir():
            return
        if not _is_own(at, own):
            _mirror(at, own)


def _mirror(folder: str, own: dict[str, bool]) -> None:
    """Replace a folder by a folder of mounts, in which files can be created."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        was = os.fstat(fd)
        entries = list(os.scandir(f"/proc/self/fd/{fd}"))
        options = f"mode={was.st_mode & 0o7777:o},size={_OWN_BYTES}"
        linux.mount("tmpfs", folder, "tmpfs", linux.MS_NODEV, options)
        own[folder] = True
        with suppress(OSError):
            os.chown(folder, was.st_uid, was.st_gid)
        for entry in entries:
            source = f"/proc/self/fd/{fd}/{entry.name}"
            _expose(entry, f"{folder}/{entry.name}", source)
            own[f"{folder}/{entry.name}"] = False
    finally:
        os.close(fd)


def _probe(folder: str, mode: str) -> tuple[str, str]:
    """Return the kind of namespaces that work (root, user or none), and the reason if none does."""
    if sys.platform != "linux":
        return "", "only Linux has namespaces"
    if not hasattr(os, "pidfd_open"):
        return "", "this Python has no pidfd_open"
    why = ""
    for namespaces in ("root", "user") if os.geteuid() == 0 and mode == "any" else ("user",):
        why = _try(namespaces, folder)
        if not why:
            return namespaces, ""
    return "", why


def _try(namespaces: str, folder: str) -> str:
    report, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _exit_after(lambda: _try_inside(namespaces, folder, report_write))
    os.close(report_write)
    report_text = _read_all(report)
    os.waitpid(pid, 0)
    return str(message_of(report_text)["failed"]) if report_text else ""


def _try_inside(namespaces: str, folder: str, report: int) -> None:
    try:
        _unshare(namespaces)
        pid = os.fork()
        if pid == 0:
            _exit_after(lambda: _try_mount(folder, report))
        os.close(report)
        fd = os.pidfd_open(pid)
        os.close(fd)
        os.waitpid(pid, 0)
    except OSError as error:
        _report(report, error)


def _try_mount(folder: str, report: int) -> None:
    try:
        linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
        linux.mount("tmpfs", folder, "tmpfs")
        Path(f"{folder}/seen").mkdir()
        linux.bind("/usr", f"{folder}/seen", read_only=True)
        linux.change_root(folder)
    except OSError as error:
        _report(report, error)


def _exit_after(work: Callable[[], None]) -> NoReturn:
    """Run a function in a forked child, which must never return to the code of its parent."""
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - the child must not return
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(70)
    os._exit(0)


def _report(fd: int, error: Exception, program: str = "") -> None:
    number = getattr(error, "errno", 0)
    text = getattr(error, "strerror", None) or str(error)
    if program:
        if number == errno.ENOENT and "/" not in program:
            text = "executable file not found in $PATH"
        text = f'exec: "{program}": {text[:1].lower()}{text[1:]}'
    os.write(fd, line_of({"failed": text, "errno": number}))


def _send_message(control: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):
        control.sendall(line_of(message))


def _report_started(control: socket.socket, pid: int) -> None:
    """Report the start, with a pidfd if available, because process IDs can be reused."""
    line = line_of({"started": pid})
    with suppress(OSError):
        if hasattr(os, "pidfd_open"):
            fd = os.pidfd_open(pid)
            socket.send_fds(control, [line], [fd])
            os.close(fd)
        else:
            control.sendall(line)


def _kill_process(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _read_all(fd: int) -> bytes:
    data = b""
    while chunk := os.read(fd, 65536):
        data += chunk
    os.close(fd)
    return data
