"""Renewal of certificates, and of the authority that signs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

# A certificate is renewed when a third of its lifetime is left, so that failing renewals
# can be retried for days.
_LEFT_AT_RENEWAL: Final = 3
# Time for which a new authority is published before it signs certificates.
STAGING: Final = timedelta(hours=24)


class KeyPair(NamedTuple):
    """A certificate and its private key in PEM. The key is left out of the `repr`."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(…)"


class CertificateFacts(NamedTuple):
    """Fields of a certificate: subject, issuer, validity and names."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    names: frozenset[str] = frozenset()
    is_authority: bool = False
    fingerprint: str = ""

    def is_due(self, now: datetime) -> bool:
        """Return whether the certificate should be renewed."""
        life = self.not_after - self.not_before
        return now >= self.not_after - life / _LEFT_AT_RENEWAL

    def is_expired(self, now: datetime) -> bool:
        return now >= self.not_after


class AuthorityStep(StrEnum):
    """Next step in the rotation of an authority."""

    CREATE = "create"
    """Create the first authority."""
    KEEP = "keep"
    STAGE = "stage"
    """Create and publish a new authority; the current one still signs."""
    PROMOTE = "promote"
    """Sign with the new authority; the former one is still trusted."""
    RETIRE = "retire"
    """Stop trusting the former authority, since its certificates have expired."""


class AuthorityFacts(NamedTuple):
    """The current authority, the next one and the former one."""

    current: CertificateFacts | None = None
    following: CertificateFacts | None = None
    former: CertificateFacts | None = None


def next_authority_step(
    authority: AuthorityFacts, now: datetime, staging: timedelta = STAGING
) -> AuthorityStep:
    """Choose the next step of a rotation during which all valid certificates are trusted.

    An authority that is not due for renewal is kept, even if it was created by another program.
    """
    current, following = authority.current, authority.following
    if current is None:
        return AuthorityStep.CREATE
    if following is not None:
        is_published = now >= following.not_before + staging or current.is_expired(now)
        return AuthorityStep.PROMOTE if is_published else AuthorityStep.KEEP
    if current.is_due(now):
        return AuthorityStep.STAGE
    if authority.former is not None and authority.former.is_expired(now):
        return AuthorityStep.RETIRE
    return AuthorityStep.KEEP


def why_renew(
    certificate: CertificateFacts | None,
    names: Sequence[str],
    now: datetime,
    *,
    is_signed_by_current: bool,
) -> str:
    """Return why a certificate must be renewed, or an empty string."""
    if certificate is None:
        return "it does not exist"
    if certificate.is_expired(now):
        return "it has expired"
    if missing := sorted(set(names) - certificate.names):
        return f"it lacks the names {', '.join(missing)}"
    if not is_signed_by_current:
        return "it was signed by another authority"
    return "it expires soon" if certificate.is_due(now) else ""
