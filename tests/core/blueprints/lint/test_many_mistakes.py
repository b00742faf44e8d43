"""The time for a file with very many mistakes is proportional to its size."""

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
        pytest.param("{func: Greet%d}", id="an unknown function"),
        pytest.param("{func: Greet, nam%d: x}", id="an unknown key"),
        pytest.param("{func: Greet, args: 5}", id="args of a wrong type"),
        pytest.param(
            "{name: n%d, func: Greet, if: '{{ .Phases.m%d.Output.x }}'}", id="an unknown phase"
        ),
    ],
)
def test_number_of_calls_is_proportional_to_the_number_of_mistakes(
    context: Context, phase: str
) -> None:
    def calls_for(count: int) -> int:
        lines = (f"    - {phase.replace('%d', str(index))}\n" for index in range(count))
        source = Source("many.yaml", HEAD + "".join(lines))
        with Profile() as profile:
            findings = lint_sources([source], context).findings
        assert len(findings) >= count
        return sum(stat.callcount for stat in profile.getstats())

    # The constant part, such as the search for similar names, is the same for both.
    assert calls_for(2_000) < 5 * calls_for(500)
