"""Sessions of the pages: encrypted tokens in cookies, and protection of forms.

A browser sends a cookie to all ports of a host. The token is therefore encrypted, so that other
servers on the host cannot use it.
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
# Protects forms if the endpoint requires no token.
_PROCESS_KEY: Final = token_bytes(32)


class Seal:
    """Encryption of the tokens in cookies, which expire after twelve hours.

    Replicas share `key`. Without a key, cookies are only valid in this process.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._fernet = Fernet(Fernet.generate_key() if key is None else key)

    @staticmethod
    def new_key() -> bytes:
        return Fernet.generate_key()

    def close(self, token: str) -> str:
        return self._fernet.encrypt(token.encode()).decode()

    def open(self, sealed: str) -> str:
        """Return the token; empty if the cookie has expired or was sealed with another key."""
        try:
            return self._fernet.decrypt(sealed, ttl=_HOURS * 3600).decode()
        except (InvalidToken, ValueError):
            return ""


SEAL_IN_SCOPE: Final = "kanister_py.seal"
"""Key of the `Seal` in the scope of a request."""


def header_of(scope: Scope, name: bytes) -> str:
    """Return the value of a header; empty if it is missing or repeated."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def token_in(scope: Scope) -> str:
    """Return the token in the Authorization header or, if there is none, in the cookie."""
    if any(name == b"authorization" for name, _ in scope["headers"]):
        kind, _, token = header_of(scope, b"authorization").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""
    return cookie_in(scope)


def cookie_in(scope: Scope) -> str:
    """Return the token in the cookie of a request."""
    # http.cookies would reject the whole header because of invalid cookies of other servers.
    for part in header_of(scope, b"cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            seal: Seal | None = scope.get(SEAL_IN_SCOPE)
            return "" if seal is None else seal.open(value)
    return ""


def cookie_of(token: str, scope: Scope) -> str:
    """Build the cookie with an encrypted token. Without a token, the cookie is deleted."""
    seal: Seal | None = scope.get(SEAL_IN_SCOPE)
    sealed = seal.close(token) if token and seal is not None else ""
    is_safe = scope.get("scheme") == "https" or header_of(scope, b"x-forwarded-proto") == "https"
    age = _HOURS * 3600 if sealed else 0
    parts = [f"{COOKIE}={sealed}", "Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={age}"]
    return "; ".join([*parts, "Secure"] if is_safe else parts)


def form_key(scope: Scope) -> str:
    """Return the secret in every form of this session, which other sites cannot know."""
    key = token_in(scope).encode() or _PROCESS_KEY
    return hmac.new(key, b"forms of kanister-py", sha256).hexdigest()


def is_own_form(scope: Scope, form: Mapping[str, str]) -> bool:
    """Check whether a form was sent from one of the pages."""
    if header_of(scope, b"sec-fetch-site") not in ("", "same-origin"):
        return False
    origin = header_of(scope, b"origin")
    if origin and urlsplit(origin).netloc != header_of(scope, b"host"):
        return False
    return hmac.compare_digest(form.get("key", "").encode(), form_key(scope).encode())


def accepts_html(scope: Scope) -> bool:
    """Check whether the client is a browser that loads a page."""
    return scope["method"] in ("GET", "POST") and "text/html" in header_of(scope, b"accept")


def sign_in_url(scope: Scope) -> str:
    """Return the URL of the sign-in page, which leads back to the requested page."""
    if scope["method"] != "GET":
        return SIGN_IN
    path, query = str(scope["path"]), scope.get("query_string", b"")
    address = path + (f"?{query.decode('latin-1')}" if query else "")
    return SIGN_IN if address == HOME else f"{SIGN_IN}?next={quote(address, safe='')}"


def return_url(requested: str) -> str:
    """Return the page to show after the sign-in. URLs of other hosts are ignored."""
    is_own = (
        requested.startswith("/") and not requested.startswith("//") and requested.isprintable()
    )
    return requested if is_own and "\\" not in requested and requested.isascii() else HOME
