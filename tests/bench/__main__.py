"""Measures everything and prints one table: `python -m tests.bench [NAME…]`."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.bench.measure import print_table, rows_of


def main(names: list[str]) -> int:
    here = Path(__file__).parent
    known = sorted(each.stem.removeprefix("bench_") for each in here.glob("bench_*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 64
    if len(names) != 1:
        # Each in a process of its own: the memory of one is not counted for the next.
        alone = [sys.executable, "-m", "tests.bench"]
        codes = [subprocess.call([*alone, name]) for name in names or known]
        return 1 if any(codes) else 0
    module = import_module(f"tests.bench.bench_{names[0]}")
    return 0 if print_table(module.TITLE, rows_of({names[0]: module.rows})) else 1


sys.exit(main(sys.argv[1:]))
