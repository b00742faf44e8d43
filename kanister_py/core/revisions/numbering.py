"""Which number does a revision get? The one in force has the highest, also after going back."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Numbered(NamedTuple):
    """A revision that exists. One that was `orphaned` by a restore has lost its owner."""

    name: str
    number: int
    identity: str
    is_orphaned: bool = False


class Change(StrEnum):
    """What must be written so that the wanted revision is in force."""

    NONE = "none"
    RAISE = "raise"
    CREATE = "create"


class Numbering(NamedTuple):
    """The revision in force, its number, and what is to be written for that.

    `adopted` are those whose owner must be written on them again.
    """

    change: Change
    number: int
    name: str = ""
    adopted: tuple[str, ...] = ()


def number_revision(identity: str, existing: Sequence[Numbered]) -> Numbering:
    """Find or number the revision of what the owner says now.

    Numbers only rise. Content that was there before keeps its revision, which gets the
    next number. Of two with one content the higher one counts, so that nothing is
    written again and again.
    """
    adopted = tuple(sorted(each.name for each in existing if each.is_orphaned))
    latest = max((each.number for each in existing), default=0)
    same = [each for each in existing if each.identity == identity]
    if not same:
        return Numbering(Change.CREATE, latest + 1, "", adopted)
    found = max(same, key=lambda each: (each.number, each.name))
    rivals = [each for each in existing if each.number >= found.number and each is not found]
    if rivals:
        return Numbering(Change.RAISE, latest + 1, found.name, adopted)
    return Numbering(Change.NONE, found.number, found.name, adopted)
