"""Packages of functions, and the registries that they come from."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kanister_py.core.errors import TransientError
from kanister_py.core.revisions.package import PackageReference


class RegistryUnavailable(TransientError, reason="RegistryUnavailable"):
    """A registry gives no answer for the moment."""

    def __init__(self, registry: str, why: str) -> None:
        super().__init__(f"Registry {registry} gives no answer: {why}")
        self.registry = registry


class RegistryLogin(NamedTuple):
    """Login at one registry. Printing it shows no password."""

    registry: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.registry!r})"


def credentials_in(login: Mapping[str, Any]) -> tuple[str, str]:
    """Read user and password of an entry of Docker's `auths`; ValueError if `auth` says none."""
    if not login.get("auth"):
        return str(login.get("username") or ""), str(login.get("password") or "")
    encoded = "".join(str(login["auth"]).split())
    username, _, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
    return username, password


class Packages(Protocol):
    """A place that knows packages by reference and keeps what it has once seen.

    A registry that cannot be reached raises `RegistryUnavailable`, which may pass;
    what it refuses or does not have raises `PackageNotFound`.
    """

    def resolve(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> str:
        """Say which digest a reference means now."""

    def read(
        self, reference: PackageReference, digest: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        """Give the `package.yaml` of a digest. What was read once needs no registry again."""

    def read_file(
        self, reference: PackageReference, path: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        """Give a file of the artifact that a reference names by its digest.

        Without a path the one file of an artifact, or `input.yaml` in an image.
        """

    def tags(
        self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()
    ) -> Sequence[str]:
        """List the tags of a repository."""
