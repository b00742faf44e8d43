"""How is something measured so that the figure means the same on every machine?

Against a peer in the same run: what counts is the ratio.
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
    """One line of the table: what was measured, and against what."""

    name: str
    found: str
    wanted: str
    holds: bool | None = None
    """None where there is nothing to hold: the row is for reading."""


def median_seconds(call: Callable[[], object], times: int) -> float:
    return statistics.median(_seconds(call) for _ in range(times))


def best_seconds(call: Callable[[], object], rounds: int = 7, calls: int = 1000) -> float:
    """The time of one call in the quietest of several rounds."""

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
    """Say how time grows with work; a unit that ends in `each` is of one piece of work."""
    grows = exponent(points)
    first, last = points[0], points[-1]
    each = unit.endswith("each")
    costs = [seconds * 1000 / (work if each else 1) for work, seconds in (first, last)]
    what = f"{name}, {first[0]:,.0f} to {last[0]:,.0f}: {costs[0]:.2f} to {costs[1]:.2f} {unit}"
    return Row(what, f"exponent {grows:.2f}", f"<= {_MOST}", grows <= _MOST)


def rows_of(measures: Mapping[str, Callable[[], Iterable[Row]]]) -> list[Row]:
    """Measure each by itself: what fails is a row that says so, and the others go on."""
    found: list[Row] = []
    for name, measure in measures.items():
        try:
            # One by one: what was measured before something failed stays.
            for row in measure():
                found.append(row)  # noqa: PERF402 # extending would lose it
        except Exception as error:  # noqa: BLE001 # whatever it is, the others have a turn
            traceback.print_exc()
            found.append(Row(name.strip("_").replace("_", " "), f"{error}", "an end", holds=False))
    return found


def print_table(title: str, rows: list[Row]) -> bool:
    """Print rows as one table, and say whether all that should hold does."""
    print(f"\n{title}")
    width = max((len(row.name) for row in rows), default=0)
    found = max((len(row.found) for row in rows), default=0)
    for row in rows:
        mark = {True: "ok  ", False: "MISS", None: "    "}[row.holds]
        print(f"  {mark} {row.name:{width}}  {row.found:>{found}}  {row.wanted}")
    return all(row.holds is not False for row in rows)
