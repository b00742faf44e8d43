"""Lives through nights and writes down what they took: `python -m tests.simulation`."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path

from tests.simulation.night import Night, Plan, simulate
from tests.simulation.page import write_page

_REPLICAS = (1, 3, 10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=8.17, help="how long the night is")
    parser.add_argument("--namespaces", type=int, default=1000)
    parser.add_argument("--composites", type=int, default=10_000)
    parser.add_argument("--replicas", type=int, default=0, help="one night alone, told as JSON")
    parser.add_argument("--page", type=Path, help="where the page and its plot are written")
    parser.add_argument(
        "--keep", type=Path, help="a folder for nights that are over: one that is there is not run"
    )
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if asked.replicas:
        plan = Plan(asked.replicas, asked.namespaces, asked.hours, composites=asked.composites)
        print(json.dumps(simulate(plan).as_dict()))
        return 0
    nights = [_night(asked, count) for count in _REPLICAS]
    if asked.page is not None:
        write_page(nights, asked.page)
    return 0


def _night(asked: argparse.Namespace, replicas: int) -> Night:
    """Give a night that is kept, or live through it, and keep it."""
    if asked.keep is None:
        return _in_a_process_of_its_own(asked, replicas)
    plan = Plan(replicas, asked.namespaces, asked.hours, composites=asked.composites)
    kept = asked.keep / f"{replicas}-{plan.namespaces}-{plan.hours:g}-{plan.composites}.json"
    if kept.exists():
        return Night.of(json.loads(kept.read_text("utf-8")))
    night = _in_a_process_of_its_own(asked, replicas)
    asked.keep.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(night.as_dict()), encoding="utf-8")
    return night


def _in_a_process_of_its_own(asked: argparse.Namespace, replicas: int) -> Night:
    """Live through a night where no other has left its memory behind."""
    words = [
        *(sys.executable, "-m", "tests.simulation", "--replicas", str(replicas)),
        *("--hours", str(asked.hours), "--namespaces", str(asked.namespaces)),
        *("--composites", str(asked.composites)),
    ]
    process = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    return Night.of(json.loads(process.stdout))


if __name__ == "__main__":
    sys.exit(main())
