"""Locations of object stores: the bucket and the credential in a Profile.

`kando` loads this module at every call, so it imports only the standard library.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum
from posixpath import normpath
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError


class InvalidProfile(UsageError, reason="InvalidProfile"):
    """A Profile, or a Secret that it refers to, is not valid."""


class StoreKind(StrEnum):
    """Kinds of object stores; the value is the `location.type` of a Profile."""

    S3 = "s3Compliant"
    GCS = "gcs"
    AZURE = "azure"
    FILE = "file"
    KOPIA = "kopia"


class Credential(NamedTuple):
    """Credential of a bucket: an identity and its secret.

    S3: access key, with a `role` to assume or the `token` of an assumed role. GCS: project
    and the JSON of a service account. Azure: storage account and key, or the token of a
    federated identity.
    """

    id: str = ""
    secret: str = ""
    role: str = ""
    token: str = ""
    environment: str = ""
    federated_token: str = ""

    def __repr__(self) -> str:
        role, environment = self.role, self.environment
        return f"Credential(id={self.id!r}, {role=}, {environment=})"


class Location(NamedTuple):
    """A bucket, or a folder used as one, and the prefix of all paths in it."""

    kind: StoreKind
    bucket: str
    endpoint: str = ""
    region: str = ""
    prefix: str = ""
    credential: Credential = Credential()
    skip_tls_verify: bool = False

    def key_of(self, path: str) -> str:
        """Return the key of a path: with the prefix, single slashes and no leading slash."""
        parts = [part for part in f"{self.prefix}/{path}".split("/") if part not in {"", "."}]
        if ".." in parts:
            raise InvalidProfile(f"Path {path!r} leads out of the location")
        return "/".join(parts)

    @property
    def folder(self) -> str:
        """Path of the folder, if the location is one, else an empty string."""
        return self.endpoint.removeprefix("file://") if self.kind is StoreKind.FILE else ""

    def before_writing(self) -> Location:
        """Return the location that must exist before writing. Folders of buckets are created."""
        return self._replace(bucket="") if self.kind is StoreKind.FILE else self

    def in_folder(self, folder: str) -> Location:
        """Return the folder below `folder` that replaces the bucket.

        A location that is already such a folder is returned unchanged. Other folders keep
        their paths, so that two folders with the same bucket name stay separate.
        """
        if self.kind is StoreKind.FILE:
            below = self.endpoint.removeprefix(f"{folder}/")
            if below != self.endpoint and below.partition("/")[0] in _FOLDERS:
                return self
        own = normpath(f"/{self.folder}").strip("/")
        endpoint = "/".join(filter(None, (folder, self.kind, own)))
        return self._replace(kind=StoreKind.FILE, endpoint=endpoint)

    def check_repository(self) -> None:
        """Raise `InvalidProfile` if restic cannot use the location for a repository."""
        if self.kind not in _OF_RESTIC:
            raise InvalidProfile(
                f"Failed to validate Profile: Location type not supported: {self.kind}; restic "
                "needs one of s3Compliant, gcs or azure, not replaced by a folder"
            )

    def __str__(self) -> str:
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"{self.kind} bucket {self.bucket!r}{at}"


_FOLDERS: Final = frozenset(StoreKind)
_OF_RESTIC: Final = (StoreKind.S3, StoreKind.GCS, StoreKind.AZURE)
_SECRET_KEYS: Final = {
    StoreKind.S3: ("aws_access_key_id", "aws_secret_access_key"),
    StoreKind.GCS: ("gcp_project_id", "gcp_service_key"),
    StoreKind.AZURE: ("azure_storage_account_id", "azure_storage_key"),
}
_GCP_FILE: Final = "service-account.json"
_KINDS: Final = {kind.value.lower(): kind for kind in StoreKind} | {"filestore": StoreKind.FILE}


def read_location(
    location: Mapping[str, Any],
    key_pair: tuple[str, str] | None = None,
    secret: Mapping[str, Any] | None = None,
    *,
    skip_tls_verify: bool = False,
) -> Location:
    """Build a location with its credential. `secret` is a Kubernetes Secret."""
    text = {key.lower(): str(value or "") for key, value in location.items()}
    kind = _KINDS.get(text.get("type", "").lower())
    if kind is None:
        kinds = ", ".join(StoreKind)
        raise InvalidProfile(
            f"Location type {text.get('type', '')!r} is not supported; use one of {kinds}"
        )
    return Location(
        kind,
        text.get("bucket", ""),
        text.get("endpoint", ""),
        text.get("region", ""),
        text.get("prefix", ""),
        _credential_of(kind, key_pair, secret),
        skip_tls_verify,
    )


def _credential_of(
    kind: StoreKind, key_pair: tuple[str, str] | None, secret: Mapping[str, Any] | None
) -> Credential:
    if key_pair is not None:
        return Credential(*key_pair)
    if secret is None or kind not in _SECRET_KEYS:
        return Credential()
    data = {
        key: b64decode(value).decode("utf-8", "surrogateescape")
        for key, value in (secret.get("data") or {}).items()
    }
    identity, key = _SECRET_KEYS[kind]
    return Credential(
        data.get(identity, ""),
        data.get(key) or (data.get(_GCP_FILE, "") if kind is StoreKind.GCS else ""),
        role=data.get("role", ""),
        environment=data.get("azure_storage_environment", ""),
        federated_token=data.get("azure_federated_identity", ""),
    )


def read_printed_profile(profile: Any) -> Location:
    """Parse a Profile as printed by `toJson .Profile`. As in Go, the case of keys is ignored."""
    location = _member(profile, "location")
    if not isinstance(location, Mapping):
        raise InvalidProfile(
            "The profile has no location; check that the ActionSet names a Profile"
        )
    credential = _member(profile, "credential")
    pair, secret = _member(credential, "keyPair"), _member(credential, "secret")
    return read_location(
        location,
        (str(_member(pair, "id") or ""), str(_member(pair, "secret") or "")) if pair else None,
        secret if isinstance(secret, Mapping) else None,
        skip_tls_verify=bool(_member(profile, "skipSSLVerify")),
    )


def _member(of: Any, name: str) -> Any:
    if not isinstance(of, Mapping):
        return None
    return next((value for key, value in of.items() if key.lower() == name.lower()), None)
