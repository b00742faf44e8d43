"""Named tuples that are no mere tuples."""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.core.objects.distinct import distinct


@distinct
class Launched(NamedTuple):
    action: int


@distinct
class Ended(NamedTuple):
    action: int


def test_values_equal_their_own_kind_only() -> None:
    assert Launched(1) == Launched(1)
    assert Launched(1) != Launched(2)
    other_kinds: list[object] = [Ended(1), (1,), 1]
    assert [Launched(1) == each for each in other_kinds] == [False] * 3
    assert [Launched(1) != each for each in other_kinds] == [True] * 3
    assert len({Launched(1), Ended(1)}) == 2
