"""Leases of shards and replicas: how they are called, and who holds which at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from kanister_py.controller.machine.lease import Candidate, Sighting, shards_of
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import name_of, spec_of
from kanister_py.core.kube.resources import LEASES


class View(NamedTuple):
    """The Leases as they are, as far as they are held: by whom, and in how many shards."""

    shards: Mapping[int, tuple[str, int]]
    replicas: Mapping[str, int]
    gone: tuple[tuple[str, str], ...]
    """Leases of replicas that are gone, with their UIDs."""


class ShardLeases:
    """Leases of all replicas that share a name, of whatever number of shards."""

    def __init__(self, who: Candidate, name: str) -> None:
        self._who = who
        self._name = name
        self._sightings: dict[str, Sighting] = {}

    def name_of_shard(self, shard: int) -> str:
        return f"{self._name}-shard-{shard}" if shard else self._name

    def name_of_replica(self, identity: str) -> str:
        return f"{self._name}-replica-{sha256(identity.encode()).hexdigest()[:10]}"

    def _shard_of_name(self, name: str) -> int | None:
        number = name.removeprefix(f"{self._name}-shard-")
        if name == self._name:
            return 0
        return int(number) if number != name and number.isdigit() else None

    def sighting_of(self, name: str) -> Sighting:
        """Give what is remembered of a Lease, so that nobody begins to count anew."""
        made = Sighting(self._who.clock, self._who.terms.term_seconds)
        return self._sightings.setdefault(name, made)

    def view(self) -> View:
        """Look at all of them."""
        shards: dict[int, tuple[str, int]] = {}
        replicas: dict[str, int] = {}
        gone: list[tuple[str, str]] = []
        silent: set[tuple[str, int]] = set()
        for lease in self._who.cluster.list(LEASES, namespace=self._who.namespace):
            name = name_of(lease)
            shard = self._shard_of_name(name)
            if shard is None and not name.startswith(f"{self._name}-replica-"):
                continue
            sighting = self.sighting_of(name)
            holder, number = sighting.note(spec_of(lease)), shards_of(lease)
            if shard is None and holder:
                replicas[holder] = number
            elif shard is None:
                gone.append((name, lease["metadata"]["uid"]))
            elif holder:
                shards[shard] = (holder, number)
            elif shard < number:
                silent.add((sighting.holder, number))
        # Who has let one term pass will let the others pass in a moment.
        left = {who: number for who, number in replicas.items() if (who, number) not in silent}
        return View(shards, left, tuple(gone))

    def forget(self, view: View) -> None:
        """Delete the Leases of replicas that are gone: they would be there for ever."""
        for name, uid in view.gone:
            try:
                self._who.cluster.delete(LEASES, name, namespace=self._who.namespace, uid=uid)
            except KanisterError:
                continue
            self._sightings.pop(name, None)

    def is_first_free_for(self, count: int) -> bool:
        """Say whether nobody acts who divides the work into another number."""
        shards = self.view().shards.items()
        return all(at == 0 or number == count for at, (_who, number) in shards)

    def is_first_held_of(self, count: int) -> bool:
        """Say whether the first shard is held, of as many: then nobody divides otherwise."""
        return self.view().shards.get(0, ("", 0))[1] == count
