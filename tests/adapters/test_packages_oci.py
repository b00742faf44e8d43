"""Do packages travel to a real registry and back?"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import bcrypt
import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.packages_oci.images import (
    LAYER_TYPE,
    Blob,
    Image,
    build_image,
    digest_of,
    files_layer,
    package_layer,
    read_archive,
    write_archive,
)
from kanister_py.adapters.packages_oci.registry import OciPackages
from kanister_py.core.errors import InvalidPackage, PackageNotFound, RegistryUnavailable
from kanister_py.core.revisions.package import PackageReference
from kanister_py.ports.packages import RegistryLogin

PACKAGE = b"apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-x}\n"


class RunningRegistry(NamedTuple):
    """A registry on this machine, and who may read it."""

    address: str
    login: RegistryLogin
    ca_file: Path

    def reference(self, repository: str, tag: str = "v1.0.0") -> PackageReference:
        return PackageReference(self.address, repository, tag)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(folder: Path, *, is_secure: bool) -> tuple[subprocess.Popen[bytes], RunningRegistry]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed: packages have no registry to travel to")
    port = _free_port()
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
    _wait_until_it_listens(port, process)
    return process, RunningRegistry(
        address, RegistryLogin(address, "ann", "s3cret-word"), folder / "ca.crt"
    )


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the registry did not start")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    process, running = _start(tmp_path_factory.mktemp("registry"), is_secure=False)
    yield running
    process.kill()
    process.wait()


def _image(**files: bytes) -> Image:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name.replace("__", "."))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return build_image([Blob(LAYER_TYPE, gzip.compress(packed.getvalue(), mtime=0))])


def test_a_pushed_package_is_found_by_tag_and_by_digest(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/function-x")
    digest = packages.push(reference, build_image([package_layer(PACKAGE)]), [registry.login])
    assert packages.resolve(reference, [registry.login]) == digest
    assert packages.read(reference, digest, [registry.login]) == PACKAGE


def test_a_tag_that_moves_means_another_digest(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/moving")
    first = packages.push(reference, build_image([package_layer(PACKAGE)]), [registry.login])
    moved = build_image([package_layer(PACKAGE + b"# again\n")])
    second = packages.push(reference, moved, [registry.login])
    assert packages.resolve(reference, [registry.login]) == second != first
    assert packages.read(reference, first, [registry.login]) == PACKAGE


def test_without_a_login_the_registry_says_no_and_no_password_is_told(
    registry: RunningRegistry,
) -> None:
    reference = registry.reference("team/function-x")
    with pytest.raises(PackageNotFound, match="without a login"):
        OciPackages().resolve(reference)
    wrong = registry.login._replace(password="not-the-word")
    with pytest.raises(PackageNotFound, match="as ann") as caught:
        OciPackages().resolve(reference, [wrong])
    assert "not-the-word" not in str(caught.value)
    assert "s3cret" not in repr(registry.login)


def test_a_package_that_is_not_there_is_named(registry: RunningRegistry) -> None:
    with pytest.raises(PackageNotFound, match=r"team/none:v1\.0\.0"):
        OciPackages().resolve(registry.reference("team/none"), [registry.login])


def test_an_image_without_a_mark_is_searched_from_the_top(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/unmarked")
    image = _image(package__yaml=PACKAGE, other=b"x")
    digest = packages.push(reference, image, [registry.login])
    assert packages.read(reference, digest, [registry.login]) == PACKAGE


def test_an_image_that_is_no_package_is_refused(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/no-package")
    digest = packages.push(reference, _image(other=b"x"), [registry.login])
    with pytest.raises(InvalidPackage, match=r"it has no package\.yaml"):
        packages.read(reference, digest, [registry.login])


def test_what_was_read_once_needs_no_registry_again(tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    process, running = _start(folder, is_secure=False)
    try:
        packages = OciPackages(tmp_path / "cache")
        reference = running.reference("team/kept")
        digest = packages.push(reference, build_image([package_layer(PACKAGE)]), [running.login])
        packages.read(reference, digest, [running.login])
    finally:
        process.kill()
        process.wait()
    after_restart = OciPackages(tmp_path / "cache")
    assert after_restart.read(reference, digest) == PACKAGE
    with pytest.raises(RegistryUnavailable):
        after_restart.resolve(reference)


def test_an_image_built_on_another_has_its_layers_and_its_own_command(
    registry: RunningRegistry, tmp_path: Path
) -> None:
    packages = OciPackages()
    below = registry.reference("team/base")
    packages.push(below, _image(bin=b"program"), [registry.login])
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print('hello')\n")
    base = packages.pull(below, [registry.login])
    image = build_image(
        [files_layer(tmp_path / "app", "function"), package_layer(PACKAGE)],
        base=base,
        command=["python3", "/function/main.py"],
        environment={"PYTHONPATH": "/function"},
    )
    assert len(image.layers) == 3
    config = json.loads(image.config.data)
    assert config["config"]["Entrypoint"] == ["python3", "/function/main.py"]
    assert len(config["rootfs"]["diff_ids"]) == 3
    reference = registry.reference("team/on-base")
    digest = packages.push(reference, image, [registry.login])
    assert packages.read(reference, digest, [registry.login]) == PACKAGE


def test_the_same_files_are_the_same_image(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n")
    made = [build_image([files_layer(tmp_path, "f"), package_layer(PACKAGE)]) for _ in range(2)]
    assert made[0].manifest().digest == made[1].manifest().digest


def test_an_archive_holds_the_same_image(tmp_path: Path) -> None:
    image = build_image([package_layer(PACKAGE)])
    write_archive(image, tmp_path / "function-x.xpkg")
    assert read_archive(tmp_path / "function-x.xpkg").manifest() == image.manifest()


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.xpkg").write_bytes(content)
    with pytest.raises(InvalidPackage):
        read_archive(tmp_path / "x.xpkg")


def test_a_registry_is_trusted_by_the_authority_that_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    process, running = _start(folder, is_secure=True)
    try:
        # An address of this machine that is spoken to as any other: over TLS.
        address = running.address.replace("127.0.0.1", "0.0.0.0")
        login = running.login._replace(registry=address)
        reference = PackageReference(address, "team/x", "v1")
        trusting = OciPackages(ca_file=running.ca_file)
        digest = trusting.push(reference, build_image([package_layer(PACKAGE)]), [login])
        assert trusting.resolve(reference, [login]) == digest
        with pytest.raises(PackageNotFound, match="TLS"):
            OciPackages().resolve(reference, [login])
    finally:
        process.kill()
        process.wait()


def test_content_that_its_digest_does_not_name_is_refused(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/function-y")
    packages.push(reference, build_image([package_layer(PACKAGE)]), [registry.login])
    with pytest.raises(PackageNotFound):
        packages.read(reference, digest_of(b"something else"), [registry.login])
