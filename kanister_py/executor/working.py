"""How many phases work at once, whoever started them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread, local
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]


@dataclass(slots=True, eq=False)
class Ticket:
    """One job's claim to a slot; empty-handed while it idles, and for ever once given up."""

    job: Job
    has_slot: bool = False
    is_given_up: bool = False


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
        ticket = Ticket(job)
        with self._lock:
            if self._free <= 0:
                self._new.append(ticket)
                return ticket
            self._free -= 1
            ticket.has_slot = True
        self._start(ticket)
        return ticket

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
        ticket.is_given_up = True
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
            ticket.has_slot = False
            while self._waking:
                woken, turn = self._waking.popleft()
                if not woken.is_given_up:
                    woken.has_slot = True
                    turn.release()
                    return None
            if self._new:
                following = self._new.popleft()
                following.has_slot = True
                return following
            self._free += 1
            return None

    def _take_slot(self, ticket: Ticket) -> None:
        with self._lock:
            if ticket.is_given_up:
                return
            if self._free > 0:
                self._free -= 1
                ticket.has_slot = True
                return
            turn = Lock()
            turn.acquire()
            self._waking.append((ticket, turn))
        turn.acquire()
