"""Renewal of certificates, and of the authority that signs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kanister_py.core.kube.certificates import (
    AuthorityFacts,
    AuthorityStep,
    CertificateFacts,
    KeyPair,
    next_authority_step,
    why_renew,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
LIFE = timedelta(days=90)
DAY = timedelta(days=1)
FIRST = CertificateFacts(
    "CN=a", "CN=ca", START, START + LIFE, frozenset({"a.example", "b.example"})
)
SECOND = FIRST._replace(not_before=START + 70 * DAY, not_after=START + 160 * DAY)


@pytest.mark.parametrize(
    ("authority", "day", "want"),
    [
        pytest.param(AuthorityFacts(), 0, AuthorityStep.CREATE, id="none yet"),
        pytest.param(AuthorityFacts(FIRST), 59, AuthorityStep.KEEP, id="two thirds of its life"),
        pytest.param(AuthorityFacts(FIRST), 60, AuthorityStep.STAGE, id="a third is left"),
        pytest.param(
            AuthorityFacts(FIRST, SECOND),
            70,
            AuthorityStep.KEEP,
            id="the new one was published recently",
        ),
        pytest.param(
            AuthorityFacts(FIRST, SECOND),
            71,
            AuthorityStep.PROMOTE,
            id="the new one was published long enough",
        ),
        pytest.param(
            AuthorityFacts(SECOND, None, FIRST), 80, AuthorityStep.KEEP, id="both are trusted"
        ),
        pytest.param(
            AuthorityFacts(SECOND, None, FIRST), 90, AuthorityStep.RETIRE, id="the old one is over"
        ),
    ],
)
def test_rotation_of_an_authority(authority: AuthorityFacts, day: int, want: AuthorityStep) -> None:
    assert next_authority_step(authority, START + day * DAY) is want


def test_new_authority_signs_at_once_if_the_old_one_has_expired() -> None:
    late = SECOND._replace(not_before=START + LIFE)
    assert next_authority_step(AuthorityFacts(FIRST, late), START + LIFE) is AuthorityStep.PROMOTE


@pytest.mark.parametrize(
    ("facts", "names", "day", "is_ours", "why"),
    [
        pytest.param(FIRST, ["a.example"], 0, True, "", id="it still does"),
        pytest.param(None, ["a.example"], 0, True, "it does not exist", id="none"),
        pytest.param(FIRST, ["a.example"], 60, True, "it expires soon", id="near its end"),
        pytest.param(FIRST, ["a.example"], 90, True, "it has expired", id="over"),
        pytest.param(
            FIRST, ["c.example"], 0, True, "it lacks the names c.example", id="a new name"
        ),
        pytest.param(
            FIRST,
            ["a.example"],
            0,
            False,
            "it was signed by another authority",
            id="of another authority",
        ),
    ],
)
def test_reason_for_renewing_a_certificate(
    facts: CertificateFacts | None, names: list[str], day: int, is_ours: bool, why: str
) -> None:
    assert why_renew(facts, names, START + day * DAY, is_signed_by_current=is_ours) == why


def test_repr_does_not_contain_the_key() -> None:
    assert "secret" not in repr(KeyPair("certificate", "secret"))
