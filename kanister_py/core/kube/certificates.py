"""Renewal of certificates, and of the authority that signs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

# A certificate is renewed when a third of its life is left: time for a renewal that
# fails for days.
_LEFT_AT_RENEWAL: Final = 3
# A new authority is published for so long before it signs anything.
STAGING: Final = timedelta(hours=24)


class KeyPair(NamedTuple):
    """A certificate and its private key, both in PEM. Printing it shows no key."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(…)"


class CertificateFacts(NamedTuple):
    """Facts that a certificate states: its subject, issuer, times and names."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    names: frozenset[str] = frozenset()
    is_authority: bool = False
    fingerprint: str = ""

    def is_due(self, now: datetime) -> bool:
        """Say whether so little of its life is left that it is renewed."""
        life = self.not_after - self.not_before
        return now >= self.not_after - life / _LEFT_AT_RENEWAL

    def is_over(self, now: datetime) -> bool:
        return now >= self.not_after


class AuthorityStep(StrEnum):
    """Next step for an authority."""

    CREATE = "create"
    """There is none yet."""
    KEEP = "keep"
    STAGE = "stage"
    """A new one is made and published; the old one still signs."""
    PROMOTE = "promote"
    """The new one signs from now on; the old one is still trusted."""
    RETIRE = "retire"
    """What the old one signed is over: it is trusted no more."""


class AuthorityFacts(NamedTuple):
    """The authority that signs, the one that will, and the one that did."""

    current: CertificateFacts | None = None
    following: CertificateFacts | None = None
    former: CertificateFacts | None = None


def next_authority_step(
    authority: AuthorityFacts, now: datetime, staging: timedelta = STAGING
) -> AuthorityStep:
    """Choose the step by which one authority follows another with no refusal meanwhile.

    One that is not near its end is never touched, wherever it is from.
    """
    current, following = authority.current, authority.following
    if current is None:
        return AuthorityStep.CREATE
    if following is not None:
        is_known = now >= following.not_before + staging or current.is_over(now)
        return AuthorityStep.PROMOTE if is_known else AuthorityStep.KEEP
    if current.is_due(now):
        return AuthorityStep.STAGE
    if authority.former is not None and authority.former.is_over(now):
        return AuthorityStep.RETIRE
    return AuthorityStep.KEEP


def why_renew(
    certificate: CertificateFacts | None,
    names: Sequence[str],
    now: datetime,
    *,
    is_signed_by_current: bool,
) -> str:
    """Say why a certificate is made anew, or nothing if it still does."""
    if certificate is None:
        return "there is none"
    if certificate.is_over(now):
        return "it is over"
    if missing := sorted(set(names) - certificate.names):
        return f"it does not name {', '.join(missing)}"
    if not is_signed_by_current:
        return "another authority signed it"
    return "it is near its end" if certificate.is_due(now) else ""
