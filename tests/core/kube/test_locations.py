"""Locations of object stores in all forms of Profiles."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from kanister_py.core.kube.locations import (
    Credential,
    InvalidProfile,
    Location,
    StoreKind,
    read_location,
    read_printed_profile,
)


def secret(**data: str) -> dict[str, Any]:
    return {"data": {key: b64encode(value.encode()).decode() for key, value in data.items()}}


@pytest.mark.parametrize(
    ("kind", "held", "want"),
    [
        pytest.param(
            "s3Compliant",
            secret(aws_access_key_id="k", aws_secret_access_key="s", role="arn:r"),
            Credential("k", "s", role="arn:r"),
            id="a role",
        ),
        pytest.param(
            "gcs",
            secret(gcp_project_id="p", gcp_service_key="{}"),
            Credential("p", "{}"),
            id="a service account",
        ),
        pytest.param(
            "gcs",
            {"data": {"service-account.json": "e30="}},
            Credential("", "{}"),
            id="a file of a service account",
        ),
        pytest.param(
            "azure",
            secret(
                azure_storage_account_id="a",
                azure_storage_key="k",
                azure_storage_environment="AzureChinaCloud",
            ),
            Credential("a", "k", environment="AzureChinaCloud"),
            id="an account in another cloud",
        ),
        pytest.param(
            "azure",
            secret(azure_storage_account_id="a", azure_federated_identity="t"),
            Credential("a", "", federated_token="t"),
            id="a federated identity",
        ),
    ],
)
def test_credential_is_read_from_a_secret_of_any_kind(
    kind: str, held: dict[str, Any], want: Credential
) -> None:
    assert read_location({"type": kind, "bucket": "b"}, secret=held).credential == want


def test_printed_profile_is_parsed() -> None:
    printed = {
        "Location": {
            "type": "s3Compliant",
            "bucket": "b",
            "endpoint": "e",
            "region": "r",
            "prefix": "p",
        },
        "Credential": {"Type": "keyPair", "KeyPair": {"ID": "k", "Secret": "s"}, "Secret": None},
        "SkipSSLVerify": True,
    }
    assert read_printed_profile(printed) == Location(
        StoreKind.S3, "b", "e", "r", "p", Credential("k", "s"), skip_tls_verify=True
    )


@pytest.mark.parametrize("printed", [None, [], {}, {"Location": None}, "text"])
def test_a_profile_without_a_location_is_refused(printed: Any) -> None:
    with pytest.raises(InvalidProfile, match="check that the ActionSet names a Profile"):
        read_printed_profile(printed)


def test_unknown_location_type_is_refused_with_the_supported_ones() -> None:
    with pytest.raises(
        InvalidProfile, match=r"'ftp' is not supported; use one of s3Compliant, gcs"
    ):
        read_location({"type": "ftp"})


@pytest.mark.parametrize(
    ("prefix", "path", "key"),
    [
        ("", "a/b", "a/b"),
        ("", "/a//b/", "a/b"),
        ("p/q", "a", "p/q/a"),
        ("/p/", "./a", "p/a"),
        ("p", "", "p"),
    ],
)
def test_key_starts_with_the_prefix(prefix: str, path: str, key: str) -> None:
    assert Location(StoreKind.S3, "b", prefix=prefix).key_of(path) == key


def test_path_cannot_leave_the_location() -> None:
    with pytest.raises(InvalidProfile):
        Location(StoreKind.S3, "b", prefix="p").key_of("../other")


@pytest.mark.parametrize("kind", StoreKind)
def test_folder_replaces_stores_of_every_kind_once(
    kind: StoreKind,
) -> None:
    placed = Location(kind, "b", "/srv/store", prefix="p").in_folder("/stands/in")
    own = "/srv/store" if kind is StoreKind.FILE else ""
    assert placed == Location(StoreKind.FILE, "b", f"/stands/in/{kind}{own}", prefix="p")
    assert placed.in_folder("/stands/in") == placed


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        pytest.param("/srv/store/", "/in/file/srv/store", id="of a folder"),
        pytest.param("file:///srv/store", "/in/file/srv/store", id="of a folder, as a URL"),
        pytest.param("/../a/../../b", "/in/file/b", id="of one that would lead out"),
        pytest.param("", "/in/file", id="of none"),
    ],
)
def test_replaced_folders_with_the_same_bucket_name_stay_separate(
    endpoint: str, place: str
) -> None:
    placed = Location(StoreKind.FILE, "backups", endpoint).in_folder("/in")
    assert (placed.endpoint, placed.in_folder("/in")) == (place, placed)


def test_repr_contains_no_secret() -> None:
    location = Location(StoreKind.S3, "b", credential=Credential("k", "s3cret"))
    assert "s3cret" not in f"{location!r} {location}"
