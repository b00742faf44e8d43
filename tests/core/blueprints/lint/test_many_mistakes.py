"""A file with very many mistakes is looked through in time that grows with its size."""

from __future__ import annotations

import time

import pytest

from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.reading import Source

HEAD = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: b}
actions:
  a:
    phases:
"""


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("{}", id="empty"),
        pytest.param("x", id="a text"),
        pytest.param("{func: Greet%d}", id="a function that nobody brings"),
        pytest.param("{func: Greet, nam%d: x}", id="a key that nothing reads"),
        pytest.param("{func: Greet, args: 5}", id="args that are none"),
        pytest.param(
            "{name: n%d, func: Greet, if: '{{ .Phases.m%d.Output.x }}'}", id="a phase unheard of"
        ),
    ],
)
def test_four_times_the_mistakes_take_about_four_times_as_long(
    context: Context, phase: str
) -> None:
    def seconds_for(count: int) -> float:
        lines = (f"    - {phase.replace('%d', str(index))}\n" for index in range(count))
        source = Source("many.yaml", HEAD + "".join(lines))
        began = time.process_time()
        assert len(lint_sources([source], context).findings) >= count
        return time.process_time() - began

    # What does not grow with the file, such as looking for names that are near, is spent.
    few, many = (min(seconds_for(count) for _ in range(3)) for count in (1_000, 4_000))
    assert many < 10 * few
