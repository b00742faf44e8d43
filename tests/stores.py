"""Local servers of the S3, Google and Azure APIs, for tests.

They are built once, from the Go module proxy and npm. Without them, tests are skipped with a hint
how to build them, unless every gate must run.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import urllib3

from e2e.cluster.programs import (
    GoMissing,
    NpmMissing,
    find_axe,
    find_azurite,
    find_etcd,
    find_fake_gcs,
    find_opensearch,
    find_versitygw,
    stores_are_built,
)
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.locations import Credential, Location, StoreKind
from tests.ports import free_port

S3_KEY, S3_SECRET = "rootkey", "rootsecret123"
BUCKET = "kbucket"
AZURE_ACCOUNT = "devstoreaccount1"
# Well-known account and key of this emulator.
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
            command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
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
    disk_bytes: int = 0,
) -> Iterator[Location]:
    """Run an S3 server over a folder, in which each bucket is a folder.

    With `disk_bytes` the folder is a disk of that size, which the server alone sees.
    """
    port = port or free_port()
    root = folder / "buckets"
    (root / BUCKET).mkdir(parents=True, exist_ok=True)
    tls = ["--cert", str(certificate[0]), "--key", str(certificate[1])] if certificate else []
    command = [_program(StoreKind.S3), "--port", f"127.0.0.1:{port}", "--quiet", *tls]
    command += ["posix", str(root)]
    if disk_bytes:
        mount = f"mount -t tmpfs -o size={disk_bytes} none {root} && mkdir {root / BUCKET}"
        shell = ["sh", "-c", f'{mount} && exec "$@"', "sh"]
        command = ["unshare", "--user", "--map-root-user", "--mount", *shell, *command]
    login = {"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": secret}
    with _served(command, port, folder, login):
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
    """Run a server of Azure's API with authentication by tokens. It only checks their claims."""
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
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    )
    with _served(command, port, folder):
        headers = {"authorization": f"Bearer {token}.c2ln", "x-ms-version": "2021-08-06"}
        headers["x-ms-date"] = SystemClock().now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        with urllib3.PoolManager(ca_certs=str(certificate[0])) as pool:
            response = pool.request("PUT", f"{url}/{BUCKET}?restype=container", headers=headers)
        assert response.status == 201, response.data
        credential = Credential(AZURE_ACCOUNT, "", federated_token=f"{token}.c2ln")
        yield Location(StoreKind.AZURE, BUCKET, url, credential=credential, skip_tls_verify=True)


@contextmanager
def _served(
    command: Sequence[object], port: int, folder: Path, env: dict[str, str] | None = None
) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
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
            # Any response is sufficient, whatever the certificate.
            urllib3.request("GET", f"http://127.0.0.1:{port}/", retries=False, timeout=2)
        except urllib3.exceptions.ProtocolError:
            return
        except urllib3.exceptions.HTTPError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the store does not start:\n{log.read_text()}")


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
    print(find_opensearch())
    print(shutil.which("restic") or "restic is not installed")
