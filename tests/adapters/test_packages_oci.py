"""Packages read from a real registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kanister_py.adapters.packages_oci.exchange import PackageNotFound
from kanister_py.adapters.packages_oci.registry import OciPackages, digest_of
from kanister_py.core.revisions.package import InvalidPackage, PackageReference
from kanister_py.ports.packages import RegistryUnavailable
from tests.oci_images import files_layer, push_image
from tests.oci_registry import RunningRegistry, running_registry

PACKAGE = b"apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-x}\n"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def test_package_is_found_by_tag_and_by_digest(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/function-x")
    digest = registry.push(reference, PACKAGE)
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
    # Content with a known digest needs no further login.
    assert packages.read_file(reference, path) == found


def test_file_is_read_from_the_topmost_layer(registry: RunningRegistry) -> None:
    reference = registry.reference("team/in-an-image")
    below = files_layer(input__yaml=b"old: 1\n", other__yaml=b"b: 2\n")
    above = files_layer(input__yaml=b"new: 1\n")
    packages = OciPackages()
    digest = push_image(reference, [below, above], registry.login)
    pinned = reference._replace(digest=digest)
    assert packages.read_file(pinned, "", [registry.login]) == b"new: 1\n"
    assert packages.read_file(pinned, "other.yaml", [registry.login]) == b"b: 2\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("c.yaml", "it has no c.yaml; available: a.yaml, b.yaml", id="another name"),
        pytest.param("", "it has no single file; available: a.yaml, b.yaml", id="which of several"),
    ],
)
def test_missing_file_error_lists_available_files(
    registry: RunningRegistry, path: str, message: str
) -> None:
    reference = registry.push_files("team/two-files", a__yaml=b"a: 1\n", b__yaml=b"b: 2\n")
    with pytest.raises(PackageNotFound) as caught:
        OciPackages().read_file(reference, path, [registry.login])
    assert caught.value.why == message


def test_reading_a_file_requires_a_digest(registry: RunningRegistry) -> None:
    with pytest.raises(InvalidPackage, match="not a sha256 digest"):
        OciPackages().read_file(registry.reference("team/one-file"), "", [registry.login])


def test_moved_tag_resolves_to_the_new_digest(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/moving")
    first = registry.push(reference, PACKAGE)
    second = registry.push(reference, PACKAGE + b"# again\n")
    assert packages.resolve(reference, [registry.login]) == second != first
    assert packages.read(reference, first, [registry.login]) == PACKAGE


def test_missing_login_is_an_error_without_password(
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


def test_missing_package_is_named(registry: RunningRegistry) -> None:
    with pytest.raises(PackageNotFound, match=r"team/none:v1\.0\.0"):
        OciPackages().resolve(registry.reference("team/none"), [registry.login])


def test_image_without_annotation_is_searched_from_the_top(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/unmarked")
    layer = files_layer(package__yaml=PACKAGE, other=b"x")
    digest = push_image(reference, [layer], registry.login)
    assert packages.read(reference, digest, [registry.login]) == PACKAGE


def test_image_without_package_is_rejected(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/no-package")
    digest = push_image(reference, [files_layer(other=b"x")], registry.login)
    with pytest.raises(InvalidPackage, match=r"it has no package\.yaml"):
        packages.read(reference, digest, [registry.login])


def test_cached_package_needs_no_registry(tmp_path: Path) -> None:
    with running_registry(tmp_path / "registry") as running:
        packages = OciPackages(tmp_path / "cache")
        reference = running.reference("team/kept")
        digest = running.push(reference, PACKAGE)
        packages.read(reference, digest, [running.login])
    after_restart = OciPackages(tmp_path / "cache")
    assert after_restart.read(reference, digest) == PACKAGE
    with pytest.raises(RegistryUnavailable):
        after_restart.resolve(reference)


def test_registry_certificate_is_checked_with_the_ca_file(tmp_path: Path) -> None:
    with running_registry(tmp_path / "registry", is_secure=True) as running:
        # A loopback address that is accessed with TLS, like remote ones.
        address = running.address.replace("127.0.0.1", "0.0.0.0")
        login = running.login._replace(registry=address)
        reference = PackageReference(address, "team/x", "v1")
        trusting = OciPackages(ca_file=running.ca_file)
        with pytest.raises(PackageNotFound, match="does not have it"):
            trusting.resolve(reference, [login])
        with pytest.raises(PackageNotFound, match="TLS"):
            OciPackages().resolve(reference, [login])


def test_content_with_wrong_digest_is_rejected(registry: RunningRegistry) -> None:
    packages = OciPackages()
    reference = registry.reference("team/function-y")
    registry.push(reference, PACKAGE)
    with pytest.raises(PackageNotFound):
        packages.read(reference, digest_of(b"something else"), [registry.login])
