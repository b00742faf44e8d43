"""A file with very many mistakes is looked through in work that grows with its size."""

from __future__ import annotations

from cProfile import Profile

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
def test_four_times_the_mistakes_take_about_four_times_the_calls(
    context: Context, phase: str
) -> None:
    def calls_for(count: int) -> int:
        lines = (f"    - {phase.replace('%d', str(index))}\n" for index in range(count))
        source = Source("many.yaml", HEAD + "".join(lines))
        with Profile() as profile:
            found = lint_sources([source], context).findings
        assert len(found) >= count
        return sum(each.callcount for each in profile.getstats())

    # What does not grow with the file, such as looking for names that are near, is spent.
    assert calls_for(2_000) < 5 * calls_for(500)
