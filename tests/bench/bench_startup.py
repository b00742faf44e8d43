"""Start-up time of commands, as processor time of the process and its children.

The limits are for a machine on which an empty Python process takes up to 10 ms, and are scaled
for a slower one.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from tests.bench.measure import Row

_REPOSITORY = Path(__file__).parents[2]
_HELLO = _REPOSITORY / "blueprints" / "hello" / "blueprint.yaml"
_RENDERED = _REPOSITORY / "tests" / "docs" / "files"
_TIMES = 11
_FLOOR_MILLISECONDS = 10.0

TITLE = f"Processor time of a command, median of {_TIMES}"

CEILINGS = {
    "--help": (80, ["--help"]),
    "completion": (80, ["completion", "words", "run", "--"]),
    "lint of one file": (240, ["lint", str(_HELLO)]),
    "render": (140, ["render", str(_RENDERED / "xr.yaml"), str(_RENDERED / "composition.yaml")]),
    "run of hello": (350, ["run", str(_HELLO), "hello", "--pods", "processes"]),
}
"""Commands with their limits in milliseconds."""


def rows() -> list[Row]:
    script = str(Path(sys.executable).parent / "kanister-py")
    floor = _processor_milliseconds(sys.executable, "-I", "-c", "pass")
    scale = max(1.0, floor / _FLOOR_MILLISECONDS)
    measured = [Row("python -I -c pass", f"{floor:.0f} ms", "the floor")]
    for name, (ceiling, words) in CEILINGS.items():
        spent = _processor_milliseconds(script, *words)
        most = ceiling * scale
        measured.append(Row(name, f"{spent:.0f} ms", f"<= {most:.0f} ms", spent <= most))
    return measured


def _processor_milliseconds(*command: str) -> float:
    # Modules are compiled, as after an installation.
    environment = {key: value for key, value in os.environ.items() if key != _NO_BYTECODE}

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    once()
    return statistics.median(once() for _ in range(_TIMES))


_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
