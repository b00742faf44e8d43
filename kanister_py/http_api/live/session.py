"""Sessions of the page: a sealed token in a cookie that no script reads, and forms of our own.

A browser sends a cookie to every port of a host, so the token of the cluster never lies in one
as it is: only who has the key of the seal can use it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_bytes
from typing import Final
from urllib.parse import quote, urlsplit

from cryptography.fernet import Fernet, InvalidToken
from starlette.types import Scope

COOKIE: Final = "kanister-py-token"
SIGN_IN: Final = "/signin"
HOME: Final = "/runs"
_HOURS: Final = 12
# Where nobody is asked for a token, forms are ours alone all the same.
_OF_THIS_PROCESS: Final = token_bytes(32)


class Seal:
    """Seal of the tokens in cookies: encrypted, and worthless after twelve hours.

    Replicas that answer the same browsers share `key`; without one, the seal is of this
    process alone.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._fernet = Fernet(Fernet.generate_key() if key is None else key)

    @staticmethod
    def new_key() -> bytes:
        return Fernet.generate_key()

    def close(self, token: str) -> str:
        return self._fernet.encrypt(token.encode()).decode()

    def open(self, sealed: str) -> str:
        """Return the token, or nothing if the seal is not ours or too old."""
        try:
            return self._fernet.decrypt(sealed, ttl=_HOURS * 3600).decode()
        except (InvalidToken, ValueError):
            return ""


SEAL_IN_SCOPE: Final = "kanister_py.seal"
"""Where a request's scope holds the seal of its cookies."""


def header_of(scope: Scope, name: bytes) -> str:
    """Give a header's value; empty where it is missing or there are several."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def token_in(scope: Scope) -> str:
    """Give the token of a request: of its Authorization, or of the page's cookie."""
    if any(name == b"authorization" for name, _ in scope["headers"]):
        kind, _, token = header_of(scope, b"authorization").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""
    return cookie_in(scope)


def cookie_in(scope: Scope) -> str:
    """Return the token in the cookie of a request."""
    # Others on the same host set cookies that a stricter reader would give up on.
    for each in header_of(scope, b"cookie").split(";"):
        name, _, value = each.strip().partition("=")
        if name == COOKIE:
            seal: Seal | None = scope.get(SEAL_IN_SCOPE)
            return "" if seal is None else seal.open(value)
    return ""


def cookie_of(token: str, scope: Scope) -> str:
    """Write the cookie that holds a sealed token, or that removes it if there is none."""
    seal: Seal | None = scope.get(SEAL_IN_SCOPE)
    sealed = seal.close(token) if token and seal is not None else ""
    is_safe = scope.get("scheme") == "https" or header_of(scope, b"x-forwarded-proto") == "https"
    age = _HOURS * 3600 if sealed else 0
    parts = [f"{COOKIE}={sealed}", "Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={age}"]
    return "; ".join([*parts, "Secure"] if is_safe else parts)


def form_key(scope: Scope) -> str:
    """Give what every form of this session carries: nobody else can know it."""
    key = token_in(scope).encode() or _OF_THIS_PROCESS
    return hmac.new(key, b"forms of kanister-py", sha256).hexdigest()


def is_our_form(scope: Scope, form: Mapping[str, str]) -> bool:
    """Say whether a form was sent from a page of ours."""
    if header_of(scope, b"sec-fetch-site") not in ("", "same-origin"):
        return False
    origin = header_of(scope, b"origin")
    if origin and urlsplit(origin).netloc != header_of(scope, b"host"):
        return False
    return hmac.compare_digest(form.get("key", "").encode(), form_key(scope).encode())


def wants_page(scope: Scope) -> bool:
    """Say whether a person asks, to whom an answer for machines would say nothing."""
    return scope["method"] in ("GET", "POST") and "text/html" in header_of(scope, b"accept")


def way_in(scope: Scope) -> str:
    """Give the address where one signs in and comes back from to where one wanted to go."""
    if scope["method"] != "GET":
        return SIGN_IN
    path, query = str(scope["path"]), scope.get("query_string", b"")
    wanted = path + (f"?{query.decode('latin-1')}" if query else "")
    return SIGN_IN if wanted == HOME else f"{SIGN_IN}?next={quote(wanted, safe='')}"


def way_back(wanted: str) -> str:
    """Give where to go after signing in: a place of ours, whatever was asked for."""
    is_ours = wanted.startswith("/") and not wanted.startswith("//") and wanted.isprintable()
    return wanted if is_ours and "\\" not in wanted and wanted.isascii() else HOME
