"""Garbage collection of revisions: those that may go, and why the others stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kanister_py.values import NamedTuple

_SHOWN: Final = 3


class Kept(NamedTuple):
    """A revision that stays, and every reason for it."""

    name: str
    why: tuple[str, ...]


class Collected(NamedTuple):
    """Revisions that go, the oldest first, and those that stay, the newest first."""

    removed: tuple[str, ...]
    kept: tuple[Kept, ...]


class Revision(NamedTuple):
    """A revision as far as its keeping is concerned.

    `uses` says in words what needs it: an XR that holds it, a selector that picks it,
    that it is active or serves.
    """

    name: str
    number: int
    uses: tuple[str, ...] = ()


def plan_collection(revisions: Sequence[Revision], limit: int) -> Collected:
    """Keep the newest `limit` revisions, and beyond them every one that something needs.

    The newest is never removed. A limit of 0 keeps all.
    """
    ordered = sorted(revisions, key=lambda each: (each.number, each.name), reverse=True)
    kept: list[Kept] = []
    removed: list[str] = []
    for place, revision in enumerate(ordered):
        why: list[str] = []
        if place == 0:
            why.append("is the newest")
        elif limit == 0:
            why.append("no limit is set")
        elif place < limit:
            why.append(f"is among the newest {limit}")
        why += revision.uses
        if why:
            kept.append(Kept(revision.name, tuple(why)))
        else:
            removed.append(revision.name)
    return Collected(tuple(reversed(removed)), tuple(kept))


def words_for_uses(users: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Name the users of a revision, in a line for each way of using it."""
    lines = []
    for way, names in sorted(users.items()):
        ordered = sorted(names)
        if not ordered:
            continue
        more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
        lines.append(f"{way} {', '.join(ordered[:_SHOWN])}{more}")
    return tuple(lines)
