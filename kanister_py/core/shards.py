"""Shards: into which of them a key falls, and which replica is to hold each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b


def shard_of(key: str, count: int) -> int:
    """Say into which of `count` shards a key falls, the same in every process."""
    return _hash(key) % count


def spread(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """Say who is to hold each shard: all of them equally many, and nothing moves without need.

    What one that is gone held goes to whoever holds least, and of those to the first by
    rendezvous hashing, so that all who look see the same. One that comes is given what evens
    the numbers out.
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
