"""Worker threads that runs share, with a limit on the number of jobs that work at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from threading import local as Local  # noqa: N812 # local is a class
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]


class Ticket:
    """A job and whether it has a slot. It has none while it is idle, or after it was given up.

    The lock of the slots must be held for all methods.
    """

    __slots__ = ("has_slot", "is_given_up", "job", "workers")

    def __init__(self, job: Job, workers: Workers) -> None:
        self.job = job
        self.has_slot = False
        self.is_given_up = False
        self.workers = workers

    @property
    def has_room(self) -> bool:
        return self.workers.slots.free > 0 and self.workers.held < self.workers.limit

    def take(self) -> None:
        self.has_slot = True
        self.workers.held += 1
        self.workers.slots.free -= 1

    def release(self) -> None:
        self.has_slot = False
        self.workers.held -= 1
        self.workers.slots.free += 1


class _Slots:
    """Free slots, and the queues for resumed and for new jobs."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.lock = Lock()
        self.waking: deque[tuple[Ticket, Lock]] = deque()
        self.new: deque[Ticket] = deque()
        self.local = Local()


class Workers:
    """Threads for jobs, with a limit on the jobs that work at once. Idle jobs do not count.

    Shared between runs. Jobs that end their idle time have priority over new ones, so that started
    work is finished first. A job must not raise. `part` returns workers that share these slots,
    but have a lower limit of their own.
    """

    def __init__(self, limit: int = 32, *, of: _Slots | None = None) -> None:
        self.limit = limit
        self.held = 0
        self.slots: _Slots = of or _Slots(limit)

    def part(self, limit: int) -> Workers:
        """Return a part of the same workers, with at most `limit` working jobs."""
        return Workers(limit, of=self.slots)

    def submit(self, job: Job) -> Ticket:
        """Run a job in its own thread as soon as a slot is free."""
        ticket = Ticket(job, self)
        with self.slots.lock:
            if not ticket.has_room:
                self.slots.new.append(ticket)
                return ticket
            ticket.take()
        self._start(ticket)
        return ticket

    @property
    def queued(self) -> int:
        """Number of jobs that have not started, including other parts with the same slots."""
        with self.slots.lock:
            return len(self.slots.new)

    @property
    def waking(self) -> int:
        """Number of resumed jobs that are queued for a slot."""
        with self.slots.lock:
            return len(self.slots.waking)

    @property
    def current(self) -> Ticket | None:
        """The ticket of the job that runs in the calling thread."""
        ticket: Ticket | None = getattr(self.slots.local, "ticket", None)
        return ticket

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Release the slot to other jobs during the block."""
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
        """Release the slot of a job that may never end."""
        with self.slots.lock:
            ticket.is_given_up = True
            for at, (woken, turn) in enumerate(self.slots.waking):
                if woken is ticket:
                    # Its turn would never come, so it continues without a slot.
                    del self.slots.waking[at]
                    turn.release()
                    break
        self._start_next(ticket)

    def _start(self, ticket: Ticket) -> None:
        # A daemon thread, so that a function that does not stop cannot keep the process alive.
        Thread(target=self._work, args=(ticket,), name="phase", daemon=True).start()

    def _work(self, first: Ticket) -> None:
        ticket: Ticket | None = first
        while ticket is not None:
            self.slots.local.ticket = ticket
            ticket.job()
            ticket = self._pass_on(ticket)

    def _start_next(self, ticket: Ticket) -> None:
        following = self._pass_on(ticket)
        if following is not None:
            self._start(following)

    def _pass_on(self, ticket: Ticket) -> Ticket | None:
        """Release the slot of a job, and assign it to the next job.

        A resumed job continues by itself. A new job is returned, and the caller must start it.
        """
        with self.slots.lock:
            if not ticket.has_slot:
                return None
            ticket.release()
            return self._assign_next()

    def _assign_next(self) -> Ticket | None:
        """Assign a free slot to the next job whose part has room; return it if it is a new job."""
        for at, (woken, turn) in enumerate(self.slots.waking):
            if not woken.is_given_up and woken.has_room:
                del self.slots.waking[at]
                woken.take()
                turn.release()
                return None
        for at, following in enumerate(self.slots.new):
            if following.has_room:
                del self.slots.new[at]
                following.take()
                return following
        return None

    def _take_slot(self, ticket: Ticket) -> None:
        with self.slots.lock:
            if ticket.is_given_up:
                return
            if ticket.has_room:
                ticket.take()
                return
            turn = Lock()
            turn.acquire()
            self.slots.waking.append((ticket, turn))
        turn.acquire()
