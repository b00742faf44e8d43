"""Records the answers of yaml.v3 to the texts of the other reader, and to those below."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from e2e.oracles.yaml import record as manifests

FOLDER = Path(__file__).parents[3] / "tests" / "functions" / "composition" / "go_templating"
RECORD = FOLDER / "recorded_from_yaml.jsonl"

TEXTS = [
    "a: 1\t\nb: 2",
    "a: 1\n---\nb: 2",
    "<<: {a: 1}\na: 2",
    "base: &b {x: 1, y: 2}\nz:\n  <<: *b\n  x: 3",
    "!foo bar",
    "!foo 3",
    "a: !foo [1]",
    "!!set {a, b}",
    "!!omap [a: 1, b: 2]",
    "!!timestamp 2020-01-01",
    "!!timestamp x",
    "1: a\nb: c",
    "~: x",
    "1.5: y",
    "true: z",
    "2020-01-01T10:00:00Z",
    "2001-12-14t21:59:43.10-05:00",
    "2020-01-01 10:00:00",
    "12:30",
    "18446744073709551615",
    "-9223372036854775809",
    "[a, [b]]: 1",
    "a: 1\na: 2\na: 3\nb: 1\nb: 2",
    "*x",
    "&a [*a]",
    "<<: [ {a: 1}, {b: 2, a: 3} ]\nc: 3",
    "<<: 1",
    "? <<\n: {a: 1}",
    "'<<': {a: 1}",
    "- <<",
    "a: &x 1\nb: *x\n*x : 3",
    "&k a: 1\nb: *k",
    "<<: &m {1: 2}\na: b",
    "x: &x {<<: {a: 1}, b: 2}\ny: {<<: *x, a: 5}",
    "!!merge <<: {a: 1}",
    "!!binary x",
    "a: !!binary aGk=",
    "!!str 1: 2",
    "! 3",
    "! '3'",
    "1: {<<: {a: b}}",
    "{<<: {1: 2}, 3: 4}",
    "%YAML 1.2\n---\na: 1",
    "a: %b",
    "'x",
    "[",
    "k: a\u0085b",
]


def texts() -> list[str]:
    """Return all texts without duplicates."""
    return list(dict.fromkeys(TEXTS + manifests.texts()))


def ask(oracle: Path) -> str:
    """Run the oracle; its output has one answer per line."""
    questions = "".join(json.dumps({"yaml": text}) + "\n" for text in texts())
    return subprocess.run(
        [oracle], input=questions, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
