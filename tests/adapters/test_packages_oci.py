"""Packages on their way to a real registry and back."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.adapters.packages_oci.exchange import PackageNotFound
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
from kanister_py.core.revisions.package import InvalidPackage, PackageReference
from kanister_py.ports.packages import RegistryUnavailable
from tests.oci_registry import RunningRegistry, running_registry

PACKAGE = b"apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-x}\n"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


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


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("", b"a: 1\n", id="the one file there is"),
        pytest.param("input.yaml", b"a: 1\n", id="by its name"),
    ],
)
def test_a_file_of_an_artifact_is_read_by_its_digest(
    registry: RunningRegistry, path: str, found: bytes, tmp_path: Path
) -> None:
    reference = registry.push_files("team/one-file", input__yaml=b"a: 1\n")
    packages = OciPackages(tmp_path)
    assert packages.read_file(reference, path, [registry.login]) == found
    # What a digest names needs nobody who may ask for it again.
    assert packages.read_file(reference, path) == found


def test_a_file_of_an_image_lies_in_its_topmost_layer(registry: RunningRegistry) -> None:
    reference = registry.reference("team/in-an-image")
    (below,) = _image(input__yaml=b"old: 1\n", other__yaml=b"b: 2\n").layers
    (above,) = _image(input__yaml=b"new: 1\n").layers
    packages = OciPackages()
    digest = packages.push(reference, build_image([below, above]), [registry.login])
    pinned = reference._replace(digest=digest)
    assert packages.read_file(pinned, "", [registry.login]) == b"new: 1\n"
    assert packages.read_file(pinned, "other.yaml", [registry.login]) == b"b: 2\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("c.yaml", "it has no c.yaml: a.yaml, b.yaml", id="another name"),
        pytest.param("", "it has no one file: a.yaml, b.yaml", id="which of several"),
    ],
)
def test_a_file_that_is_not_there_says_which_are(
    registry: RunningRegistry, path: str, message: str
) -> None:
    reference = registry.push_files("team/two-files", a__yaml=b"a: 1\n", b__yaml=b"b: 2\n")
    with pytest.raises(PackageNotFound) as caught:
        OciPackages().read_file(reference, path, [registry.login])
    assert caught.value.why == message


def test_a_file_is_not_read_by_a_tag(registry: RunningRegistry) -> None:
    with pytest.raises(InvalidPackage, match="no sha256 digest"):
        OciPackages().read_file(registry.reference("team/one-file"), "", [registry.login])


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
    with running_registry(tmp_path / "registry") as running:
        packages = OciPackages(tmp_path / "cache")
        reference = running.reference("team/kept")
        digest = packages.push(reference, build_image([package_layer(PACKAGE)]), [running.login])
        packages.read(reference, digest, [running.login])
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


def _listed(listing: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(listing)
        archive.addfile(member, io.BytesIO(listing))
    return packed.getvalue()


def _header(name: str, size: int, kind: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no archive", id="no archive"),
        pytest.param(_listed(b"[]"), id="no image in it"),
        pytest.param(_listed(b"{}"), id="no list"),
        pytest.param(_listed(b"[5]"), id="a number for an image"),
        pytest.param(_listed(b'[{"Config": [], "Layers": 5}]'), id="a list for a name"),
        pytest.param(_header("a", 500 << 20, b"x"), id="a header without end"),
        pytest.param(_header("a", 1 << 60, b"0"), id="a file without end"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.xpkg").write_bytes(content)
    with pytest.raises(InvalidPackage):
        read_archive(tmp_path / "x.xpkg")


def test_a_registry_is_trusted_by_the_authority_that_was_given(tmp_path: Path) -> None:
    with running_registry(tmp_path / "registry", is_secure=True) as running:
        # An address of this machine that is spoken to as any other: over TLS.
        address = running.address.replace("127.0.0.1", "0.0.0.0")
        login = running.login._replace(registry=address)
        reference = PackageReference(address, "team/x", "v1")
        trusting = OciPackages(ca_file=running.ca_file)
        digest = trusting.push(reference, build_image([package_layer(PACKAGE)]), [login])
        assert trusting.resolve(reference, [login]) == digest
        with pytest.raises(PackageNotFound, match="TLS"):
            OciPackages().resolve(reference, [login])


def test_content_that_its_digest_does_not_name_is_refused(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/function-y")
    packages.push(reference, build_image([package_layer(PACKAGE)]), [registry.login])
    with pytest.raises(PackageNotFound):
        packages.read(reference, digest_of(b"something else"), [registry.login])
