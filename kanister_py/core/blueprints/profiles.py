"""Pydantic model of Profiles, used for the CRD schema and for unknown keys.

`core.kube.locations` reads the location of a Profile without this model, because `kando` needs a
short start-up time.
"""

from __future__ import annotations

from pydantic import Field

from kanister_py.core.blueprints.model import TargetReference
from kanister_py.core.kube.objects import Metadata
from kanister_py.core.models import ApiModel, NamedMap


class LocationSpec(ApiModel):
    """Place where data is stored."""

    type: str = Field("", description="Kind of store: s3Compliant, gcs, azure, file or kopia.")
    bucket: str = Field("", description="Name of the bucket, or of the container in Azure.")
    endpoint: str = Field(
        "", description="URL of the store, if it is not the provider's own; or a folder."
    )
    prefix: str = Field("", description="Prefix of all paths in the bucket.")
    region: str = Field("", description="Region of the bucket.")


class KeyPair(ApiModel):
    """Credential that consists of two keys of one Secret."""

    id_field: str = Field("", description="Key in the Secret with the identity.")
    secret_field: str = Field("", description="Key in the Secret with the secret.")
    secret: TargetReference = Field(default_factory=TargetReference, description="The Secret.")


class SecretKey(ApiModel):
    """One key of a Secret."""

    key: str = Field("", description="Key in the Secret.")
    secret: TargetReference = Field(default_factory=TargetReference, description="The Secret.")


class KopiaServerSecret(ApiModel):
    """Credential of a Kopia server."""

    username: str = Field("", description="Name of the user.")
    hostname: str = Field("", description="Host of the user.")
    user_passphrase: SecretKey = Field(
        default_factory=SecretKey, description="Passphrase of the user."
    )
    tls_cert: SecretKey = Field(default_factory=SecretKey, description="Certificate of the server.")
    connect_options: NamedMap[int] = Field(
        default_factory=dict, description="Options of the connection, such as cache sizes."
    )


class CredentialSpec(ApiModel):
    """Credential for the location."""

    type: str = Field("", description="Kind of credential: keyPair, secret or kopia.")
    key_pair: KeyPair | None = Field(None, description="Two keys of a Secret, for type keyPair.")
    secret: TargetReference | None = Field(
        None, description="Secret in the format of its provider, for type secret."
    )
    kopia_server_secret: KopiaServerSecret | None = Field(
        None, description="Credential of a Kopia server, for type kopia."
    )


class ProfileObject(ApiModel):
    """Location for data, with its credential."""

    api_version: str = ""
    kind: str = "Profile"
    metadata: Metadata = Field(default_factory=Metadata)
    location: LocationSpec = Field(
        default_factory=LocationSpec, description="Where data is stored."
    )
    credential: CredentialSpec = Field(
        default_factory=CredentialSpec, description="Credential for the location."
    )
    skip_ssl_verify: bool = Field(
        False,
        alias="skipSSLVerify",
        description="Accept any certificate of the store. Use it for tests only.",
    )
