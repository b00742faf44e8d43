"""Run benchmarks and print their tables: `python -m tests.bench [NAME…]`."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.bench.measure import print_table, rows_of


def main(names: list[str]) -> int:
    here = Path(__file__).parent
    benches = sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    unknown = [name for name in names if name not in benches]
    if unknown:
        print(
            f"There is no benchmark {', '.join(unknown)}; choose from {', '.join(benches)}",
            file=sys.stderr,
        )
        return 64
    if len(names) != 1:
        # A process for each, so that the memory of one does not count for the next.
        alone = [sys.executable, "-m", "tests.bench"]
        codes = [subprocess.call([*alone, name]) for name in names or benches]
        return 1 if any(codes) else 0
    module = import_module(f"tests.bench.bench_{names[0]}")
    return 0 if print_table(module.TITLE, rows_of({names[0]: module.rows})) else 1


sys.exit(main(sys.argv[1:]))
