"""Mutated input is accepted or rejected with an expected error, within limited time and memory.

The cases are the same in every run. KANISTER_PY_FUZZ=20 runs twenty times as many with a seed of
the day; a failure prints the seed to repeat it.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.fuzz.cel import cel
from tests.fuzz.documents import yaml_documents
from tests.fuzz.http_paths import http_path
from tests.fuzz.packages import oci_layer, oci_package
from tests.fuzz.templates import go_template, jinja_template
from tests.fuzz.wire import wire

TIMES = int(os.environ.get("KANISTER_PY_FUZZ") or 1)
SEED = os.environ.get("KANISTER_PY_FUZZ_SEED") or (
    "2026-11-19" if TIMES == 1 else str(random.randrange(1 << 32))
)
MOST_SECONDS = 5.0
MOST_BYTES = 512 << 20


class Target(NamedTuple):
    """Function under test, number of mutations, and the minimum share that must be accepted."""

    run: Callable[[random.Random], bool]
    cases: int
    least: float = 0.02


TARGETS = (
    Target(go_template, 3_000),
    Target(jinja_template, 1_500),
    Target(yaml_documents, 3_000),
    Target(wire, 5_000),
    Target(cel, 3_000),
    Target(oci_layer, 1_500),
    Target(oci_package, 1_000),
    Target(http_path, 1_000, least=0.01),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.run.__name__)
def test_mutated_input_is_accepted_or_rejected_with_an_expected_error(target: Target) -> None:
    accepted = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = target.cases * TIMES
    for number in range(count):
        choose = random.Random(f"{SEED} {target.run.__name__} {number}")
        began = time.process_time()
        try:
            accepted += target.run(choose)
            assert time.process_time() - began < MOST_SECONDS
        except BaseException as error:
            error.add_note(f"Case {number} of KANISTER_PY_FUZZ_SEED={SEED!r}")
            raise
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_BYTES
    # Enough mutations must be accepted; otherwise only the first check would be tested.
    assert accepted > count * target.least
