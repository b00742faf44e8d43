"""Object stores on real servers, and on a folder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.object_store_obstore import open_store
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.locations import Credential, InvalidProfile, Location, StoreKind
from kanister_py.ports.object_store import ObjectStore
from tests.contracts.object_store import ObjectStoreContract
from tests.ports import free_port
from tests.stores import BUCKET, running_azure_for_tokens, running_s3, running_store


def opened(location: Location) -> ObjectStore:
    return open_store(location, SystemClock().now)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.GCS, tmp_path_factory.mktemp("gcs")) as location:
        yield location


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.AZURE, tmp_path_factory.mktemp("azure")) as location:
        yield location


def emptied(location: Location) -> ObjectStore:
    store = opened(location)
    store.delete(obj.key for obj in store.list(""))
    return store


class TestFolder(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        (tmp_path / "bucket").mkdir()
        return opened(Location(StoreKind.FILE, "bucket", str(tmp_path)))


class TestS3(ObjectStoreContract):
    @pytest.fixture
    def store(self, s3: Location) -> ObjectStore:
        return emptied(s3)


class TestGoogle(ObjectStoreContract):
    @pytest.fixture
    def store(self, gcs: Location) -> ObjectStore:
        return emptied(gcs)


class TestAzure(ObjectStoreContract):
    @pytest.fixture
    def store(self, azure: Location) -> ObjectStore:
        return emptied(azure)


# Errors and their messages


def refusal(location: Location) -> KanisterError:
    """Return the error of reading and writing, which must be the same."""
    with pytest.raises(KanisterError) as listing:
        opened(location).check()
    with pytest.raises(KanisterError) as writing:
        opened(location).put("key", [b"x"])
    assert listing.value.reason == writing.value.reason, (listing.value, writing.value)
    assert "\n" not in str(listing.value) + str(writing.value)
    return listing.value


def test_s3_chunks_have_full_size(s3: Location) -> None:
    store, piece = emptied(s3), 256 * 1024
    store.put("long", [bytes(piece * 5 + 3)])
    assert list(map(len, store.get("long"))) == [piece] * 5 + [3]


def test_missing_bucket_is_named(s3: Location) -> None:
    error = refusal(s3._replace(bucket="nosuchbucket"))
    assert error.reason == "BucketNotFound"
    assert "'nosuchbucket'" in error.message


@pytest.mark.parametrize(
    "credential",
    [
        pytest.param(Credential("nosuchkey", "rootsecret123"), id="an unknown key"),
        pytest.param(Credential("rootkey", "wrongsecret"), id="a wrong secret"),
    ],
)
def test_rejected_credential_has_its_own_reason(s3: Location, credential: Credential) -> None:
    error = refusal(s3._replace(credential=credential))
    assert error.reason == "CredentialRefused"
    assert credential.secret not in error.message


def test_wrong_region_has_its_own_reason(s3: Location) -> None:
    error = refusal(s3._replace(region="eu-west-1"))
    assert error.reason == "WrongRegion"
    # In readable form, not as the XML of the store.
    assert 'the region "eu-west-1" is wrong' in error.message


def test_unreachable_store_is_a_transient_error(s3: Location) -> None:
    error = refusal(s3._replace(endpoint=f"http://127.0.0.1:{free_port()}"))
    assert error.reason == "StoreUnavailable"


def test_wrong_clock_has_its_own_reason(s3: Location) -> None:
    store = open_store(s3, lambda: SystemClock().now() - timedelta(hours=2))
    with pytest.raises(KanisterError) as caught:
        store.put("key", [b"x"])
    assert caught.value.reason == "ClockSkewed"


@pytest.mark.parametrize("name", ["gcs", "azure"])
def test_missing_bucket_in_other_stores_is_named(name: str, request: pytest.FixtureRequest) -> None:
    location = request.getfixturevalue(name)
    assert refusal(location._replace(bucket="nosuchbucket")).reason == "BucketNotFound"


def test_wrong_azure_key_has_its_own_reason(azure: Location) -> None:
    wrong = Credential(azure.credential.id, "d3Jvbmc=")
    assert refusal(azure._replace(credential=wrong)).reason == "CredentialRefused"


@pytest.mark.parametrize("secret", ["", "no json", '{"client_email": "x"}'])
def test_invalid_service_account_fails_without_a_request(secret: str) -> None:
    location = Location(StoreKind.GCS, BUCKET, credential=Credential("p", secret))
    with pytest.raises(KanisterError) as caught:
        opened(location)
    assert caught.value.reason == "CredentialRefused"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Files of a certificate for loopback that is signed by an unknown authority."""
    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", timedelta(days=1))
    served = certificates.issue(authority, ["127.0.0.1"], timedelta(days=1))
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    files[0].write_text(served.certificate + authority.certificate)
    files[1].write_text(served.key)
    return files


@pytest.mark.long
def test_a_token_of_a_federated_identity_opens_a_container(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    with running_azure_for_tokens(tmp_path / "azure", certificate) as location:
        store = opened(location)
        store.put("a/b", [b"x" * 10])
        assert b"".join(store.get("a/b")) == b"x" * 10
        assert store.delete(obj.key for obj in store.list("a/")) == 1
        other = location.credential._replace(federated_token="no.token.at-all")
        assert refusal(location._replace(credential=other)).reason == "CredentialRefused"


def test_untrusted_certificate_is_rejected_unless_skipped(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    with running_s3(tmp_path, certificate=certificate) as location:
        assert refusal(location).reason == "TlsFailed"
        store = opened(location._replace(skip_tls_verify=True))
        store.put("key", [b"x"])
        assert b"".join(store.get("key")) == b"x"


def test_kopia_repository_is_rejected_with_an_alternative() -> None:
    with pytest.raises(InvalidProfile, match="use a Profile of type s3Compliant, gcs or azure"):
        opened(Location(StoreKind.KOPIA, ""))


def test_corrupted_object_is_detected(tmp_path: Path) -> None:
    with running_s3(tmp_path) as location:
        store = opened(location)
        for key, size in (("short", 100), ("long", 20 * 1024 * 1024)):
            store.put(key, [bytes(size)])
            file = tmp_path / "buckets" / BUCKET / key
            with file.open("r+b") as opened_file:
                opened_file.seek(50)
                opened_file.write(b"rot")
            with pytest.raises(UsageError, match="has checksum"):
                list(store.get(key))
