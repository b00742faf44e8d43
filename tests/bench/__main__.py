"""Measures everything and prints one table: `python -m tests.bench [NAME…]`."""

from __future__ import annotations

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
    results = []
    for name in names or known:
        module = import_module(f"tests.bench.bench_{name}")
        results.append(print_table(module.TITLE, rows_of({name: module.rows})))
    return 0 if all(results) else 1


sys.exit(main(sys.argv[1:]))
