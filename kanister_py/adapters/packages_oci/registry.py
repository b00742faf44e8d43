"""Packages of functions in an OCI registry: what they say, and how they get there."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import ssl
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urljoin

from kanister_py.adapters.packages_oci.images import (
    LAYER_ANNOTATION,
    MANIFEST_TYPE,
    PACKAGE_FILE,
    PACKAGE_LAYER,
    PLATFORM,
    Blob,
    Image,
    digest_of,
    write_whole,
)
from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.package import InvalidPackage, PackageReference
from kanister_py.ports.packages import RegistryLogin, RegistryUnavailable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager


class PackageNotFound(UsageError):
    """A registry does not have a package, or not for us."""

    reason = "PackageNotFound"

    def __init__(self, package: str, why: str) -> None:
        super().__init__(f"Package {package} cannot be had: {why}")
        self.package = package
        self.why = why


INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (MANIFEST_TYPE, "application/vnd.docker.distribution.manifest.v2+json")

_MAX_JSON_BYTES: Final = 4 << 20
_MAX_PACKAGE_BYTES: Final = 16 << 20
_MAX_LAYER_BYTES: Final = 1 << 30
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?")


class OciPackages:
    """Reads packages from registries, and keeps what they say in a folder if given one.

    Registries on this machine are spoken to without TLS, as container tools do.
    """

    def __init__(
        self,
        cache: Path | None = None,
        *,
        ca_file: Path | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._cache = cache
        self._ca_file = ca_file
        self._timeout_seconds = timeout_seconds
        self._pool: PoolManager | None = None

    def resolve(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> str:
        if reference.digest:
            return reference.digest
        session = self._session(reference, logins)
        response = session.ask("HEAD", f"manifests/{reference.tag}", accept=_ALL_MANIFESTS)
        found = response.headers.get("Docker-Content-Digest", "")
        return found or digest_of(session.manifest(reference.tag)[1])

    def read(
        self, reference: PackageReference, digest: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        kept = self._kept(digest)
        if kept is not None and kept.is_file():
            return kept.read_bytes()
        text = self._session(reference, logins).package_file(digest)
        if kept is not None:
            write_whole(kept, text)
        return text

    def push(
        self, reference: PackageReference, image: Image, logins: Sequence[RegistryLogin] = ()
    ) -> str:
        """Bring an image to its registry under its tag, and give its digest."""
        session = self._session(reference, logins)
        for blob in (*image.layers, image.config):
            session.upload(blob)
        manifest = image.manifest()
        session.ask(
            "PUT",
            f"manifests/{reference.tag or manifest.digest}",
            body=manifest.data,
            content_type=manifest.media_type,
        )
        return manifest.digest

    def pull(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> Image:
        """Give an image whole, to build another on."""
        session = self._session(reference, logins)
        manifest = session.image_manifest(reference.digest or reference.tag)
        described = [manifest["config"], *manifest["layers"]]
        config, *layers = (
            Blob(
                str(each.get("mediaType", "")),
                session.blob(each["digest"], _MAX_LAYER_BYTES),
                each.get("annotations") or {},
            )
            for each in described
        )
        return Image(config, tuple(layers))

    def _kept(self, digest: str) -> Path | None:
        return self._cache / f"{digest.replace(':', '-')}.yaml" if self._cache else None

    def _session(self, reference: PackageReference, logins: Sequence[RegistryLogin]) -> _Session:
        if self._pool is None:
            import urllib3

            context = ssl.create_default_context()
            if self._ca_file is not None:
                context.load_verify_locations(str(self._ca_file))
            self._pool = urllib3.PoolManager(
                ssl_context=context, timeout=self._timeout_seconds, retries=False, maxsize=8
            )
        login = next((each for each in logins if each.registry == reference.registry), None)
        return _Session(self._pool, reference, login)


_ALL_MANIFESTS: Final = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))


class _Session:
    """Talks to one registry about one repository; remembers the token it was given."""

    def __init__(
        self, pool: PoolManager, reference: PackageReference, login: RegistryLogin | None
    ) -> None:
        self._pool = pool
        self._reference = reference
        self._login = login
        self._authorization = ""
        scheme = "http" if _LOOPBACK.fullmatch(reference.registry) else "https"
        self._root = f"{scheme}://{reference.registry}/v2/{reference.repository}/"

    def ask(
        self,
        method: str,
        path: str,
        *,
        accept: str = "",
        body: bytes | None = None,
        content_type: str = "",
        allowed: Sequence[int] = (),
    ) -> BaseHTTPResponse:
        """Ask the registry, with a login where it wants one."""
        url = urljoin(self._root, path)
        headers = {"Accept": accept} if accept else {}
        if content_type:
            headers["Content-Type"] = content_type
        response = self._send(method, url, headers, body)
        if response.status == 401 and not self._authorization:
            response.drain_conn()
            self._log_in(response.headers.get("WWW-Authenticate", ""), writes=method != "GET")
            response = self._send(method, url, headers, body)
        self._refuse(response, allowed)
        return response

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> BaseHTTPResponse:
        from urllib3.exceptions import HTTPError, SSLError

        # A login is for the registry, not for the store that it may send us to.
        is_theirs = url.startswith(self._root.partition("/v2/")[0] + "/")
        if self._authorization and is_theirs:
            headers = {**headers, "Authorization": self._authorization}
        try:
            return self._pool.request(
                method, url, headers=headers, body=body, preload_content=False, redirect=False
            )
        except SSLError as error:
            raise PackageNotFound(str(self._reference), f"TLS: {_words(error)}") from error
        except HTTPError as error:
            raise RegistryUnavailable(self._reference.registry, _words(error)) from error

    def _log_in(self, challenge: str, *, writes: bool) -> None:
        """Answer what the registry asks for: a password, or a token that another service gives."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self._login is not None:
            self._authorization = self._basic()
        elif scheme.lower() == "bearer":
            self._authorization = f"Bearer {self._token(dict(_CHALLENGE.findall(rest)), writes)}"

    def _basic(self) -> str:
        assert self._login is not None
        pair = f"{self._login.username}:{self._login.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def _token(self, asked: Mapping[str, str], writes: bool) -> str:
        scope = f"repository:{self._reference.repository}:{'pull,push' if writes else 'pull'}"
        query = urlencode({"service": asked.get("service", ""), "scope": scope})
        headers = {"Authorization": self._basic()} if self._login is not None else {}
        realm = asked.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise PackageNotFound(str(self._reference), "the registry says not where to log in")
        response = self._send("GET", f"{realm}?{query}", headers, None)
        self._refuse(response, ())
        said = json.loads(_read_up_to(response, _MAX_JSON_BYTES))
        return str(said.get("token") or said.get("access_token") or "")

    def _refuse(self, response: BaseHTTPResponse, allowed: Sequence[int]) -> None:
        status = response.status
        if status < 400 or status in allowed:
            return
        response.drain_conn()
        if status in (401, 403):
            who = f"as {self._login.username}" if self._login else "without a login"
            raise PackageNotFound(str(self._reference), f"the registry refuses us {who}")
        if status == 404:
            raise PackageNotFound(str(self._reference), "the registry does not have it")
        if status == 429 or status >= 500:
            raise RegistryUnavailable(self._reference.registry, f"it answers {status}")
        raise PackageNotFound(str(self._reference), f"the registry answers {status}")

    def manifest(self, reference: str) -> tuple[dict[str, Any], bytes]:
        response = self.ask("GET", f"manifests/{reference}", accept=_ALL_MANIFESTS)
        body = _read_up_to(response, _MAX_JSON_BYTES)
        if reference.startswith("sha256:") and digest_of(body) != reference:
            raise InvalidPackage(str(self._reference), "its manifest is not what its digest says")
        try:
            read = json.loads(body)
        except ValueError as error:
            raise InvalidPackage(str(self._reference), "its manifest is no JSON") from error
        if not isinstance(read, dict):
            raise InvalidPackage(str(self._reference), "its manifest is no object")
        return read, body

    def image_manifest(self, reference: str) -> dict[str, Any]:
        """Give the manifest of the one platform where there are several."""
        found, _body = self.manifest(reference)
        if "manifests" in found:
            described = found["manifests"]
            fitting = [each for each in described if _platform_of(each) == PLATFORM]
            if not fitting:
                have = ", ".join(sorted("/".join(_platform_of(each)) for each in described))
                wanted = "/".join(PLATFORM)
                raise InvalidPackage(str(self._reference), f"it is for {have}, not for {wanted}")
            found, _body = self.manifest(fitting[0]["digest"])
        if not isinstance(found.get("config"), dict) or not isinstance(found.get("layers"), list):
            raise InvalidPackage(str(self._reference), "its manifest describes no image")
        return found

    def blob(self, digest: str, limit: int) -> bytes:
        response = self.ask("GET", f"blobs/{digest}")
        for _hop in range(5):
            if response.status not in (301, 302, 303, 307, 308):
                break
            response.drain_conn()
            response = self._send(
                "GET", urljoin(self._root, response.headers["Location"]), {}, None
            )
            self._refuse(response, ())
        data = _read_up_to(response, limit)
        if digest_of(data) != digest:
            raise InvalidPackage(str(self._reference), f"{digest} is not what its digest says")
        return data

    def package_file(self, digest: str) -> bytes:
        """Find `package.yaml`: in the layer that is marked, else in the topmost that has it."""
        manifest = self.image_manifest(digest)
        layers = manifest["layers"]
        marked = [each for each in layers if _is_package_layer(each)]
        for layer in marked or reversed(layers):
            found = _file_in(self.blob(layer["digest"], _MAX_LAYER_BYTES), str(self._reference))
            if found is not None:
                return found
        raise InvalidPackage(str(self._reference), f"it has no {PACKAGE_FILE}")

    def upload(self, blob: Blob) -> None:
        if self.ask("HEAD", f"blobs/{blob.digest}", allowed=(404,)).status < 300:
            return
        begun = self.ask("POST", "blobs/uploads/", body=b"")
        where = urljoin(self._root, begun.headers["Location"])
        joint = "&" if "?" in where else "?"
        self.ask(
            "PUT",
            f"{where}{joint}{urlencode({'digest': blob.digest})}",
            body=blob.data,
            content_type="application/octet-stream",
        ).drain_conn()


def _words(error: Exception) -> str:
    """Say what went wrong without the objects that the library names."""
    return re.sub(r"^<?[^>]*>: ", "", str(error)) or type(error).__name__


def _read_up_to(response: BaseHTTPResponse, limit: int) -> bytes:
    from urllib3.exceptions import HTTPError

    try:
        data = response.read(limit + 1)
    except HTTPError as error:
        raise RegistryUnavailable("in mid-answer", _words(error)) from error
    finally:
        response.release_conn()
    if len(data) > limit:
        raise InvalidPackage("An answer of the registry", f"it has more than {limit >> 20} MiB")
    return data


def _platform_of(described: Mapping[str, Any]) -> tuple[str, str]:
    platform = described.get("platform") or {}
    return str(platform.get("os", "?")), str(platform.get("architecture", "?"))


def _is_package_layer(described: Mapping[str, Any]) -> bool:
    return (described.get("annotations") or {}).get(LAYER_ANNOTATION) == PACKAGE_LAYER


def _file_in(layer: bytes, where: str) -> bytes | None:
    """Find `package.yaml` in a layer; a mark that it was removed hides those below."""
    try:
        stream: Any = io.BytesIO(layer)
        if layer[:2] == b"\x1f\x8b":
            stream = gzip.GzipFile(fileobj=stream)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            return _file_in_archive(archive, where)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InvalidPackage(where, f"a layer of it cannot be read: {error}") from error


def _file_in_archive(archive: tarfile.TarFile, where: str) -> bytes | None:
    for member in archive:
        name = member.name.removeprefix("./").lstrip("/")
        if name == f".wh.{PACKAGE_FILE}":
            raise InvalidPackage(where, f"{PACKAGE_FILE} was removed from it")
        if name != PACKAGE_FILE or not member.isfile():
            continue
        if member.size > _MAX_PACKAGE_BYTES:
            raise InvalidPackage(where, f"{PACKAGE_FILE} has more than {_MAX_PACKAGE_BYTES} bytes")
        content = archive.extractfile(member)
        assert content is not None  # a regular file has content
        return content.read()
    return None
