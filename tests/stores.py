"""Real object stores on this machine, for tests: servers of S3, Google's and Azure's APIs.

They are built once, from the Go module proxy and npm. Where they are not there yet,
tests skip and say how to build them; a gate that may skip nothing builds them.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import urllib3

from e2e.cluster.programs import (
    GoMissing,
    NpmMissing,
    find_axe,
    find_azurite,
    find_etcd,
    find_fake_gcs,
    find_versitygw,
    stores_are_built,
)
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.objects.locations import Credential, Location, StoreKind
from tests.ports import free_port

S3_KEY, S3_SECRET = "rootkey", "rootsecret123"
BUCKET = "kbucket"
AZURE_ACCOUNT = "devstoreaccount1"
# What this emulator has for every machine.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_HOW = "run `python -m tests.stores`, which takes minutes, once"


def _program(kind: StoreKind) -> Path:
    if not stores_are_built() and not os.environ.get("KANISTER_PY_EVERY_GATE"):
        pytest.skip(f"the servers of object stores are not built: {_HOW}")
    try:
        match kind:
            case StoreKind.GCS:
                return find_fake_gcs()
            case StoreKind.AZURE:
                return find_azurite()
            case _:
                return find_versitygw()
    except (GoMissing, NpmMissing) as error:
        pytest.skip(f"no server of {kind}: {error}")


@contextmanager
def running_store(kind: StoreKind, folder: Path) -> Iterator[Location]:
    """Run a server with one empty bucket until the end of the block."""
    port = free_port()
    program = _program(kind)
    match kind:
        case StoreKind.S3:
            with running_s3(folder, port=port) as location:
                yield location
        case StoreKind.GCS:
            command = [program, *("-scheme", "http", "-host", "127.0.0.1", "-port", str(port))]
            command += ["-public-host", f"127.0.0.1:{port}", "-backend", "memory"]
            with _served(command, port, folder):
                url = f"http://127.0.0.1:{port}"
                urllib3.request("POST", f"{url}/storage/v1/b?project=p", json={"name": BUCKET})
                credential = Credential("p", service_account())
                yield Location(StoreKind.GCS, BUCKET, url, credential=credential)
        case _:
            command = [program, "--silent", "--blobPort", str(port), "--location", str(folder)]
            with _served([*command, "--skipApiVersionCheck"], port, folder):
                _make_container(port, BUCKET)
                yield Location(
                    StoreKind.AZURE,
                    BUCKET,
                    f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}",
                    credential=Credential(AZURE_ACCOUNT, AZURE_KEY),
                )


@contextmanager
def running_s3(
    folder: Path,
    *,
    port: int = 0,
    certificate: tuple[Path, Path] | None = None,
    secret: str = S3_SECRET,
) -> Iterator[Location]:
    """Run an S3 server over a folder, in which each bucket is a folder."""
    port = port or free_port()
    root = folder / "buckets"
    (root / BUCKET).mkdir(parents=True, exist_ok=True)
    tls = ["--cert", str(certificate[0]), "--key", str(certificate[1])] if certificate else []
    command = [_program(StoreKind.S3), "--port", f"127.0.0.1:{port}", "--quiet", *tls]
    login = {"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": secret}
    with _served([*command, "posix", str(root)], port, folder, login):
        scheme = "https" if certificate else "http"
        yield Location(
            StoreKind.S3,
            BUCKET,
            f"{scheme}://127.0.0.1:{port}",
            "us-east-1",
            credential=Credential(S3_KEY, secret),
        )


@contextmanager
def running_azure_for_tokens(folder: Path, certificate: tuple[Path, Path]) -> Iterator[Location]:
    """Run a server of Azure's API that takes tokens; it looks at what they say, and no more."""
    port = free_port()
    url = f"https://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    command = [_program(StoreKind.AZURE), "--silent", "--blobPort", str(port), "--oauth", "basic"]
    command += ["--location", str(folder), "--skipApiVersionCheck"]
    command += ["--cert", str(certificate[0]), "--key", str(certificate[1])]
    now = int(SystemClock().now().timestamp())
    tenant = "ab1f708d-50f6-404c-a006-d71b2ac7a606"
    claims = {
        "aud": "https://storage.azure.com",
        "iss": f"https://sts.windows.net/{tenant}/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
        "tid": tenant,
        "oid": tenant,
        "appid": "kanister-py",
        "ver": "1.0",
    }
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    token = ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts
    )
    with _served(command, port, folder):
        headers = {"authorization": f"Bearer {token}.c2ln", "x-ms-version": "2021-08-06"}
        headers["x-ms-date"] = SystemClock().now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        with urllib3.PoolManager(ca_certs=str(certificate[0])) as pool:
            made = pool.request("PUT", f"{url}/{BUCKET}?restype=container", headers=headers)
        assert made.status == 201, made.data
        credential = Credential(AZURE_ACCOUNT, "", federated_token=f"{token}.c2ln")
        yield Location(StoreKind.AZURE, BUCKET, url, credential=credential, skip_tls_verify=True)


@contextmanager
def _served(
    command: Sequence[object], port: int, folder: Path, env: dict[str, str] | None = None
) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [str(each) for each in command],
            stdout=log,
            stderr=log,
            env={**os.environ, **(env or {})},
        )
        try:
            _wait_until_served(process, port, folder / "server.log")
            yield
        finally:
            process.kill()
            process.wait()


def _wait_until_served(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            # Any answer will do, certificate or not.
            urllib3.request("GET", f"http://127.0.0.1:{port}/", retries=False, timeout=2)
        except urllib3.exceptions.ProtocolError:
            return
        except urllib3.exceptions.HTTPError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the store does not start:\n{log.read_text()}")


@contextmanager
def breaking_connections(location: Location, after_bytes: int) -> Iterator[Location]:
    """Stand between a client and a store, and break off every answer that is longer."""
    target = int(location.endpoint.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", target)) as server:
            ends = {client: server, server: client}
            left = after_bytes
            while left > 0:
                for end in select.select(list(ends), [], [], 30)[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    left -= len(data) if end is server else 0
                    ends[end].sendall(data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                Thread(target=carry, args=(client,), daemon=True).start()

    Thread(target=serve, daemon=True).start()
    try:
        yield replace(location, endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        listener.close()


class Faults:
    """What a store's answers are replaced with: `status` and `body` for so many requests."""

    def __init__(self, status: int, body: bytes = b"", *, times: int, method: str = "") -> None:
        self.status, self.body, self.times, self.method = status, body, times, method
        self.flips_bytes = False
        self.seen = 0


@contextmanager
def faulty(location: Location, faults: Faults) -> Iterator[Location]:
    """Stand between a client and a store, and answer in its stead for a while."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            is_meant = faults.method in {"", self.command}
            if is_meant and faults.seen < faults.times:
                faults.seen += 1
                if not faults.flips_bytes:
                    self.answer(faults.status, {}, faults.body)
                    return
            with urllib3.PoolManager() as pool:
                # The host is what the signature was made for.
                found = pool.request(
                    self.command,
                    f"{location.endpoint}{self.path}",
                    headers=dict(self.headers.items()),
                    body=body,
                    redirect=False,
                    retries=False,
                    preload_content=True,
                )
            data = found.data
            if is_meant and faults.flips_bytes and data:
                data = bytes([data[0] ^ 1]) + data[1:]
            headers = {
                key: each
                for key, each in found.headers.items()
                if key.lower() not in {"content-length", "transfer-encoding", "connection"}
            }
            length = found.headers.get("content-length", str(len(data)))
            self.answer(found.status, headers, data, length)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815 - as the library wants

        def answer(
            self, status: int, headers: Mapping[str, str], body: bytes, length: str = ""
        ) -> None:
            self.send_response(status)
            for key, each in headers.items():
                self.send_header(key, each)
            self.send_header("content-length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield replace(location, endpoint=f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@cache
def service_account() -> str:
    """Make the JSON key of a service account."""
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = generate_private_key(65537, 2048)
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "k1",
            "private_key": key.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            ).decode(),
            "client_email": "backup@p.iam.example",
            "client_id": "1",
        }
    )


def _make_container(port: int, name: str) -> None:
    date = SystemClock().now().strftime("%a, %d %b %Y %H:%M:%S GMT")
    version = "2021-08-06"
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}\nrestype:container"
    blank = "\n" * 12
    text = f"PUT{blank}x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    digest = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")
    signature = base64.b64encode(digest).decode()
    answer = urllib3.request(
        "PUT",
        f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}/{name}?restype=container",
        headers={
            "x-ms-date": date,
            "x-ms-version": version,
            "authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}",
            "content-length": "0",
        },
    )
    assert answer.status == 201, answer.data


if __name__ == "__main__":
    for find in (find_versitygw, find_fake_gcs, find_azurite, find_axe):
        print(find())
    print(*find_etcd())
    print(shutil.which("restic") or "restic is not installed")
