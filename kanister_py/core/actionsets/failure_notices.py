"""Failure notices: a webhook's request about a failed run, or about the first good one since.

A Schedule or a Blueprint names a Secret of its namespace in the annotation
`kanister-py.io/notify`; the Secret has an `url`, and a `key` that notices are signed with.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kanister_py.core.errors import UsageError

NOTIFY: Final = "kanister-py.io/notify"
FAILED: Final = "failed"
RECOVERED: Final = "recovered"
_PORTS: Final = {"http": 80, "https": 443}


class ActOfRun(NamedTuple):
    """One action of a run: of which Blueprint, and on what."""

    blueprint: str
    action: str
    object: str


class RunEnd(NamedTuple):
    """The end of an ActionSet. Nothing of it can hold a secret: no message, no output, no log."""

    event: str
    namespace: str
    name: str
    uid: str
    schedule: str
    actions: Sequence[ActOfRun]
    ended_at: str
    reason: str = ""
    phase: str = ""


class Receiver(NamedTuple):
    """The address that notices go to, and the key that signs them."""

    url: str
    key: bytes


def body_of(end: RunEnd) -> bytes:
    """Write a notice down, the same for each attempt to deliver it."""
    content = {
        "version": 1,
        "event": end.event,
        "namespace": end.namespace,
        "actionSet": end.name,
        "uid": end.uid,
        "schedule": end.schedule,
        "actions": [each._asdict() for each in end.actions],
        "endedAt": end.ended_at,
        "reason": end.reason,
        "phase": end.phase,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def headers_of(end: RunEnd, body: bytes, key: bytes, seconds: int) -> dict[str, str]:
    """Sign a notice, and the moment at which it is sent: an old one cannot be sent again."""
    signature = hmac.new(key, b"%d.%b" % (seconds, body), "sha256").hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "kanister-py",
        # The same for each attempt, and after a restart: a receiver may drop what it has seen.
        "X-Kanister-Py-Delivery": f"{end.uid}-{end.event}",
        "X-Kanister-Py-Timestamp": str(seconds),
        "X-Kanister-Py-Signature": f"sha256={signature}",
    }


def receiver_of(secret: Mapping[str, Any], origins: Sequence[str]) -> Receiver:
    """Read where notices go, if the operator of the controller allows that."""
    data = secret.get("data") or {}
    try:
        url, key = (base64.b64decode(str(data[each]), validate=True) for each in ("url", "key"))
        address = url.decode().strip()
    except (KeyError, binascii.Error, UnicodeDecodeError):
        raise UsageError(
            "The Secret needs `url` and `key`, which notices are signed with",
            reason="NoticeReceiverInvalid",
        ) from None
    if not key:
        raise UsageError(
            "The Secret's `key` is empty: nobody could tell our notices from others",
            reason="NoticeReceiverInvalid",
        )
    origin = origin_of(address)
    if origin not in origins:
        raise UsageError(
            f"Notices may not go to {origin or 'what its `url` says'}: the controller is started "
            "with --notify ORIGIN for each place that they may go to",
            reason="NoticeReceiverRefused",
        )
    return Receiver(address, key)


def origin_of(url: str) -> str:
    """Give scheme, host and port of an address; empty for one that is none, or names a user."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc or "\\" in url:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]}"
