"""Retries carried out: a call that is made again for as long as its rule allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.retries import RetryRule

T = TypeVar("T")


def insist(
    act: Callable[[], T], rule: RetryRule, rest: Callable[[KanisterError, float], bool]
) -> T:
    """Call until it goes well, and raise the last error if it does not.

    `rest` lets the seconds after a failure pass, and says whether the call is still wanted.
    """
    attempt = 1
    while True:
        try:
            return act()
        except KanisterError as error:
            is_transient = isinstance(error, TransientError)
            if not rule.allows(attempt, error.reason, is_transient=is_transient):
                raise
            least = error.delay_seconds if isinstance(error, TransientError) else 0.0
            if not rest(error, rule.delay_after(attempt, least)):
                raise
        attempt += 1
