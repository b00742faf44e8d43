"""Hostile registries: one clear error, within limited time and memory."""

from __future__ import annotations

import gzip
import io
import json
import resource
import ssl
import tarfile
import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.packages_oci.exchange import PackageNotFound
from kanister_py.adapters.packages_oci.layers import Allowance, UnreadableLayer, find_file
from kanister_py.adapters.packages_oci.registry import (
    PACKAGE_FILE,
    OciPackages,
    digest_of,
    refusal_of,
)
from kanister_py.core.errors import KanisterError
from kanister_py.core.revisions.package import InvalidPackage, PackageReference
from kanister_py.ports.packages import RegistryLogin, RegistryUnavailable
from tests.hostile_server import DRIP_SECONDS, Answer, Request, dripping, hostile_server, http
from tests.oci_images import LAYER_TYPE

# A slow response takes longer than this; a busy machine does not.
GIVEN_UP_SECONDS = 30
DRIPS = 2 * int(GIVEN_UP_SECONDS / DRIP_SECONDS)

PACKAGE = b"kind: Function\n"


def _tar(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name.replace("__", "."))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


LAYER = gzip.compress(_tar(package__yaml=PACKAGE), mtime=0)


def _manifest(layer: bytes = LAYER, **over: Any) -> bytes:
    manifest = {
        "schemaVersion": 2,
        "config": {"digest": digest_of(b"{}"), "mediaType": "c"},
        "layers": [{"mediaType": LAYER_TYPE, "digest": digest_of(layer)}],
    }
    return json.dumps({**manifest, **over}).encode()


def _registry(manifest: bytes, **blobs: Iterable[bytes]) -> Answer:
    """Return the handler of a registry; blobs are handlers by the first digits of their digest."""

    def answer(asked: Request) -> Iterable[bytes]:
        if "/manifests/" in asked.path:
            body = b"" if asked.method == "HEAD" else manifest
            return http(body, Docker_Content_Digest=digest_of(manifest))
        return next((blobs[key] for key in blobs if key in asked.path), http(LAYER))

    return answer


def _reference(address: str) -> PackageReference:
    return PackageReference(address, "team/function-x", "v1")


def _packages(cache: Path | None = None) -> OciPackages:
    return OciPackages(cache, timeout_seconds=60.0, read_seconds=60.0)


def _read(answer: Answer, digest: str = "") -> bytes:
    with hostile_server(answer) as server:
        packages, reference = _packages(), _reference(server.address)
        return packages.read(reference, digest or packages.resolve(reference))


def test_unmodified_registry_has_a_valid_package() -> None:
    assert _read(_registry(_manifest())) == PACKAGE


@pytest.mark.parametrize(
    "claimed",
    [
        "latest",
        "md5:" + "0" * 32,
        "/etc/passwd",
        "sha256:../../x",
        "sha256:" + "A" * 64,
        "sha512:1",
    ],
)
def test_invalid_digest_is_rejected(claimed: str, tmp_path: Path) -> None:
    def answer(asked: Request) -> list[bytes]:
        body = b"" if asked.method == "HEAD" else _manifest()
        return http(body, Docker_Content_Digest=claimed)

    with hostile_server(answer) as server:
        with pytest.raises(InvalidPackage, match="not a sha256 digest"):
            _packages(tmp_path / "cache").resolve(_reference(server.address))
        with pytest.raises(InvalidPackage, match="not a sha256 digest"):
            _packages(tmp_path / "cache").read(_reference(server.address), claimed)
    assert not list(tmp_path.rglob("*"))


def test_reported_digest_is_compared_with_the_content() -> None:
    def answer(asked: Request) -> list[bytes]:
        body = b"" if asked.method == "HEAD" else _manifest()
        return http(body, Docker_Content_Digest=digest_of(b"another"))

    with hostile_server(answer) as server, pytest.raises(InvalidPackage, match="calls sha256:"):
        _packages().resolve(_reference(server.address))


def test_file_with_wrong_digest_is_rejected(tmp_path: Path) -> None:
    annotations = {"org.opencontainers.image.title": "input.yaml"}
    layer = {"digest": digest_of(b"a: 1\n"), "annotations": annotations}
    manifest = _manifest(layers=[layer])
    with hostile_server(_registry(manifest, blobs=http(b"a: 2\n"))) as server:
        pinned = _reference(server.address)._replace(digest=digest_of(manifest))
        with pytest.raises(PackageNotFound, match="does not match its digest"):
            _packages(tmp_path / "cache").read_file(pinned, "")
    assert not list(tmp_path.rglob("*"))


def test_unchanged_tag_is_not_downloaded_again() -> None:
    with hostile_server(_registry(_manifest())) as server:
        packages = _packages()
        first = packages.resolve(_reference(server.address))
        assert packages.resolve(_reference(server.address)) == first
    assert [request.method for request in server.requests] == ["HEAD", "GET", "HEAD"]


DEEP = b"[" * 100_000
HUGE_NUMBER = b'{"schemaVersion": ' + b"9" * 10_000 + b"}"
MANIFESTS = {
    "no JSON": b"<html>",
    "no UTF-8": b"\xff\xfe{}",
    "deep": DEEP,
    "a number without end": HUGE_NUMBER,
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "nothing": b"",
    "no layers": _manifest(layers=None),
    "layers of texts": _manifest(layers=["x"]),
    "a layer without digest": _manifest(layers=[{}]),
    "a layer with a path for a digest": _manifest(layers=[{"digest": "../../../etc/passwd"}]),
    "a digest that is a list": _manifest(layers=[{"digest": ["sha256"]}]),
    "annotations that are a list": _manifest(layers=[{"digest": "x", "annotations": [1]}]),
    "too many layers": _manifest(layers=[{"digest": digest_of(LAYER)}] * 1000),
    "config of a text": _manifest(config="x"),
    "an index of texts": json.dumps({"manifests": ["x"]}).encode(),
    "an index of nothing": json.dumps({"manifests": []}).encode(),
    "an index that is an object": json.dumps({"manifests": {}}).encode(),
    "an index with a path": json.dumps(
        {"manifests": [{"digest": "a/b", "platform": {"os": "linux", "architecture": "amd64"}}]}
    ).encode(),
    "a platform that is a list": json.dumps({"manifests": [{"platform": []}]}).encode(),
    "larger than allowed": b"[" + b" " * (5 << 20) + b"]",
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_invalid_manifest_is_one_clear_error(manifest: bytes) -> None:
    _is_refused(_registry(manifest))


BLOBS: dict[str, list[bytes]] = {
    "other content": http(b"something else"),
    "no gzip": http(b"\x1f\x8b but no gzip"),
    "cut short": http(LAYER[:-20]),
    "more promised than sent": [b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx"],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n"],
    "nothing": [],
    "a status that is none": [b"HTTP/1.1 abc\r\n\r\n"],
    "headers without end": [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 60_000 + b"\r\n"] * 300],
    "one header without end": [b"HTTP/1.1 200 OK\r\nX: ", *[b"y" * 60_000] * 10],
    "a length that is none": [b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"],
    "chunks that are none": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "packed once more": http(zlib.compress(LAYER), Content_Encoding="deflate"),
    "no longer there": http(b"", "404 Not Found"),
    "teapot": http(b"", "418 I'm a teapot"),
    "sent away to nowhere": http(b"", "307 Temporary Redirect"),
    "sent away to a file": http(b"", "307 Temporary Redirect", Location="file:///etc/passwd"),
    "sent away to no address": http(b"", "307 Temporary Redirect", Location="http://[::1"),
    "sent around in circles": http(b"", "307 Temporary Redirect", Location="/v2/other"),
}


@pytest.mark.parametrize("blob", BLOBS.values(), ids=BLOBS)
def test_invalid_layer_is_one_clear_error(blob: list[bytes]) -> None:
    def answer(asked: Request) -> Iterable[bytes]:
        return blob if "/blobs/" in asked.path or "other" in asked.path else registry(asked)

    registry = _registry(_manifest())
    _is_refused(answer)


def _is_refused(answer: Answer) -> None:
    with pytest.raises(KanisterError) as caught:
        _read(answer)
    assert isinstance(caught.value, InvalidPackage | PackageNotFound | RegistryUnavailable)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


CHALLENGE = 'Bearer realm="http://{realm}/token",service="s"'


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"token": 5}', id="a number"),
        pytest.param(b'{"token": "a\\r\\nX-Evil: 1"}', id="a header"),
        pytest.param(b"{}", id="none"),
        pytest.param(DEEP, id="deep"),
        pytest.param(b"\xff", id="no text"),
    ],
)
def test_invalid_token_is_one_clear_error(token: bytes) -> None:
    def answer(asked: Request) -> list[bytes]:
        if asked.path.startswith("/token"):
            return http(token)
        host = next(line[6:] for line in asked.head.split("\r\n") if line.startswith("Host: "))
        return http(b"", "401 Unauthorized", WWW_Authenticate=CHALLENGE.format(realm=host))

    _is_refused(answer)


@pytest.mark.parametrize(
    "challenge",
    [
        "",
        "Bearer",
        "Bearer realm=",
        'Bearer realm="ftp://x"',
        'Bearer realm="http://["',
        "Negotiate",
    ],
)
def test_invalid_challenge_is_one_clear_error(challenge: str) -> None:
    _is_refused(lambda _: http(b"", "401 Unauthorized", WWW_Authenticate=challenge))


def test_a_token_is_requested_for_pulling_only() -> None:
    registry = _registry(_manifest())

    def answer(asked: Request) -> Iterable[bytes]:
        if asked.path.startswith("/token"):
            return http(b'{"token": "t"}')
        if "Authorization: Bearer t" not in asked.head:
            host = next(line[6:] for line in asked.head.split("\r\n") if line.startswith("Host: "))
            return http(b"", "401 Unauthorized", WWW_Authenticate=CHALLENGE.format(realm=host))
        return registry(asked)

    with hostile_server(answer) as server:
        packages, reference = _packages(), _reference(server.address)
        assert packages.read(reference, packages.resolve(reference)) == PACKAGE
        scopes = [request.path for request in server.requests if request.path.startswith("/token")]
    assert scopes
    assert all("scope=repository%3Ateam%2Ffunction-x%3Apull&" in f"{path}&" for path in scopes)


# Where a password may be sent


@pytest.mark.parametrize(
    ("realm", "origin", "may"),
    [
        ("https://registry.example.com/token", "https://registry.example.com", True),
        ("https://auth.example.com/token", "https://registry.example.com", True),
        ("https://example.com/jwt", "https://registry.example.com", True),
        ("https://auth.docker.io/token", "https://index.docker.io", True),
        ("https://auth.docker.io/token", "https://docker.io", True),
        ("https://login.other.org/token", "https://registry.example.com", True),
        ("http://127.0.0.1:5001/token", "http://127.0.0.1:5000", True),
        ("http://registry.example.com/token", "https://registry.example.com", False),
        ("https://example.org/token", "https://registry.example.com", False),
        ("https://example.com.evil.org/token", "https://registry.example.com", False),
        ("https://evilexample.com/token", "https://registry.example.com", False),
        ("https://registry.example.com@evil.org/token", "https://registry.example.com", False),
        ("https://other.com/token", "https://example.com", False),
        ("https://10.0.0.2/token", "https://10.0.0.1", False),
    ],
)
def test_a_password_goes_to_the_registrys_own_domain_and_never_without_tls(
    realm: str, origin: str, may: bool
) -> None:
    assert (refusal_of(realm, origin, {"login.other.org"}) == "") is may


def test_a_registry_of_another_domain_gets_no_password() -> None:
    with hostile_server(lambda _: http(b"{}")) as other:
        realm = other.address.replace("127.0.0.1", "localhost")
        challenge = CHALLENGE.format(realm=realm)

        def answer(_: Request) -> list[bytes]:
            return http(b"", "401 Unauthorized", WWW_Authenticate=challenge)

        with hostile_server(answer) as server:
            login = RegistryLogin(server.address, "ann", "s3cret")
            with pytest.raises(PackageNotFound, match=f"log in to {realm} too"):
                _packages().resolve(_reference(server.address), [login])
    assert not other.requests


def test_password_is_not_sent_after_a_redirect() -> None:
    with hostile_server(lambda _: http(LAYER)) as store:

        def answer(asked: Request) -> list[bytes]:
            if "Authorization: Basic" not in asked.head:
                return http(b"", "401 Unauthorized", WWW_Authenticate="Basic realm=x")
            if "/blobs/" in asked.path:
                return http(b"", "307 Moved", Location=f"http://{store.address}/layer")
            return [*registry(asked)]

        registry = _registry(_manifest())
        with hostile_server(answer) as server:
            login = RegistryLogin(server.address, "ann", "s3cret")
            reference = _reference(server.address)
            packages = _packages()
            digest = packages.resolve(reference, [login])
            assert packages.read(reference, digest, [login]) == PACKAGE
    assert len(store.requests) == 1
    assert "Authorization" not in store.requests[0].head


def test_redirect_from_tls_to_plain_http_is_rejected(tmp_path: Path) -> None:
    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", timedelta(days=1))
    served = certificates.issue(authority, ["0.0.0.0"], timedelta(days=1))
    for name, text in (
        ("ca.crt", authority.certificate),
        ("tls.crt", served.certificate),
        ("tls.key", served.key),
    ):
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    with hostile_server(lambda _: http(LAYER)) as plain:

        def answer(asked: Request) -> Iterable[bytes]:
            if "/blobs/" in asked.path:
                return http(b"", "307 Moved", Location=f"http://{plain.address}/layer")
            return registry(asked)

        registry = _registry(_manifest())
        with hostile_server(answer, tls=context) as server:
            # A loopback address that is accessed with TLS, like remote ones.
            reference = _reference(server.address.replace("127.0.0.1", "0.0.0.0"))
            packages = OciPackages(ca_file=tmp_path / "ca.crt", timeout_seconds=60.0)
            digest = packages.resolve(reference)
            with pytest.raises(InvalidPackage, match="from TLS to plain HTTP"):
                packages.read(reference, digest)
    assert not plain.requests


# Limits of time and memory


@pytest.mark.parametrize("part", ["head", "body"])
def test_slow_registry_is_limited_by_the_total_timeout(part: str) -> None:
    def answer(asked: Request) -> Iterable[bytes]:
        response = b"".join(http(b"x" * DRIPS))
        head, _, body = response.partition(b"\r\n\r\n")
        if part == "body":
            return [head + b"\r\n\r\n", *dripping(body)]
        return dripping(response)

    with hostile_server(answer) as server:
        packages = OciPackages(timeout_seconds=60.0, read_seconds=0.5)
        began = time.monotonic()
        with pytest.raises(RegistryUnavailable, match=r"not finished within 0\.5s"):
            packages.read(_reference(server.address), digest_of(b"x"))
        assert time.monotonic() - began < GIVEN_UP_SECONDS


def _bomb(first: bytes, zeros: int) -> bytes:
    """Return a compressed archive that starts with these bytes and continues with zeros."""
    pack = zlib.compressobj(1, wbits=31)
    block = bytes(1 << 20)
    pieces = [pack.compress(first), *(pack.compress(block) for _ in range(zeros >> 20))]
    return b"".join([*pieces, pack.flush()])


def _entry(name: str, size: int, kind: bytes = b"0") -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        pytest.param(_entry("a", 1 << 40), "unpacks to more than", id="a file that unpacks"),
        pytest.param(_entry("a", 300 << 20, b"x"), "a header in it has more", id="a pax header"),
        pytest.param(_entry("a", 300 << 20, b"L"), "a header in it has more", id="a long name"),
        pytest.param(_entry(PACKAGE_FILE, 300 << 20), "has more than 16 MiB", id="package.yaml"),
    ],
)
def test_decompression_bomb_is_stopped(first: bytes, why: str) -> None:
    layer = _bomb(first, 256 << 20)
    assert len(layer) < 2 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableLayer, match=why):
        find_file(iter([layer]), PACKAGE_FILE, Allowance(64 << 20), 16 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_number_of_entries_is_limited() -> None:
    layer = _bomb(_entry("a", 0) * 100_001, 0)
    with pytest.raises(UnreadableLayer, match="more than 100000 entries"):
        find_file(iter([layer]), PACKAGE_FILE, Allowance(1 << 30), 16 << 20)


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("size", [1, 7, 512, 1 << 20])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("is_packed", [True, False])
def test_file_is_found_in_every_archive_format(size: int, form: int, is_packed: bool) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for name, data in (
            ("folder/" + "long-name" * 9 + "/" + "y" * 80, b"z" * 1000),
            ("./" + PACKAGE_FILE, PACKAGE),
            ("behind", b"x"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = packed.getvalue()
    # As two gzip members, which some tools write.
    wire = gzip.compress(data[:700]) + gzip.compress(data[700:]) if is_packed else data
    content = find_file(_pieces(wire, size), PACKAGE_FILE, Allowance(1 << 20), 1 << 20)
    assert content == PACKAGE


def test_layer_is_verified_before_its_content_is_used() -> None:
    layer = gzip.compress(_tar(package__yaml=PACKAGE, other=b"x" * 100_000), mtime=0)
    manifest = _manifest(layer)
    changed = http(layer + b"\0")
    _is_refused(_registry(manifest, **{digest_of(layer)[7:20]: changed}))


def _tags(*pages: Any) -> tuple[list[str], list[str]]:
    """List the tags of a registry that always links to another page; the last page is repeated."""
    asked_for: list[str] = []

    def answer(asked: Request) -> Iterable[bytes]:
        page = pages[min(len(asked_for), len(pages) - 1)]
        asked_for.append(asked.path)
        return http(json.dumps(page).encode(), Link='<http://evil.example.org/>; rel="next"')

    with hostile_server(answer) as server:
        return list(_packages().tags(_reference(server.address))), asked_for


def test_tags_are_listed_page_by_page_from_one_host() -> None:
    tags, requests = _tags({"tags": ["v1.0.0", "v1.1.0"]}, {"tags": ["v2.0.0"]})
    assert tags == ["v1.0.0", "v1.1.0", "v2.0.0"]
    assert [path.partition("last=")[2] for path in requests] == ["", "v1.1.0", "v2.0.0"]


@pytest.mark.parametrize(
    "page",
    [{}, [], {"tags": None}, {"tags": "v1.0.0"}, {"tags": [1, None, "../x", "a b", "x" * 200]}],
)
def test_invalid_list_of_tags_is_empty(page: Any) -> None:
    assert _tags(page)[0] == []


def test_endless_pages_of_tags_are_limited() -> None:
    pages = [{"tags": [f"v{number}.0.0"]} for number in range(200)]
    assert len(_tags(*pages)[0]) == 50
