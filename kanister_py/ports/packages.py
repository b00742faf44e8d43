"""Packages of functions, and their registries."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kanister_py.core.errors import TransientError
from kanister_py.core.revisions.package import PackageReference


class RegistryUnavailable(TransientError, reason="RegistryUnavailable"):
    """The registry cannot be reached at the moment."""

    def __init__(self, registry: str, why: str) -> None:
        super().__init__(f"Registry {registry} does not respond: {why}")
        self.registry = registry


class RegistryLogin(NamedTuple):
    """Login for one registry. Its `repr` does not contain the password."""

    registry: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.registry!r})"


def credentials_in(login: Mapping[str, Any]) -> tuple[str, str]:
    """Parse user and password of an entry of Docker's `auths`; ValueError if `auth` is invalid."""
    if not login.get("auth"):
        return str(login.get("username") or ""), str(login.get("password") or "")
    encoded = "".join(str(login["auth"]).split())
    username, _, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
    return username, password


class Packages(Protocol):
    """Source of packages by reference, with a cache.

    Raises `RegistryUnavailable` if a registry cannot be reached, which may be temporary, and
    `PackageNotFound` if it denies access or does not have the package.
    """

    def resolve(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> str:
        """Return the current digest of a reference."""

    def read(
        self, reference: PackageReference, digest: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        """Return the `package.yaml` of a digest. Cached results need no request."""

    def read_file(
        self, reference: PackageReference, path: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        """Return a file of the artifact with a reference's digest.

        Without a path, returns the only file of an artifact, or `input.yaml` of an image.
        """

    def tags(
        self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()
    ) -> Sequence[str]:
        """List the tags of a repository."""
