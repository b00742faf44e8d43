"""What does a Profile say?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.model import Metadata, ObjectReference, ResourceReader
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.objects.documents import Document, Path

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Location(NamedTuple):
    """Where a Profile's data lies. Which types there are is for what opens it to say."""

    type: str = ""
    bucket: str = ""
    endpoint: str = ""
    prefix: str = ""
    region: str = ""


class KeyPairReference(NamedTuple):
    """Under which keys of which Secret an identity and its secret stand."""

    id_field: str = ""
    secret_field: str = ""
    secret: ObjectReference = ObjectReference()


class SecretKeyReference(NamedTuple):
    """One key of one Secret."""

    key: str = ""
    secret: ObjectReference = ObjectReference()


class KopiaServerSecret(NamedTuple):
    """How to log in to a Kopia server."""

    username: str = ""
    hostname: str = ""
    user_passphrase: SecretKeyReference = SecretKeyReference()
    tls_cert: SecretKeyReference = SecretKeyReference()
    connect_options: Mapping[str, int] = _NOTHING


class Credential(NamedTuple):
    """What a Profile's location is opened with; `type` says which of the others counts."""

    type: str = ""
    key_pair: KeyPairReference | None = None
    secret: ObjectReference | None = None
    kopia_server_secret: KopiaServerSecret | None = None


class Profile(NamedTuple):
    """A place for data, and what opens it."""

    api_version: str = ""
    kind: str = "Profile"
    metadata: Metadata = Metadata()
    location: Location = Location()
    credential: Credential = Credential()
    skip_ssl_verify: bool = False


def parse_profile(document: Document, path: Path = ()) -> Profile:
    """Read a part of a document as a Profile, or refuse it with every problem in it."""
    node = document.node_at(path)
    if node is None:
        raise InvalidDocument([document.problem(path, "Is required")])
    reader = _Reader()
    read = reader.profile(node.value, ())
    if reader.problems:
        raise InvalidDocument(
            [document.problem((*path, *inside), said) for inside, said in reader.problems]
        )
    return read


class _Reader(ResourceReader):
    """Reads Profiles; keys that nobody knows are no news here."""

    def profile(self, value: Any, path: Path) -> Profile:
        data = self.mapping(value, path)
        return Profile(
            self.text(data, "apiVersion", path),
            self.text(data, "kind", path) or "Profile",
            self.metadata(data.get("metadata"), (*path, "metadata")),
            self._location(data.get("location"), (*path, "location")),
            self._credential(data.get("credential"), (*path, "credential")),
            self.flag(data, "skipSSLVerify", path),
        )

    def _location(self, value: Any, path: Path) -> Location:
        data = self.mapping(value, path)
        return Location(*(self.text(data, key, path) for key in Location._fields))

    def _credential(self, value: Any, path: Path) -> Credential:
        data = self.mapping(value, path)
        pair, secret, kopia = (data.get(key) for key in ("keyPair", "secret", "kopiaServerSecret"))
        return Credential(
            self.text(data, "type", path),
            None if pair is None else self._key_pair(pair, (*path, "keyPair")),
            None if secret is None else self.reference(secret, (*path, "secret")),
            None if kopia is None else self._kopia(kopia, (*path, "kopiaServerSecret")),
        )

    def _key_pair(self, value: Any, path: Path) -> KeyPairReference:
        data = self.mapping(value, path)
        return KeyPairReference(
            self.text(data, "idField", path),
            self.text(data, "secretField", path),
            self.reference(data.get("secret"), (*path, "secret")),
        )

    def _kopia(self, value: Any, path: Path) -> KopiaServerSecret:
        data = self.mapping(value, path)
        options = self.mapping(data.get("connectOptions"), (*path, "connectOptions"))
        at = (*path, "connectOptions")
        return KopiaServerSecret(
            self.text(data, "username", path),
            self.text(data, "hostname", path),
            self._secret_key(data.get("userPassphrase"), (*path, "userPassphrase")),
            self._secret_key(data.get("tlsCert"), (*path, "tlsCert")),
            {key: int(self.number(options, key, at, 0, least=0, whole=True)) for key in options},
        )

    def _secret_key(self, value: Any, path: Path) -> SecretKeyReference:
        data = self.mapping(value, path)
        return SecretKeyReference(
            self.text(data, "key", path),
            self.reference(data.get("secret"), (*path, "secret")),
        )
