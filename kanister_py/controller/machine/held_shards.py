"""Held shards: what of all the work is this replica's at this moment."""

from __future__ import annotations

from collections.abc import Callable

from kanister_py.controller.machine.lease import Leadership
from kanister_py.core.errors import LeadershipLost
from kanister_py.core.shards import shard_of


class HeldShards:
    """Shards that are held at this moment, and whether they still are."""

    def __init__(self, count: int, own: Leadership) -> None:
        self.count = count
        self._own = own
        """What lets this process act at all: the only Lease, or the one that says it is there."""
        self._held: dict[int, Leadership] = {}
        self._leaving: dict[int, float] = {}
        """Shards that are to go to another replica, and until when that is waited for."""

    def owns(self, key: str) -> bool:
        """Say whether what has this key (a namespace, a UID) is this replica's to begin with."""
        return self.count == 1 or self._owns(shard_of(key, self.count))

    def holds(self, key: str) -> bool:
        """Say whether what has this key is this replica's, be it that it is about to go."""
        return self.count == 1 or shard_of(key, self.count) in self._held

    @property
    def foreign(self) -> Callable[[str], bool] | None:
        """What says of a key that it is another replica's, if there is more than one shard."""
        return None if self.count == 1 else lambda key: not self.holds(key)

    @property
    def owns_whole(self) -> bool:
        """Whether what only one replica may look at is this one's: it holds the first shard."""
        return self.count == 1 or self._owns(0)

    @property
    def holds_whole(self) -> bool:
        """Whether the first shard is this replica's, be it that it is about to go."""
        return self.count == 1 or 0 in self._held

    def _owns(self, shard: int) -> bool:
        return shard in self._held and shard not in self._leaving

    @property
    def held(self) -> tuple[int, ...]:
        """The shards that are held, also those that are about to go."""
        if self.count == 1:
            return (0,) if self._own.is_leader else ()
        return tuple(sorted(self._held))

    @property
    def fence(self) -> Callable[[], None]:
        """What raises unless this process may act: of one Lease, that one alone."""
        return self._own.check if self.count == 1 else self.check

    def check(self) -> None:
        """Raise unless this process may act: all that it holds must be in force."""
        if not self.is_leader:
            raise LeadershipLost

    def check_of(self, key: str) -> Callable[[], None]:
        """Give what raises once a key is not this replica's any more, from now on for ever.

        One that goes and comes back has another check: what was begun before is not to act.
        """
        if self.count == 1:
            return self._own.check
        found = self._held.get(shard_of(key, self.count))
        return found.check if found is not None else _refuse

    @property
    def is_leader(self) -> bool:
        """Whether this process may act."""
        return self._own.is_leader and self._lapsed is None

    @property
    def _lapsed(self) -> Leadership | None:
        """What is held, and not in force any more."""
        for shard, each in tuple(self._held.items()):
            # One that is given away is taken out first, and closed after that.
            if not each.is_leader and self._held.get(shard) is each:
                return each
        return None

    @property
    def seconds_left(self) -> float:
        """Say for how long this process may act should it never renew a Lease again."""
        return min(each.seconds_left for each in (self._own, *tuple(self._held.values())))

    @property
    def why_lost(self) -> str:
        return (self._lapsed or self._own).why_lost

    @property
    def why_never(self) -> str:
        return self._own.why_never

    @property
    def stands_by(self) -> bool:
        """Whether this process is there to follow another one, or those of another number."""
        return self._own.stands_by or (self.count > 1 and self._own.is_leader)


def _refuse() -> None:
    raise LeadershipLost
