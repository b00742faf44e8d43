"""Sessions of the page: a token in a cookie that no script reads, and forms that are our own."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_bytes
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.types import Scope

COOKIE: Final = "kanister-py-token"
SIGN_IN: Final = "/signin"
HOME: Final = "/runs"
_HOURS: Final = 12
# Where nobody is asked for a token, forms are ours alone all the same.
_OF_THIS_PROCESS: Final = token_bytes(32)


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
    # Others on the same host set cookies that a stricter reader would give up on.
    for each in header_of(scope, b"cookie").split(";"):
        name, _, value = each.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def cookie_of(token: str, scope: Scope) -> str:
    """Write the cookie that holds a token, or that takes it away if there is none."""
    is_safe = scope.get("scheme") == "https" or header_of(scope, b"x-forwarded-proto") == "https"
    age = _HOURS * 3600 if token else 0
    parts = [f"{COOKIE}={token}", "Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={age}"]
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
