"""Port for issuing and reading X.509 certificates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from kanister_py.core.kube.certificates import CertificateFacts, KeyPair


class Certificates(Protocol):
    """Issuer of certificate authorities and certificates. All texts are PEM."""

    def new_authority(self, name: str, life: timedelta) -> KeyPair:
        """Create a self-signed certificate authority."""

    def issue(
        self, authority: KeyPair, names: Sequence[str], life: timedelta, *, is_client: bool = False
    ) -> KeyPair:
        """Issue a server certificate for these names or addresses, or a client certificate."""

    def read(self, certificate: str) -> CertificateFacts | None:
        """Parse the first certificate of a text. Returns None if there is none."""

    def is_signed_by(self, certificate: str, authority: str) -> bool:
        """Return True if the certificate is signed by the authority."""

    def fits(self, pair: KeyPair) -> bool:
        """Return True if the key belongs to the certificate."""
