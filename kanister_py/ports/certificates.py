"""Certificates: the port for making and reading them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from kanister_py.core.kube.certificates import CertificateFacts, KeyPair


class Certificates(Protocol):
    """Maker of authorities and of what they sign. Texts are PEM."""

    def new_authority(self, name: str, life: timedelta) -> KeyPair:
        """Make an authority that signs itself."""

    def issue(
        self, authority: KeyPair, names: Sequence[str], life: timedelta, *, is_client: bool = False
    ) -> KeyPair:
        """Make a certificate for a server with these names or addresses, or for a client."""

    def read(self, certificate: str) -> CertificateFacts | None:
        """Say what the first certificate of a text says; None if there is none to be read."""

    def is_signed_by(self, certificate: str, authority: str) -> bool:
        """Say whether an authority has signed a certificate."""

    def fits(self, pair: KeyPair) -> bool:
        """Say whether a key belongs to its certificate."""
