"""Failure notices: webhook requests about failed runs, and about the first success after a failure.

A Schedule or a Blueprint names a Secret of its namespace in the annotation `kanister-py.io/notify`.
The Secret has a `url`, and a `key` for signing the notices.
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
    """Action of a run, with its Blueprint and object."""

    blueprint: str
    action: str
    object: str


class RunEnd(NamedTuple):
    """End of an ActionSet. Messages, outputs and logs are left out: they can contain secrets."""

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
    """URL that receives notices, and the key for signing them."""

    url: str
    key: bytes


def body_of(end: RunEnd) -> bytes:
    """Return the body of a notice. It is equal for all delivery attempts."""
    content = {
        "version": 1,
        "event": end.event,
        "namespace": end.namespace,
        "actionSet": end.name,
        "uid": end.uid,
        "schedule": end.schedule,
        "actions": [action._asdict() for action in end.actions],
        "endedAt": end.ended_at,
        "reason": end.reason,
        "phase": end.phase,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def headers_of(end: RunEnd, body: bytes, key: bytes, seconds: int) -> dict[str, str]:
    """Return the headers of a notice. `seconds` is the current Unix time.

    The signature covers the time and the body, so that receivers can reject replayed requests.
    """
    signature = hmac.new(key, b"%d.%b" % (seconds, body), "sha256").hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "kanister-py",
        # The same for all attempts, even after a restart, so that receivers can drop duplicates.
        "X-Kanister-Py-Delivery": f"{end.uid}-{end.event}",
        "X-Kanister-Py-Timestamp": str(seconds),
        "X-Kanister-Py-Signature": f"sha256={signature}",
    }


def receiver_of(secret: Mapping[str, Any], origins: Sequence[str]) -> Receiver:
    """Read the receiver from its Secret. Raises UsageError if its origin is not allowed."""
    data = secret.get("data") or {}
    try:
        url, key = (base64.b64decode(str(data[name]), validate=True) for name in ("url", "key"))
        address = url.decode().strip()
    except (KeyError, binascii.Error, UnicodeDecodeError):
        raise UsageError(
            "The Secret needs a `url` and a `key` for signing notices",
            reason="NoticeReceiverInvalid",
        ) from None
    if not key:
        raise UsageError(
            "The Secret's `key` is empty: receivers could not verify notices",
            reason="NoticeReceiverInvalid",
        )
    origin = origin_of(address)
    if origin not in origins:
        raise UsageError(
            f"Notices to {origin or 'the `url` of the Secret'} are not allowed: start the "
            "controller with --notify ORIGIN for every allowed receiver",
            reason="NoticeReceiverRefused",
        )
    return Receiver(address, key)


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; empty if it is invalid or contains a user."""
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
