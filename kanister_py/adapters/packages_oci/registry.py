"""Read packages of functions from OCI registries.

Answers of a registry are untrusted: content must match its digest, no part of an answer
becomes part of a path, and sizes and times are bounded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import re2

from kanister_py.adapters.packages_oci.exchange import Exchange, PackageNotFound
from kanister_py.adapters.packages_oci.layers import Allowance, UnreadableLayer, find_file
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.revisions.package import InvalidPackage, PackageReference, is_tag
from kanister_py.files import write_atomically
from kanister_py.ports.packages import RegistryLogin

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

PACKAGE_FILE: Final = "package.yaml"
LAYER_ANNOTATION: Final = "io.crossplane.xpkg"
PACKAGE_LAYER: Final = "base"
PLATFORM: Final = ("linux", "amd64")

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (MANIFEST_TYPE, "application/vnd.docker.distribution.manifest.v2+json")

_MAX_JSON_BYTES: Final = 4 << 20
_MAX_PACKAGE_BYTES: Final = 16 << 20
_MAX_FILE_BYTES: Final = 4 << 20
_MAX_LAYER_BYTES: Final = 256 << 20
_MAX_UNPACKED_BYTES: Final = 1 << 30
_MAX_LAYERS: Final = 128
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,65536}")
_CHALLENGE_PARAMETER: Final = re2.compile(r'(\w+)="([^"]*)"')
_MAX_CHALLENGE: Final = 8192
_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
_TAGS_AT_ONCE: Final = 1000
_MOST_PAGES: Final = 50
_TITLE: Final = "org.opencontainers.image.title"
_UNPACKED: Final = "io.deis.oras.content.unpack"
_DEFAULT_FILE: Final = "input.yaml"
_FILE_SECONDS: Final = 30.0
_LOOPBACK: Final = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?")


class OciPackages:
    """Packages in registries, with an optional cache folder.

    Registries on this machine are accessed without TLS, as container tools do. `timeout_seconds`
    limits one response, `read_seconds` all requests for one package.
    """

    def __init__(
        self,
        cache: Path | None = None,
        *,
        ca_file: Path | None = None,
        timeout_seconds: float = 30.0,
        read_seconds: float = 300.0,
    ) -> None:
        self._cache = cache
        self._ca_file = ca_file
        self._timeout_seconds = timeout_seconds
        self._read_seconds = read_seconds
        self._seen: set[tuple[str, str]] = set()
        """Digests whose content was verified, by repository."""

    def resolve(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> str:
        if reference.digest:
            return reference.digest
        with self._exchange(reference, self._read_seconds) as exchange:
            session = _Session(exchange, reference, logins)
            # Registries limit requests for manifests, but not requests for digests.
            claimed = session.claimed_digest()
            if (reference.source, claimed) in self._seen:
                return claimed
            digest = digest_of(session.manifest(reference.tag)[1])
        if claimed and claimed != digest:
            raise InvalidPackage(str(reference), f"its registry calls {digest} {claimed}")
        self._seen.add((reference.source, digest))
        return digest

    def read(
        self, reference: PackageReference, digest: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        checked_digest(digest, str(reference))
        kept = self._cache_path(digest)
        if kept is not None and kept.is_file():
            return kept.read_bytes()
        with self._exchange(reference, self._read_seconds) as exchange:
            text = _Session(exchange, reference, logins).package_file(digest)
        if kept is not None:
            _write_cache(kept, text)
        return text

    def read_file(
        self, reference: PackageReference, path: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        digest = checked_digest(reference.digest, str(reference))
        name = f"{digest.replace(':', '-')}-{digest_of(path.encode())[7:23]}"
        kept = self._cache / name if self._cache else None
        if kept is not None and kept.is_file():
            return kept.read_bytes()
        try:
            with self._exchange(reference, min(_FILE_SECONDS, self._read_seconds)) as exchange:
                data = _Session(exchange, reference, logins).file(digest, path)
        except InvalidPackage as error:
            raise PackageNotFound(str(reference), error.why) from None
        if kept is not None:
            _write_cache(kept, data)
        return data

    def tags(
        self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()
    ) -> Sequence[str]:
        with self._exchange(reference, self._read_seconds) as exchange:
            return _Session(exchange, reference, logins).tags()

    def _cache_path(self, digest: str) -> Path | None:
        return self._cache / f"{digest.replace(':', '-')}.yaml" if self._cache else None

    def _exchange(self, reference: PackageReference, seconds: float) -> Exchange:
        return Exchange(
            reference.registry,
            str(reference),
            self._context,
            patience=self._timeout_seconds,
            total=seconds,
        )

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(str(self._ca_file))
        return context


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _write_cache(path: Path, data: bytes) -> None:
    """Write a file of the cache, whose folder is created if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data, is_shared=True)


def checked_digest(digest: Any, where: str) -> str:
    """Return a digest. Only sha256 is accepted."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidPackage(where, f"{str(digest)[:100]!r} is not a sha256 digest")
    return digest


_ALL_MANIFESTS: Final = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))


class _Session:
    """Session with one repository of a registry, with the token that the registry issued for it."""

    def __init__(
        self, exchange: Exchange, reference: PackageReference, logins: Sequence[RegistryLogin]
    ) -> None:
        self._exchange = exchange
        self._reference = reference
        self._login = next(
            (login for login in logins if login.registry == reference.registry), None
        )
        self._trusted = {login.registry for login in logins}
        self._authorization = ""
        scheme = "http" if _LOOPBACK.fullmatch(reference.registry) else "https"
        self._origin = f"{scheme}://{reference.registry}"
        self._root = f"{self._origin}/v2/{reference.repository}/"

    def ask(self, method: str, path: str, *, accept: str = "") -> BaseHTTPResponse:
        """Send a request to the registry, with a login if the registry demands one."""
        url = f"{self._root}{path}"
        headers = {"Accept": accept} if accept else {}
        response = self._send(method, url, headers)
        if response.status == 401 and not self._authorization:
            response.close()
            self._log_in(response.headers.get("WWW-Authenticate", ""))
            response = self._send(method, url, headers)
        if method == "GET":
            response = self._exchange.follow(response, url)
        self._refuse(response)
        return response

    def _send(self, method: str, url: str, headers: dict[str, str]) -> BaseHTTPResponse:
        if self._authorization:
            headers = {**headers, "Authorization": self._authorization}
        return self._exchange.send(method, url, headers)

    def _log_in(self, challenge: str) -> None:
        """Respond to a challenge with the password, or with a token of the named service."""
        scheme, _, details = challenge.partition(" ")
        if scheme.lower() == "basic" and self._login is not None:
            self._authorization = self._basic()
        elif scheme.lower() == "bearer":
            parameters = dict(_CHALLENGE_PARAMETER.findall(details[:_MAX_CHALLENGE]))
            self._authorization = f"Bearer {self._token(parameters)}"

    def _basic(self) -> str:
        assert self._login is not None
        pair = f"{self._login.username}:{self._login.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def _token(self, challenge: Mapping[str, str]) -> str:
        scope = f"repository:{self._reference.repository}:pull"
        query = urlencode({"service": challenge.get("service", ""), "scope": scope})
        realm = challenge.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise self._refused("the registry does not say where to log in")
        headers = {}
        if self._login is not None:
            refusal = refusal_of(realm, self._origin, self._trusted)
            if refusal:
                raise self._refused(refusal)
            headers["Authorization"] = self._basic()
        elif realm.startswith("http://") and self._origin.startswith("https://"):
            raise self._refused(f"it redirects to {realm}, without TLS")
        response = self._exchange.send("GET", f"{realm}?{query}", headers)
        self._refuse(response)
        answer = mapping_of(self._json(self._exchange.read(response, _MAX_JSON_BYTES), "token"))
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise self._invalid("its registry returns an invalid token")
        return token

    def _invalid(self, why: str) -> InvalidPackage:
        return InvalidPackage(str(self._reference), why)

    def _refused(self, why: str) -> PackageNotFound:
        return PackageNotFound(str(self._reference), why)

    def _refuse(self, response: BaseHTTPResponse) -> None:
        status = response.status
        if 200 <= status < 300:
            return
        response.close()
        if status in (401, 403):
            who = f"as {self._login.username}" if self._login else "without a login"
            raise self._refused(f"the registry denies access {who}")
        if status == 404:
            raise self._refused("the registry does not have it")
        if status == 429 or status >= 500:
            raise self._exchange.unavailable(f"it responds with status {status}")
        raise self._refused(f"the registry responds with status {status}")

    def claimed_digest(self) -> str:
        """Return the digest of the tag as reported by the registry; empty if it reports none."""
        response = self.ask("HEAD", f"manifests/{self._reference.tag}", accept=_ALL_MANIFESTS)
        response.close()
        digest = response.headers.get("Docker-Content-Digest", "")
        return checked_digest(digest, str(self._reference)) if digest else ""

    def tags(self) -> list[str]:
        """List the tags page by page. A page without new tags is the last one."""
        all_tags: dict[str, None] = {}
        path = f"tags/list?n={_TAGS_AT_ONCE}"
        for _ in range(_MOST_PAGES):
            response = self.ask("GET", path)
            answer = mapping_of(
                self._json(self._exchange.read(response, _MAX_JSON_BYTES), "list of tags")
            )
            listed = answer.get("tags")
            tags = listed if isinstance(listed, list) else []
            page = [tag for tag in tags if isinstance(tag, str) and is_tag(tag)]
            new = [tag for tag in page if tag not in all_tags]
            all_tags.update(dict.fromkeys(new))
            if not new or not response.headers.get("Link"):
                break
            # The next page is requested by name, so that no URL of the registry is followed.
            path = f"tags/list?n={_TAGS_AT_ONCE}&last={page[-1]}"
        return list(all_tags)

    def manifest(self, reference: str) -> tuple[Mapping[str, Any], bytes]:
        response = self.ask("GET", f"manifests/{reference}", accept=_ALL_MANIFESTS)
        body = self._exchange.read(response, _MAX_JSON_BYTES)
        if reference.startswith("sha256:") and digest_of(body) != reference:
            raise self._invalid("its manifest does not match its digest")
        read = self._json(body, "manifest")
        if not isinstance(read, dict):
            raise self._invalid("its manifest is not a JSON object")
        return read, body

    def _json(self, body: bytes, what: str) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._invalid(f"its {what} is not valid JSON") from error

    def image_manifest(self, reference: str) -> Mapping[str, Any]:
        """Return the manifest for this platform, if the image has several."""
        index, _body = self.manifest(reference)
        if "manifests" in index:
            described = self._objects(index["manifests"])
            fitting = [manifest for manifest in described if _platform_of(manifest) == PLATFORM]
            if not fitting:
                have = ", ".join(
                    sorted("/".join(_platform_of(manifest)) for manifest in described[:10])
                )
                platform = "/".join(PLATFORM)
                raise self._invalid(f"it is for {have}, not for {platform}")
            chosen = checked_digest(fitting[0].get("digest"), str(self._reference))
            index, _body = self.manifest(chosen)
        if not isinstance(index.get("config"), dict):
            raise self._invalid("its manifest describes no image")
        self._objects(index.get("layers"))
        return index

    def _objects(self, listed: Any) -> list[Mapping[str, Any]]:
        is_fine = isinstance(listed, list) and all(
            isinstance(manifest, dict) for manifest in listed
        )
        if not is_fine or len(listed) > _MAX_LAYERS:
            raise self._invalid("its manifest describes no image")
        return list(listed)

    def blob(self, described: Mapping[str, Any], limit: int) -> bytes:
        return b"".join(self._blob_chunks(described, limit))

    def _blob_chunks(self, described: Mapping[str, Any], limit: int) -> Iterator[bytes]:
        """Yield a blob in chunks; raises an error at the end if the digest does not match."""
        digest = checked_digest(described.get("digest"), str(self._reference))
        response = self.ask("GET", f"blobs/{digest}")
        hashed = hashlib.sha256()
        for piece in self._exchange.chunks(response, limit):
            hashed.update(piece)
            yield piece
        if f"sha256:{hashed.hexdigest()}" != digest:
            raise self._invalid(f"{digest} does not match its digest")

    def package_file(self, digest: str) -> bytes:
        """Find `package.yaml` in the annotated layer, else in the topmost archive."""
        layers = self.image_manifest(digest)["layers"]
        marked = [layer for layer in layers if _is_package_layer(layer)]
        return self._file_in(marked or reversed(layers), PACKAGE_FILE, _MAX_PACKAGE_BYTES)

    def file(self, digest: str, path: str) -> bytes:
        """Find a file: a layer with that title, else an entry of the topmost archive."""
        layers = self.image_manifest(digest)["layers"]
        named = {name: layer for layer in layers if (name := _title_of(layer))}
        layer = named.get(path) if path else None
        if not path and len(named) == 1:
            (layer,) = named.values()
        if layer is not None:
            return self.blob(layer, _MAX_FILE_BYTES)
        archives = [layer for layer in reversed(layers) if not _title_of(layer)]
        if not archives:
            titles = ", ".join(sorted(named)) or "nothing"
            raise self._invalid(f"it has no {path or 'single file'}; available: {titles}")
        return self._file_in(archives, path or _DEFAULT_FILE, _MAX_FILE_BYTES)

    def _file_in(self, layers: Iterable[Mapping[str, Any]], name: str, most_bytes: int) -> bytes:
        allowance = Allowance(_MAX_UNPACKED_BYTES)
        for layer in layers:
            pieces = self._blob_chunks(layer, _MAX_LAYER_BYTES)
            try:
                content = find_file(pieces, name, allowance, most_bytes)
            except UnreadableLayer as error:
                why = f"a layer of it cannot be read: {error}"
                raise self._invalid(why) from error
            if content is not None:
                return content
        raise self._invalid(f"it has no {name}")


def refusal_of(realm: str, origin: str, trusted: set[str]) -> str:
    """Return the reason why a login must not be sent to a realm; empty if it may.

    It may be sent to the registry's own host and domain, and to other hosts with a login.
    """
    to, own = urlsplit(realm), urlsplit(origin)
    if own.scheme == "https" and to.scheme != "https":
        return f"it requests the password at {to.scheme}://{to.netloc}, without TLS"
    if to.netloc in trusted or (to.hostname and _share_domain(to.hostname, own.hostname or "")):
        return ""
    return (
        f"it requests the password at {to.netloc}, which is not its own domain; "
        f"if this is correct, log in to {to.netloc} too"
    )


def _share_domain(host: str, own: str) -> bool:
    domain = own.partition(".")[2]
    if host == own or host.endswith(f".{own}"):
        return True
    # Siblings of registry.example.com are example.com and auth.example.com.
    has_domain = "." in domain and not _ADDRESS.fullmatch(own)
    return has_domain and (host == domain or host.endswith(f".{domain}"))


def _platform_of(described: Mapping[str, Any]) -> tuple[str, str]:
    platform = mapping_of(described.get("platform"))
    return str(platform.get("os", "?"))[:40], str(platform.get("architecture", "?"))[:40]


def _title_of(described: Mapping[str, Any]) -> str:
    """Return the file name of a layer, as set by artifact tools; a folder is an archive."""
    annotations = mapping_of(described.get("annotations"))
    return "" if annotations.get(_UNPACKED) == "true" else str(annotations.get(_TITLE) or "")


def _is_package_layer(described: Mapping[str, Any]) -> bool:
    return mapping_of(described.get("annotations")).get(LAYER_ANNOTATION) == PACKAGE_LAYER
