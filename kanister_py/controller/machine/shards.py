"""Shards: the share of the work that is this replica's, for as long as its Leases say so.

With one shard there is one Lease: its holder does everything, and others stand by.
With several, each shard has its Lease, and each replica one more, by which the others know
that it is there. The Lease of shard 0 is the one that there has always been. It says how
many shards there are: a replica that was started with another number stands by until those
of the former number are gone, and so does one that knows of no shards.

Who holds a shard too many puts down what belongs to it before it lets the Lease go. Who
could not renew one has stopped, and ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from typing import Final, NamedTuple

from kanister_py.controller.machine.held_shards import HeldShards
from kanister_py.controller.machine.lease import Candidate, Division, Leadership
from kanister_py.controller.machine.shard_leases import ShardLeases, View
from kanister_py.core.errors import KanisterError, LeadershipLost
from kanister_py.core.shards import spread
from kanister_py.ports.clock import pause

_LOG: Final = logging.getLogger(__name__)

LEASE_NAME: Final = "kanister-py-controller"
COMPOSING_LEASE_NAME: Final = "kanister-py-compositions"
_STAYS_SECONDS: Final = 60.0
"""For how long a shard is kept whose work could not be put down, before that is tried again."""


class Hooks(NamedTuple):
    """What a replica does when its share changes.

    `take_up` looks at all that it owns; `put_down` leaves what it does not own any more, and
    says whether no thread works on any of that now; `forget` follows once it is not held.
    """

    take_up: Callable[[], None]
    put_down: Callable[[], bool]
    forget: Callable[[], None]


class ShardTerms(NamedTuple):
    """Into how many shards the work is divided, and under which Leases.

    `notes` are noted on each of them. A shard whose work cannot be put down within
    `patience_seconds` stays for a while.
    """

    number: int = 1
    name: str = LEASE_NAME
    notes: Mapping[str, str] = {}
    patience_seconds: float = 20.0


class Shards(HeldShards):
    """Attempts to hold a fair share of all shards."""

    def __init__(self, who: Candidate, shards: ShardTerms | None = None) -> None:
        self.count, name, self._notes, self._patience_seconds = shards or ShardTerms()
        self._who = who
        self._clock, self._identity = who.clock, who.identity
        self._changed = Condition()
        self._leases = ShardLeases(who, name)
        is_alone = self.count == 1
        own = self._leadership(
            name if is_alone else self._leases.name_of_replica(who.identity),
            self._is_free if is_alone else lambda: True,
        )
        super().__init__(self.count, own)
        self._tried: dict[int, Leadership] = {}
        self._stays: dict[int, float] = {}
        self._is_forgotten = True
        """Whether nothing of what was given away is kept any more."""
        self._on_lost: Callable[[], None] = lambda: None
        self._is_lost = False
        self._logged = ""
        self._is_closed = False

    def _leadership(self, name: str, may_begin: Callable[[], bool]) -> Leadership:
        sighting = self._leases.sighting_of(name)
        division = Division(self.count, self._notes, may_begin, sighting)
        return Leadership(self._who, name, division)

    # Coming to act

    def join(self, *, is_patient: bool) -> bool:
        """Wait until this replica may act, if only on what may yet come; False if closed."""
        if not self._own.acquire(is_patient=is_patient):
            return False
        if self.count == 1:
            return True
        self._own.keep(self._lose)
        while not self._is_closed:
            if self._look():
                return True
            self._sleep(self._who.terms.renews_every_seconds)
        return False

    def keep(self, on_lost: Callable[[], None]) -> None:
        """Renew what is held from now on, and tell when it is lost."""
        self._on_lost = on_lost
        if self.count == 1:
            self._own.keep(on_lost)
        elif self._is_lost:
            on_lost()

    def follow(self, hooks: Hooks) -> None:
        """Take and give shards from now on, as replicas come and go."""
        if self.count > 1:
            Thread(target=self._follow, args=(hooks,), name="shards", daemon=True).start()

    def _follow(self, hooks: Hooks) -> None:
        taken_up = {*self._held} - {*self._leaving}
        while not self._is_closed:
            try:
                self._look()
                self._go_on_leaving(hooks)
                owned = {*self._held} - {*self._leaving}
                if owned - taken_up:
                    hooks.take_up()
                taken_up = owned
            except Exception:  # noqa: BLE001 # no other thread takes shards, or gives them away
                _LOG.exception("A look at the shards fell over")
            self._sleep(self._who.terms.renews_every_seconds)

    def _look(self) -> bool:
        """Look at all Leases, and take what is to be ours; say whether we are of one number."""
        try:
            view = self._leases.view()
            if self._owns(0):
                self._leases.forget(view)
            return self._take_share(view)
        except LeadershipLost:
            return False
        except KanisterError as error:
            self._tell(f"Cannot see who holds which shard: {error.message}", logging.WARNING)
            return False

    def _take_share(self, view: View) -> bool:
        first = view.shards.get(0)
        others = {number for _who, number in view.shards.values()} - {self.count}
        if others and not self._held:
            there = f"{max(others)} shard{'s' if max(others) > 1 else ''}"
            who = "" if first is None else f", {first[0]} holds the first"
            self._tell(f"Stands by as {self._identity}, which is for {self.count} shards: "
                       f"others divide the work into {there}{who}")  # fmt: skip
            return False
        members = {who for who, number in view.replicas.items() if number == self.count}
        holders = {at: who for at, (who, number) in view.shards.items() if number == self.count}
        members |= {self._identity, *holders.values()}
        wanted = spread(self.count, members, holders)
        now = self._clock.monotonic()
        for shard in sorted(wanted):
            is_ours = wanted[shard] == self._identity
            if is_ours and shard in self._held:
                self._leaving.pop(shard, None)
            elif is_ours:
                self._take(shard)
            elif shard in self._held and now >= self._stays.get(shard, now):
                self._leaving.setdefault(shard, now + self._patience_seconds)
        held = ", ".join(map(str, self.held)) or "none"
        self._tell(f"Holds shards {held} of {self.count} as {self._identity}, "
                   f"one of {len(members)} replicas")  # fmt: skip
        return first is not None or 0 in self._held

    def _take(self, shard: int) -> None:
        tried = self._tried.get(shard)
        if tried is None:
            may_begin = self._is_free if shard == 0 else self._is_begun
            name = self._leases.name_of_shard(shard)
            tried = self._tried[shard] = self._leadership(name, may_begin)
        if not tried.take():
            return
        del self._tried[shard]
        with self._changed:
            if not self._is_closed:
                self._held[shard] = tried
        if shard in self._held:
            tried.keep(self._lose)
        else:
            # What is still under way here is of other shards: the end of this one is not theirs.
            tried.close()

    def _is_free(self) -> bool:
        return self._leases.is_first_free_for(self.count)

    def _is_begun(self) -> bool:
        return self._leases.is_first_held_of(self.count)

    def _go_on_leaving(self, hooks: Hooks) -> None:
        now = self._clock.monotonic()
        is_put_down = False
        try:
            is_put_down = bool(self._leaving) and hooks.put_down()
        finally:
            for shard, until in tuple(self._leaving.items()):
                if is_put_down:
                    self._is_forgotten = False
                    held = self._held.pop(shard)
                    del self._leaving[shard]
                    held.close()
                elif now >= until:
                    # What nobody could take up goes on for longer than anything new should wait.
                    del self._leaving[shard]
                    self._stays[shard] = now + _STAYS_SECONDS
        if not self._is_forgotten:
            hooks.forget()
            self._is_forgotten = True

    def _lose(self) -> None:
        self._is_lost = True
        self._on_lost()

    def _tell(self, message: str, level: int = logging.INFO) -> None:
        if message != self._logged:
            self._logged = message
            _LOG.log(level, "%s", message)

    # The end

    def withdraw(self) -> None:
        """Take and give no shard any more; what is held is kept until the end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop acting, and let others begin at once."""
        self.withdraw()
        # First the one by which others know of this replica: they would give it more.
        for each in (self._own, *tuple(self._held.values())):
            each.close()

    def abandon(self) -> None:
        """Stop acting without a word to other replicas, as a process does that is killed."""
        self.withdraw()
        for each in (self._own, *tuple(self._held.values())):
            each.abandon()

    def _sleep(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)
