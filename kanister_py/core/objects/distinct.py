"""Values that look alike, and yet are not the same because they are of another kind."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", bound="type[tuple[object, ...]]")


def distinct(kind: T) -> T:
    """Let the values of a named tuple equal none but their own kind's.

    Named tuples are made at import in a tenth of the time of dataclasses, but are
    tuples: without this, to launch action 1 would be to render artifacts of action 1.
    """

    def equals(self: tuple[object, ...], other: object) -> bool:
        if not isinstance(other, tuple) or type(self) is not type(other):
            return False
        return tuple.__eq__(self, other)

    def differs(self: tuple[object, ...], other: object) -> bool:
        return not equals(self, other)

    # Set afterwards, so that the hash of tuples stays: what is equal has the same one still.
    for name, method in (("__eq__", equals), ("__ne__", differs)):
        setattr(kind, name, method)
    return kind
