"""Timing functions and result tables of the benchmarks.

Figures are ratios to a peer in the same run where possible, so that they hold on any machine.
"""

from __future__ import annotations

import math
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_MOST = 1.1


@dataclass(frozen=True)
class Row:
    """A line of the table: a figure and its limit."""

    name: str
    figure: str
    limit: str
    holds: bool | None = None
    """Whether the figure is within its limit; None without a limit."""


def median_seconds(call: Callable[[], object], times: int) -> float:
    return statistics.median(_seconds(call) for _ in range(times))


def best_seconds(call: Callable[[], object], rounds: int = 7, calls: int = 1000) -> float:
    """Return the time of one call in the best of several rounds."""

    def round_() -> None:
        for _ in range(calls):
            call()

    return min(_seconds(round_) for _ in range(rounds)) / calls


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Fit `b` of `time = a * work ** b` to points of work and time."""
    logs = [(math.log(work), math.log(seconds)) for work, seconds in points]
    middle_x = sum(x for x, _ in logs) / len(logs)
    middle_y = sum(y for _, y in logs) / len(logs)
    over = sum((x - middle_x) * (y - middle_y) for x, y in logs)
    return over / sum((x - middle_x) ** 2 for x, _ in logs)


def growth_row(name: str, points: Sequence[tuple[float, float]], unit: str) -> Row:
    """Return a row with the exponent of growth; a unit that ends in `each` is per unit of work."""
    grows = exponent(points)
    first, last = points[0], points[-1]
    is_per_unit = unit.endswith("each")
    costs = [seconds * 1000 / (work if is_per_unit else 1) for work, seconds in (first, last)]
    description = (
        f"{name}, {first[0]:,.0f} to {last[0]:,.0f}: {costs[0]:.2f} to {costs[1]:.2f} {unit}"
    )
    return Row(description, f"exponent {grows:.2f}", f"<= {_MOST}", grows <= _MOST)


def rows_of(measures: Mapping[str, Callable[[], Iterable[Row]]]) -> list[Row]:
    """Run all measures; a failed one becomes a row with the error, and the others continue."""
    rows: list[Row] = []
    for name, measure in measures.items():
        try:
            # One by one, to keep the rows before a failure.
            for row in measure():
                rows.append(row)  # noqa: PERF402 # extending would lose it
        except Exception as error:  # noqa: BLE001 # a failure must not stop the other measures
            traceback.print_exc()
            rows.append(Row(name.strip("_").replace("_", " "), f"{error}", "no error", holds=False))
    return rows


def print_table(title: str, rows: list[Row]) -> bool:
    """Print rows as a table; return whether all figures are within their limits."""
    print(f"\n{title}")
    width = max((len(row.name) for row in rows), default=0)
    figure_width = max((len(row.figure) for row in rows), default=0)
    for row in rows:
        mark = {True: "ok  ", False: "MISS", None: "    "}[row.holds]
        print(f"  {mark} {row.name:{width}}  {row.figure:>{figure_width}}  {row.limit}")
    return all(row.holds is not False for row in rows)
