"""Does a run, an ActionSet and a composite resource still walk no more calls than it may?"""

from __future__ import annotations

import pytest

from tests.bench.bench_calls import rows

pytestmark = pytest.mark.gate


def test_nothing_walks_more_calls_than_it_may() -> None:
    too_many = [f"{each.name}: {each.found}, {each.wanted}" for each in rows() if not each.holds]
    assert not too_many
