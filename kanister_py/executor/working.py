"""How many phases work at once, whoever started them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread, local
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]


@dataclass(slots=True, eq=False, repr=False)
class Share:
    """How many slots one part of the jobs may hold at once, and how many it holds."""

    limit: int
    held: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Ticket:
    """One job's claim to a slot; empty-handed while it idles, and for ever once given up."""

    job: Job
    has_slot: bool = False
    is_given_up: bool = False
    share: Share | None = None

    @property
    def has_room(self) -> bool:
        return self.share is None or self.share.held < self.share.limit

    def take(self) -> None:
        self.has_slot = True
        if self.share is not None:
            self.share.held += 1

    def let_go(self) -> None:
        self.has_slot = False
        if self.share is not None:
            self.share.held -= 1


class Workers:
    """Threads for jobs, and a bound on those at work. One that only waits does not count.

    Shared between runs. Whoever woke up goes before whoever has not begun: what
    was started is to be finished. A job must not raise.
    """

    def __init__(self, limit: int = 32) -> None:
        self._lock = Lock()
        self._free = limit
        self._waking: deque[tuple[Ticket, Lock]] = deque()
        self._new: deque[Ticket] = deque()
        self._local = local()

    def submit(self, job: Job) -> Ticket:
        """Carry out a job in a thread of its own, as soon as there is room."""
        return self.submit_within(None, job)

    def submit_within(self, share: Share | None, job: Job) -> Ticket:
        """Carry out a job likewise, but only when its share has room too."""
        ticket = Ticket(job, share=share)
        with self._lock:
            if self._free <= 0 or not ticket.has_room:
                self._new.append(ticket)
                return ticket
            self._free -= 1
            ticket.take()
        self._start(ticket)
        return ticket

    def part(self, limit: int) -> WorkersPart:
        """Give the same threads to somebody who may keep no more than `limit` of them at work."""
        return WorkersPart(self, Share(limit))

    @property
    def queued(self) -> int:
        """Say how many jobs have not begun yet."""
        with self._lock:
            return len(self._new)

    @property
    def current(self) -> Ticket | None:
        """The ticket of the job that the calling thread carries out."""
        return getattr(self._local, "ticket", None)

    @property
    def waking(self) -> int:
        """Say how many have woken up and stand in line for a slot."""
        with self._lock:
            return len(self._waking)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Let somebody else work for as long as the block lasts."""
        ticket = self.current
        if ticket is None or not ticket.has_slot:
            yield
            return
        self._start_next(ticket)
        try:
            yield
        finally:
            self._take_slot(ticket)

    def give_up(self, ticket: Ticket) -> None:
        """Pass on the slot of a job that may never end."""
        with self._lock:
            ticket.is_given_up = True
            for at, (woken, turn) in enumerate(self._waking):
                if woken is ticket:
                    # Nobody would ever call it up: it goes on without a slot, to its end.
                    del self._waking[at]
                    turn.release()
                    break
        self._start_next(ticket)

    def _start(self, ticket: Ticket) -> None:
        # A daemon, so that a function that listens to nobody cannot keep the process alive.
        Thread(target=self._work, args=(ticket,), name="phase", daemon=True).start()

    def _work(self, first: Ticket) -> None:
        ticket: Ticket | None = first
        while ticket is not None:
            self._local.ticket = ticket
            ticket.job()
            ticket = self._pass_on(ticket)

    def _start_next(self, ticket: Ticket) -> None:
        following = self._pass_on(ticket)
        if following is not None:
            self._start(following)

    def _pass_on(self, ticket: Ticket) -> Ticket | None:
        """Hand the slot on: to a job that woke up, else to a new one, which the caller starts."""
        with self._lock:
            if not ticket.has_slot:
                return None
            ticket.let_go()
            self._free += 1
            return self._seat_next()

    def _seat_next(self) -> Ticket | None:
        """Give a free slot to whoever is next in line and has room; a new job is to be started."""
        for at, (woken, turn) in enumerate(self._waking):
            if not woken.is_given_up and woken.has_room:
                del self._waking[at]
                self._free -= 1
                woken.take()
                turn.release()
                return None
        for at, following in enumerate(self._new):
            if following.has_room:
                del self._new[at]
                self._free -= 1
                following.take()
                return following
        return None

    def _take_slot(self, ticket: Ticket) -> None:
        with self._lock:
            if ticket.is_given_up:
                return
            if self._free > 0 and ticket.has_room:
                self._free -= 1
                ticket.take()
                return
            turn = Lock()
            turn.acquire()
            self._waking.append((ticket, turn))
        turn.acquire()


class WorkersPart(Workers):
    """A share of somebody else's workers: their threads and their slots, under a bound of its own.

    It keeps nothing itself but the bound.
    """

    def __init__(self, whole: Workers, share: Share) -> None:  # no state of a whole is wanted
        self._whole = whole
        self._share = share

    def submit(self, job: Job) -> Ticket:
        return self._whole.submit_within(self._share, job)

    @property
    def at_work(self) -> int:
        """Say how many of its jobs hold a slot."""
        return self._share.held

    @property
    def current(self) -> Ticket | None:
        return self._whole.current

    @property
    def waking(self) -> int:
        return self._whole.waking

    @property
    def queued(self) -> int:
        return self._whole.queued

    @contextmanager
    def idle(self) -> Iterator[None]:
        with self._whole.idle():
            yield

    def give_up(self, ticket: Ticket) -> None:
        self._whole.give_up(ticket)
