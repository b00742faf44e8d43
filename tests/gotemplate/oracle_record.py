"""Recorded answers of Go, and the comparison with our engine.

The record has a line for each case: the template, its data and options, Go's answer with
sprig 2.22 (`2`), and its answer with sprig 3.3 if that differs (`3`). An answer is
`{"output"}`, `{"outputBase64"}` or `{"error"}`.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kanister_py.gotemplate.errors import GoTemplateError
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS, GO_TEMPLATING_FUNCTIONS
from kanister_py.gotemplate.template import MissingKey, compile_template
from tests.gotemplate.oracle_data import data_of, effects_at
from tests.gotemplate.oracle_table import DATA, Case, cases, newer_cases

ANSWERS = Path(__file__).with_name("oracle_answers.jsonl")
TABLES: Mapping[str, FunctionTable] = {"2": BLUEPRINT_FUNCTIONS, "3": GO_TEMPLATING_FUNCTIONS}

_SEED = 20240506
_GENERATED = 1200

# Addresses of pointers differ from run to run.
_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
# Random output, whose form is tested elsewhere in the table.
_RANDOM_OUTPUT = re.compile(
    r'\{\{ (?:(?:keys|values) \.dict|shuffle "abc"|genPrivateKey "(?:dsa|ed25519|)") \}\}'
)

Answer = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A case with Go's answers."""

    case: Case
    answers: Mapping[str, Answer]

    def answer(self, sprig: str) -> Answer | None:
        """Return Go's answer with this sprig; None if a function does not exist there."""
        return self.answers.get(sprig) or (self.answers.get("2") if sprig == "3" else None)


def ask(oracle: Path, cases: Iterable[Case]) -> list[Answer]:
    """Run cases through Go."""
    lines = []
    for position, case in enumerate(cases):
        line: dict[str, Any] = {
            "id": str(position),
            "template": case.template,
            "data": DATA[case.data],
            "missingkey": case.missing_key,
        }
        if case.now:
            line["now"] = case.now
        lines.append(json.dumps(line))
    run = subprocess.run(
        [str(oracle)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [
        {name: _ADDRESS.sub("0x", text) for name, text in answer.items() if name != "id"}
        for answer in answers
    ]


def all_cases() -> list[Case]:
    """Return the cases for both sprigs: first the hand-written ones, then the generated ones."""
    from tests.gotemplate.oracle_grammar import generated

    all_templates = [*cases(), *generated(_GENERATED, _SEED)]
    return [
        case for case in dict.fromkeys(all_templates) if not _RANDOM_OUTPUT.search(case.template)
    ]


def write(path: Path, oracles: Mapping[str, Path]) -> None:
    """Run all cases through Go and record the answers."""
    _write(path, oracles, all_cases(), list(newer_cases()))


def refresh(path: Path, oracles: Mapping[str, Path]) -> None:
    """Run all recorded cases through Go again and record the new answers."""
    recorded = list(read())
    shared = [entry.case for entry in recorded if "2" in entry.answers]
    _write(path, oracles, shared, [entry.case for entry in recorded if "2" not in entry.answers])


def _write(path: Path, oracles: Mapping[str, Path], shared: list[Case], newer: list[Case]) -> None:
    old = ask(oracles["2"], shared)
    new = ask(oracles["3"], [*shared, *newer])
    rows: list[tuple[Case, dict[str, Answer]]] = []
    for case, answer, later in zip(shared, old, new[: len(shared)], strict=True):
        rows.append((case, {"2": answer} if answer == later else {"2": answer, "3": later}))
    rows += [(case, {"3": answer}) for case, answer in zip(newer, new[len(shared) :], strict=True)]
    with path.open("w", encoding="utf-8") as file:
        for case, answers in rows:
            line: dict[str, Any] = {"template": case.template, "data": case.data}
            if case.missing_key != "error":
                line["missingkey"] = case.missing_key
            if case.now:
                line["now"] = case.now
            file.write(json.dumps({**line, **answers}, ensure_ascii=False) + "\n")


def read() -> Iterator[Recorded]:
    """Read the record."""
    # Not splitlines: a template may contain characters that count as line ends there.
    with ANSWERS.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            row = json.loads(line)
            case = Case(
                row["template"], row["data"], row.get("missingkey", "error"), row.get("now", "")
            )
            yield Recorded(case, {sprig: row[sprig] for sprig in ("2", "3") if sprig in row})


def our_answer(case: Case, functions: FunctionTable) -> Answer:
    """Return the answer of our engine in the form of the record."""
    missing_key: Any = case.missing_key
    try:
        output = render(case.template, case.data, functions, missing_key, case.now)
    except GoTemplateError as error:
        # JSON cannot contain bytes that are not UTF-8; the recorder has replaced them.
        text = re.sub("[\udc80-\udcff]", "\ufffd", error.message)
        return {"error": _ADDRESS.sub("0x", text)}
    if re.search("[\udc80-\udcff]", output):
        data = output.encode("utf-8", "surrogateescape")
        return {"outputBase64": base64.b64encode(data).decode("ascii")}
    return {"output": _ADDRESS.sub("0x", output)}


def render(
    template: str,
    data: str,
    functions: FunctionTable,
    missing_key: MissingKey = "error",
    now: str = "",
) -> str:
    """Render a template with a named data set."""
    compiled = compile_template(template, functions, missing_key=missing_key)
    return compiled.execute(data_of(data), effects_at(now))


def difference(case: Case, want: Answer, sprig: str) -> str:
    """Describe the difference between our answer and Go's; empty if there is none."""
    got = our_answer(case, TABLES[sprig])
    if got == want:
        return ""
    circumstances = f"{case.data}, missingkey={case.missing_key}, sprig {sprig}"
    return f"{case.template!r} ({circumstances})\n    Go:   {dict(want)}\n    ours: {dict(got)}"


def differences_of_new_cases(oracles: Mapping[str, Path], count: int, from_seed: int) -> list[str]:
    """Generate cases that are not recorded, and describe the differences from Go."""
    from tests.gotemplate.oracle_grammar import generated

    fresh = generated(count, from_seed)
    return [
        mismatch
        for sprig, oracle in sorted(oracles.items())
        for case, want in zip(fresh, ask(oracle, fresh), strict=True)
        if (mismatch := difference(case, want, sprig))
    ]
