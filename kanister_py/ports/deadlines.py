"""Deadline of the current call of a composition function that runs in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final

_DEADLINE: Final[ContextVar[float]] = ContextVar("deadline", default=inf)


@contextmanager
def call_deadline(seconds: float) -> Iterator[None]:
    """Set the deadline of the calls in the block; zero seconds set none."""
    token = _DEADLINE.set(time.monotonic() + seconds if seconds else inf)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> bool:
    """Raise TimeoutError after the deadline of the current call; otherwise return False.

    It fits hooks that ask whether work should stop, such as those of templates.
    """
    if time.monotonic() >= _DEADLINE.get():
        raise TimeoutError
    return False
