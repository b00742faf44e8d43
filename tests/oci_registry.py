"""Local OCI registry for tests (docker-registry)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import bcrypt
import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.revisions.package import PackageReference
from kanister_py.ports.packages import RegistryLogin
from tests.oci_images import Blob, package_layer, push_image
from tests.ports import free_port


class RunningRegistry(NamedTuple):
    """Running registry, with the login for it."""

    address: str
    login: RegistryLogin
    ca_file: Path

    def reference(self, repository: str, tag: str = "v1.0.0") -> PackageReference:
        return PackageReference(self.address, repository, tag)

    def push(self, reference: PackageReference, package_file: bytes) -> str:
        """Push a package with this `package.yaml` and return its digest."""
        return push_image(reference, [package_layer(package_file)], self.login)

    def push_files(self, repository: str, **files: bytes) -> PackageReference:
        """Push an artifact with one layer per file and return its reference with the digest."""
        config = Blob("application/vnd.oci.empty.v1+json", b"{}")
        layers = [
            Blob(
                "application/vnd.oci.image.layer.v1.tar",
                data,
                {"org.opencontainers.image.title": name.replace("__", ".")},
            )
            for name, data in files.items()
        ]
        reference = self.reference(repository)
        digest = push_image(reference, layers, self.login, config=config)
        return reference._replace(digest=digest)


@contextmanager
def running_registry(folder: Path, *, is_secure: bool = False) -> Iterator[RunningRegistry]:
    """Run a registry until the end of the block. Its folder keeps the data."""
    folder.mkdir(exist_ok=True)
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed: there is no registry for packages")
    port = free_port()
    hashed = bcrypt.hashpw(b"s3cret-word", bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"ann:{hashed}\n")
    config: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}},
    }
    http: dict[str, object] = {"addr": f"127.0.0.1:{port}"}
    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", timedelta(days=1))
    (folder / "ca.crt").write_text(authority.certificate)
    if is_secure:
        served = certificates.issue(authority, ["0.0.0.0"], timedelta(days=1))
        (folder / "tls.crt").write_text(served.certificate)
        (folder / "tls.key").write_text(served.key)
        http["tls"] = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
    config["http"] = http
    (folder / "config.yml").write_text(json.dumps(config))
    process = subprocess.Popen(
        [program, "serve", str(folder / "config.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
    )
    address = f"127.0.0.1:{port}"
    try:
        _wait_until_it_listens(port, process)
        login = RegistryLogin(address, "ann", "s3cret-word")
        yield RunningRegistry(address, login, folder / "ca.crt")
    finally:
        process.kill()
        process.wait()


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the registry did not start")
