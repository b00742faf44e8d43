"""Shards: the one that a key falls into, and the replica that is to hold each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=4096)
def shard_of(key: str, count: int) -> int:
    """Say into which of `count` shards a key falls, the same in every process."""
    return _hash(key) % count


def spread(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """Assign shards to members: all hold equally many, and nothing moves without need.

    The shards of a member that is gone go to the one with the fewest, and of several to the
    first by rendezvous hashing, so that all compute the same. A new member is given what
    evens the numbers out.
    """
    if not members:
        return {}
    wanted = {at: who for at, who in holders.items() if at < count and who in members}
    held = Counter(dict.fromkeys(sorted(members), 0))
    held.update(wanted.values())
    for shard in range(count):
        if shard not in wanted:
            least = min(held.values())
            wanted[shard] = max(
                (each for each in held if held[each] == least),
                key=lambda who: _hash(f"{who}/{shard}"),
            )
            held[wanted[shard]] += 1
    while True:
        most, least_of_all = max(held, key=held.__getitem__), min(held, key=held.__getitem__)
        if held[most] - held[least_of_all] <= 1:
            return wanted
        given = max(
            (shard for shard, who in wanted.items() if who == most),
            key=lambda shard: _hash(f"{least_of_all}/{shard}"),
        )
        wanted[given] = least_of_all
        held[most] -= 1
        held[least_of_all] += 1


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
