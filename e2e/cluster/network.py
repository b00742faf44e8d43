"""A private network in which every pod can have an address of its own."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Final

from kanister_py.embedded.pods.linux import CLONE_NEWUSER, unshare

POD_NETWORK: Final = ipaddress.IPv4Network("10.87.0.0/16")
"""What lies on the loopback device of our own network: each address of it is this machine."""

VARIABLE: Final = "KANISTER_PY_E2E_POD_NETWORK"
"""Tells processes that they are inside, and what range pods may take addresses from."""

_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFADDR: Final = 0x8916
_SIOCSIFNETMASK: Final = 0x891C
_IFF_UP: Final = 0x1
_IFF_RUNNING: Final = 0x40


class NetworkRefused(Exception):
    """The kernel refuses a private network."""


def pod_network() -> ipaddress.IPv4Network | None:
    """Return the range for addresses of pods; empty without a private network."""
    setting = os.environ.get(VARIABLE)
    return ipaddress.IPv4Network(setting) if setting else None


def enter_own_network() -> None:
    """Move this process into a network namespace that has only loopback.

    This affects the process and all its children: nothing outside is reachable. Raises
    `NetworkRefused` and changes nothing if the kernel does not allow it.
    """
    if threading.active_count() > 1:
        raise NetworkRefused("a process with threads cannot change its user namespace")
    uid, gid = os.getuid(), os.getgid()
    try:
        unshare(CLONE_NEWUSER | _CLONE_NEWNET)
    except OSError as error:
        raise NetworkRefused(f"user and network namespaces: {error.strerror}") from error
    # Become root inside, regardless of the user outside: otherwise the next program could not
    # configure the network.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    _raise_loopback()
    os.environ[VARIABLE] = str(POD_NETWORK)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.pack("16sh14x", b"lo", _IFF_UP | _IFF_RUNNING)
        fcntl.ioctl(control, _SIOCSIFFLAGS, flags)
        # The kernel accepts a whole range on a loopback device.
        for request, address in (
            (_SIOCSIFADDR, POD_NETWORK.network_address + 1),
            (_SIOCSIFNETMASK, POD_NETWORK.netmask),
        ):
            ifreq = struct.pack(
                "16sHH4s8x", b"lo:pods", socket.AF_INET, 0, socket.inet_aton(str(address))
            )
            fcntl.ioctl(control, request, ifreq)
