"""Which number does a revision get?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.revisions.numbering import Change, Numbered, Numbering, number_revision

A, B, C = (Numbered(name, number, name) for number, name in enumerate("abc", start=1))


@pytest.mark.parametrize(
    ("identity", "existing", "want"),
    [
        pytest.param("a", [], Numbering(Change.CREATE, 1), id="the first one"),
        pytest.param("b", [A], Numbering(Change.CREATE, 2), id="something new"),
        pytest.param("b", [A, B], Numbering(Change.NONE, 2, "b"), id="nothing changed"),
        pytest.param("a", [A, B], Numbering(Change.RAISE, 3, "a"), id="going back"),
        pytest.param(
            "a",
            [A, A._replace(name="a2", number=2)],
            Numbering(Change.NONE, 2, "a2"),
            id="twice the same content, as a race of others left it",
        ),
        pytest.param(
            "a",
            [A, B._replace(number=1)],
            Numbering(Change.RAISE, 2, "a"),
            id="two revisions of one number",
        ),
        pytest.param(
            "c",
            [A._replace(is_orphaned=True), B._replace(is_orphaned=True), C],
            Numbering(Change.NONE, 3, "c", ("a", "b")),
            id="restored without their owner",
        ),
    ],
)
def test_the_revision_in_force_has_the_highest_number(
    identity: str, existing: list[Numbered], want: Numbering
) -> None:
    assert number_revision(identity, existing) == want


@given(st.lists(st.sampled_from("abcd"), max_size=30))
def test_however_often_people_go_back_and_forth_each_content_has_one_revision(
    said: list[str],
) -> None:
    revisions: dict[str, Numbered] = {}
    highest = 0
    for content in said:
        plan = number_revision(content, list(revisions.values()))
        assert plan.number >= highest
        highest = plan.number
        revisions[content] = Numbered(content, plan.number, content)
        again = number_revision(content, list(revisions.values()))
        assert again.change is Change.NONE
    assert len(revisions) == len(set(said))
