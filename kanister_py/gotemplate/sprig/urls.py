"""URLs: parsing and joining as Go's net/url does."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from string import ascii_letters, digits
from typing import Any

from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.sprig.conversions import NIL_DEREFERENCE
from kanister_py.gotemplate.types import Kind
from kanister_py.gotemplate.values import Value, from_bytes, kind_of, to_bytes

_UNRESERVED = ascii_letters + digits + "-_.~"
# Characters that need no escaping in each part of a URL.
_HOST = frozenset(to_bytes(_UNRESERVED + "!$&'()*+,;=:[]<>\""))
_PATH = frozenset(to_bytes(_UNRESERVED + "$&+,/:;=@"))
_USER = frozenset(to_bytes(_UNRESERVED + "$&+,;="))
_FRAGMENT = frozenset(to_bytes(_UNRESERVED + "$&+,/:;=?@!()*"))
_ENCODED = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO = frozenset(ascii_letters + digits + "-._:~!$&'()*+,;=%@")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def escape(text: str, allowed: frozenset[int]) -> str:
    return "".join(chr(byte) if byte in allowed else f"%{byte:02X}" for byte in to_bytes(text))


def unescape(text: str, allowed: frozenset[int] | None = None, *, is_zone: bool = False) -> str:
    """Decode percent-encoding; in a host (`allowed`) only some characters may be encoded."""
    data = to_bytes(text)
    decoded = bytearray()
    at = 0
    while at < len(data):
        byte = data[at]
        if byte != 0x25:
            if allowed is not None and byte < 0x80 and byte not in allowed:
                raise GoError(f"invalid character {quote(chr(byte))} in host name")
            decoded.append(byte)
            at += 1
            continue
        code = data[at + 1 : at + 3]
        if len(code) < 2 or not _HEX.issuperset(code):
            raise _bad_escape(data[at : at + 3])
        value = int(code, 16)
        if allowed is not None and code != b"25":
            refused = (value != 0x20 and value not in _HOST) if is_zone else code[0] < 0x38
            if refused:
                raise _bad_escape(data[at : at + 3])
        decoded.append(value)
        at += 3
    return from_bytes(bytes(decoded))


def _bad_escape(escape: bytes) -> GoError:
    return GoError(f"invalid URL escape {quote(from_bytes(escape))}")


class Address:
    """Parts of a URL; raw parts are kept if encoding the decoded part would differ."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    password: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    forces_query: bool = False
    omits_host: bool = False
    fragment: str = ""
    raw_fragment: str = ""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)

    @property
    def userinfo(self) -> str:
        if self.user is None:
            return ""
        user = escape(self.user, _USER)
        return user if self.password is None else f"{user}:{escape(self.password, _USER)}"

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host, colon, port = self.host.rpartition(":")
        if not colon or not _is_port(port):
            host = self.host
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def text(self) -> str:
        url = f"{self.scheme}:" if self.scheme else ""
        url += self.opaque or self._authority_and_path(is_first=not url)
        if self.forces_query or self.query:
            url += f"?{self.query}"
        if self.fragment:
            url += "#" + _escaped_again(self.fragment, self.raw_fragment, _FRAGMENT)
        return url

    def _authority_and_path(self, *, is_first: bool) -> str:
        text = ""
        has_authority = bool(self.scheme or self.host or self.user is not None)
        if has_authority and not (self.omits_host and not self.host and self.user is None):
            if self.host or self.path or self.user is not None:
                text += "//"
            if self.user is not None:
                text += self.userinfo + "@"
            text += escape(self.host, _HOST)
        path = "*" if self.path == "*" else _escaped_again(self.path, self.raw_path, _PATH)
        if path and not path.startswith("/") and self.host:
            text += "/"
        if is_first and not text and ":" in path.partition("/")[0]:
            text = "./"
        return text + path


def _escaped_again(text: str, raw: str, allowed: frozenset[int]) -> str:
    if raw and all(byte in _ENCODED or byte in allowed for byte in to_bytes(raw)):
        try:
            if unescape(raw) == text:
                return raw
        except GoError:
            pass
    return escape(text, allowed)


def _is_port(text: str) -> bool:
    return all("0" <= char <= "9" for char in text)


def parse(text: str) -> Address:
    """Parse a URL. The error message contains the text and the reason."""
    before, _, fragment = text.partition("#")
    try:
        address = _parse_without_fragment(before)
    except GoError as error:
        raise GoError(f"parse {quote(before)}: {error.text}") from error
    if fragment:
        try:
            address.fragment = unescape(fragment)
        except GoError as error:
            raise GoError(f"parse {quote(text)}: {error.text}") from error
        if escape(address.fragment, _FRAGMENT) != fragment:
            address.raw_fragment = fragment
    return address


def _parse_without_fragment(text: str) -> Address:
    if any(char < " " or char == "\x7f" for char in text):
        raise GoError("net/url: invalid control character in URL")
    if text == "*":
        return Address(path="*")
    address = Address()
    scheme, tail = _scheme_of(text)
    address.scheme = scheme.lower()
    if tail.endswith("?") and tail.count("?") == 1:
        address.forces_query = True
        tail = tail[:-1]
    else:
        tail, _, address.query = tail.partition("?")
    if not tail.startswith("/"):
        if address.scheme:
            address.opaque = tail
            return address
        if ":" in tail.partition("/")[0]:
            raise GoError("first path segment in URL cannot contain colon")
    if tail.startswith("//") and (address.scheme or not tail.startswith("///")):
        authority, slash, path = tail[2:].partition("/")
        tail = slash + path
        _read_authority(address, authority)
    elif address.scheme and tail.startswith("/"):
        address.omits_host = True
    address.path = unescape(tail)
    if escape(address.path, _PATH) != tail:
        address.raw_path = tail
    return address


def _scheme_of(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise GoError("missing protocol scheme")
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", text)
    return ("", text) if match is None else (match[1], text[match.end() :])


def _read_authority(address: Address, authority: str) -> None:
    userinfo, at_sign, host = authority.rpartition("@")
    address.host = _read_host(address.scheme, host)
    if not at_sign:
        return
    if not _USERINFO.issuperset(userinfo):
        raise GoError("net/url: invalid userinfo")
    user, colon, password = userinfo.partition(":")
    address.user = unescape(user)
    address.password = unescape(password) if colon else None


def _read_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise GoError("invalid IP-literal")
    if bracket == 0:
        return _read_ip_literal(host)
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        _check_port(host[colon:])
    return unescape(host, _HOST)


def _check_port(text: str) -> None:
    if text and not (text[0] == ":" and _is_port(text[1:])):
        raise GoError(f"invalid port {quote(text)} after host")


def _read_ip_literal(host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise GoError("missing ']' in host")
    port = host[end + 1 :]
    _check_port(port)
    name = host[1:end]
    zone = name.find("%25")
    if zone >= 0:
        name = unescape(name[:zone], _HOST) + unescape(name[zone:], _HOST, is_zone=True)
    else:
        name = unescape(name, _HOST)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        raise GoError(f"invalid host: ParseAddr({quote(name)}): unable to parse IP") from None
    if address.version == 4:
        raise GoError("invalid IP-literal")
    return f"[{name}]{port}"


@go_function("func(string) map[string]interface{}")
def url_parse(text: str) -> dict[str, Value]:
    try:
        address = parse(text)
    except GoError as error:
        raise GoError(f"unable to parse url: {error.text}") from error
    return {
        "scheme": address.scheme,
        "host": address.host,
        "hostname": address.hostname,
        "path": address.path,
        "query": address.query,
        "opaque": address.opaque,
        "fragment": address.fragment,
        "userinfo": address.userinfo,
    }


def _part(parts: Mapping[str, Value], name: str) -> str:
    if name not in parts:
        return ""
    value = parts[name]
    kind = kind_of(value)
    if kind is None:
        raise GoError(NIL_DEREFERENCE)
    if kind is not Kind.STRING:
        raise GoError(f"unable to parse {name} key, must be of type string, but {kind} found")
    return str(value)


@go_function("func(map[string]interface{}) string")
def url_join(parts: Mapping[str, Value]) -> str:
    address = Address(
        scheme=_part(parts, "scheme"),
        host=_part(parts, "host"),
        path=_part(parts, "path"),
        query=_part(parts, "query"),
        opaque=_part(parts, "opaque"),
        fragment=_part(parts, "fragment"),
    )
    userinfo = _part(parts, "userinfo")
    if userinfo:
        try:
            read = parse(f"proto://{userinfo}@host")
        except GoError as error:
            raise GoError(f"unable to parse userinfo in dict: {error.text}") from error
        address.user, address.password = read.user, read.password
    return address.text()


OF_BLUEPRINTS = {"urlJoin": url_join, "urlParse": url_parse}
