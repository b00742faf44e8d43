"""Worker threads: a bound on the phases that work at once, shared between runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from threading import local as Local  # noqa: N812 # it is a class
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]


class Share:
    """Share of the slots: the most that one part of the jobs may hold at once, and those held."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0


class Ticket:
    """One job's claim to a slot; empty-handed while it idles, and for ever once given up."""

    __slots__ = ("has_slot", "is_given_up", "job", "share")

    def __init__(self, job: Job, share: Share | None) -> None:
        self.job = job
        self.has_slot = False
        self.is_given_up = False
        self.share = share

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


class _Slots:
    """Free slots, and the lines for them: of jobs that woke up, and of new ones."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.lock = Lock()
        self.waking: deque[tuple[Ticket, Lock]] = deque()
        self.new: deque[Ticket] = deque()
        self.local = Local()


class Workers:
    """Threads for jobs, and a bound on those at work. One that only waits does not count.

    Shared between runs. A job that woke up goes before one that has not begun: what
    was started is to be finished. A job must not raise. Workers that are a part of
    others have their slots, under a bound of their own.
    """

    def __init__(self, limit: int = 32, *, of: _Slots | None = None) -> None:
        self._slots: _Slots = of or _Slots(limit)
        self._share = None if of is None else Share(limit)

    def part(self, limit: int) -> Workers:
        """Give a part of the same threads, of which no more than `limit` are at work."""
        return Workers(limit, of=self._slots)

    def submit(self, job: Job) -> Ticket:
        """Carry out a job in a thread of its own, as soon as there is room."""
        ticket = Ticket(job, self._share)
        with self._slots.lock:
            if self._slots.free <= 0 or not ticket.has_room:
                self._slots.new.append(ticket)
                return ticket
            self._slots.free -= 1
            ticket.take()
        self._start(ticket)
        return ticket

    @property
    def queued(self) -> int:
        """How many jobs have not begun yet, of all that share the slots."""
        with self._slots.lock:
            return len(self._slots.new)

    @property
    def waking(self) -> int:
        """How many jobs have woken up and stand in line for a slot."""
        with self._slots.lock:
            return len(self._slots.waking)

    @property
    def current(self) -> Ticket | None:
        """The ticket of the job that the calling thread carries out."""
        ticket: Ticket | None = getattr(self._slots.local, "ticket", None)
        return ticket

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Give the slot to another job for as long as the block lasts."""
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
        with self._slots.lock:
            ticket.is_given_up = True
            for at, (woken, turn) in enumerate(self._slots.waking):
                if woken is ticket:
                    # It would never be called up: it goes on without a slot, to its end.
                    del self._slots.waking[at]
                    turn.release()
                    break
        self._start_next(ticket)

    def _start(self, ticket: Ticket) -> None:
        # A daemon, so that a function that does not stop cannot keep the process alive.
        Thread(target=self._work, args=(ticket,), name="phase", daemon=True).start()

    def _work(self, first: Ticket) -> None:
        ticket: Ticket | None = first
        while ticket is not None:
            self._slots.local.ticket = ticket
            ticket.job()
            ticket = self._pass_on(ticket)

    def _start_next(self, ticket: Ticket) -> None:
        following = self._pass_on(ticket)
        if following is not None:
            self._start(following)

    def _pass_on(self, ticket: Ticket) -> Ticket | None:
        """Hand the slot on: to a job that woke up, else to a new one, which the caller starts."""
        with self._slots.lock:
            if not ticket.has_slot:
                return None
            ticket.let_go()
            self._slots.free += 1
            return self._seat_next()

    def _seat_next(self) -> Ticket | None:
        """Give a free slot to the next in line that has room; a new job is to be started."""
        for at, (woken, turn) in enumerate(self._slots.waking):
            if not woken.is_given_up and woken.has_room:
                del self._slots.waking[at]
                self._slots.free -= 1
                woken.take()
                turn.release()
                return None
        for at, following in enumerate(self._slots.new):
            if following.has_room:
                del self._slots.new[at]
                self._slots.free -= 1
                following.take()
                return following
        return None

    def _take_slot(self, ticket: Ticket) -> None:
        with self._slots.lock:
            if ticket.is_given_up:
                return
            if self._slots.free > 0 and ticket.has_room:
                self._slots.free -= 1
                ticket.take()
                return
            turn = Lock()
            turn.acquire()
            self._slots.waking.append((ticket, turn))
        turn.acquire()
