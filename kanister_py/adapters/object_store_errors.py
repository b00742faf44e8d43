"""Errors of object stores, and their conversion to errors with a reason and a hint."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.core.kube.locations import Location
from kanister_py.ports.object_store import ObjectMissing

# Substrings of error messages, with reason and hint. The first match counts.
_SIGNS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    (
        "ClockSkewed",
        ("RequestTimeTooSkewed", "RequestExpired", "clock skew"),
        "the clock of this machine is wrong: correct it",
    ),
    (
        "BucketNotFound",
        ("NoSuchBucket", "ContainerNotFound", "no bucket named", "InvalidBucketName"),
        "there is no such bucket: check location.bucket and location.endpoint",
    ),
    (
        "WrongRegion",
        (
            "AuthorizationHeaderMalformed",
            "PermanentRedirect",
            "IllegalLocationConstraint",
            "without LOCATION header",
        ),
        "the bucket is in another region: check location.region",
    ),
    (
        "CredentialRefused",
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "XAdminUserNotFound",
            "InvalidToken",
            "ExpiredToken",
            "AuthenticationFailed",
            "AuthorizationFailure",
            "invalid_grant",
            "Unauthorized",
            "status code: 401",
            "InvalidClientTokenId",
            "RSA key",
            "PEM",
        ),
        "the credential is rejected: check the Secret of the Profile",
    ),
    (
        "StorageFull",
        (
            "QuotaExceeded",
            "XMinioStorageFull",
            "status code: 507",
            "InsufficientStorage",
            "No space left",
        ),
        "the store is full",
    ),
    (
        "AccessDenied",
        ("AccessDenied", "status code: 403", "AuthorizationPermissionMismatch"),
        "the credential lacks a permission: allow it to list, read, write and delete",
    ),
    (
        "TlsFailed",
        (
            "certificate",
            "CERTIFICATE_VERIFY_FAILED",
            "InvalidCertificate",
            "UnknownIssuer",
            "InvalidContentType",
            "WRONG_VERSION_NUMBER",
            "corrupt message",
        ),
        "TLS fails: untrusted certificate, or no TLS on the server; see skipSSLVerify",
    ),
)
_KEY_MISSING: Final = ("NoSuchKey", "BlobNotFound", "status code: 404")
_TRANSIENT: Final = re.compile(r"status code: (?:408|429|5\d\d)")
_STATUS: Final = re.compile(r"status code: \d+(?: [A-Z][A-Za-z ]*)?")

MAX_ANSWER: Final = 64 * 1024
"""Maximum number of bytes or characters of an error that are used."""


def refusal_of(reason: str, location: Location, answer: str, key: str = "") -> KanisterError:
    """Classify an error of a store; `reason` is set if the caller already knows it."""
    answer = answer[:MAX_ANSWER]
    if reason:
        return UsageError(_sentence(location, key, answer), reason=reason)
    for name, signs, advice in _SIGNS:
        if any(sign in answer for sign in signs):
            return UsageError(f"{_sentence(location, key, _short(answer))}; {advice}", reason=name)
    if key and any(sign in answer for sign in _KEY_MISSING):
        return ObjectMissing(key, str(location))
    if _TRANSIENT.search(answer):
        return _unavailable(_sentence(location, key, _short(answer)))
    return UsageError(_sentence(location, key, _short(answer)), reason="StoreRefused")


def unreachable(location: Location, answer: str) -> KanisterError:
    """Return the error for a store that did not respond."""
    if any(sign in answer for sign in _SIGNS[-1][1]):
        return refusal_of("", location, answer)
    return _unavailable(f"The {location} cannot be reached: {_connection(answer)}")


def text_between(text: str, opening: str, closing: str) -> str:
    """Return the text between the first `opening` and the next `closing`, else an empty text."""
    inner, end, _ = text.partition(opening)[2].partition(closing)
    return inner if end else ""


def _unavailable(message: str) -> KanisterError:
    return TransientError(message, reason="StoreUnavailable")


def _connection(answer: str) -> str:
    for sign, words in (
        ("dns error", "the host name cannot be resolved"),
        ("NameResolutionError", "the host name cannot be resolved"),
        ("refused", "the connection is refused"),
        ("timed out", "it does not respond in time"),
        ("TimedOut", "it does not respond in time"),
        ("reset", "the connection breaks"),
        ("IncompleteRead", "the connection breaks"),
        ("ConnectionAborted", "the connection breaks"),
        ("Connection aborted", "the connection breaks"),
        ("IncompleteBody", "the connection breaks"),
        ("closed before message completed", "the connection breaks"),
        ("IncompleteMessage", "the connection breaks"),
    ):
        if sign in answer:
            return words
    return _short(answer)


def _sentence(location: Location, key: str, answer: str) -> str:
    about = f"Object {key!r} in the {location}" if key else f"The {location}"
    return f"{about}: {answer}"


def _short(answer: str) -> str:
    """Shorten a message of the library to the store's error code, message and status."""
    code = text_between(answer, "<Code>", "</Code>").strip()
    message = text_between(answer, "<Message>", "</Message>").strip().partition("\n")[0].rstrip()
    status = _STATUS.search(answer)
    if code and message:
        return f"{code}: {unescape(message).rstrip('.')}"
    text = answer.partition("Debug source")[0].strip() or answer
    if status and len(text) > 300:
        return status[0]
    return " ".join(text.split())[:300]
