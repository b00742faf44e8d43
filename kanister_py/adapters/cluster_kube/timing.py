"""How long is waited for an API server, and what for?"""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """Every patience of the adapter, in seconds."""

    connect: float = 10.0
    answer: float = 30.0
    """Silence in an answer, after which it is asked again where that is safe."""
    only_answer: float = 70.0
    """The same where it is not: longer than an API server takes to give up by itself."""
    patience: float = 30.0
    """How long in all a request is repeated before its failure is told."""
    first_patience: float = 2.0
    """The same while no request has ever been answered: it may well be the wrong address."""
    first_pause: float = 0.1
    longest_pause: float = 5.0
    watch: float = 60.0
    """When the cluster ends a watch, which then goes on where it was."""
    silence: float = 15.0
    """How much longer than that a watch may stay without a word."""
    log_silence: float = 60.0
    """How long a followed log may be silent before it is asked for again, where it was."""
    ping: float = 10.0
    """Silence of a command's stream after which is asked whether anybody is there."""
    unanswered_pings: int = 3
