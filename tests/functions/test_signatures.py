from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import kanister_py
from kanister_py.core.blueprints.lint.signatures import Signature
from kanister_py.core.registry.entries import FunctionKind
from kanister_py.executor.loading import load_function
from kanister_py.functions.builtin import read_signatures
from kanister_py.wiring import read_functions
from tests.signatures import record_of, signature_of

RECORD = Path(kanister_py.__file__).parent / "functions" / "signatures.json"


def signatures_of_the_code() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for family in read_functions().registry:
        for entry in reversed(family.candidates):
            is_ours = entry.source.name == "kanister-py" and entry.kind is FunctionKind.BLUEPRINT
            if is_ours and entry.target is not None:
                signature = signature_of(load_function(entry))
                found.setdefault(entry.function, {})[str(entry.version)] = record_of(signature)
    return found


def test_the_recorded_signatures_are_those_of_the_code() -> None:
    want = signatures_of_the_code()
    if os.environ.get("KANISTER_PY_GOLDEN") == "write":
        RECORD.write_text(json.dumps(want, indent=1) + "\n", encoding="utf-8")
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    assert found == want, "run KANISTER_PY_GOLDEN=write pytest tests/functions/test_signatures.py"


def test_a_signature_comes_back_as_it_was_recorded() -> None:
    for each in read_signatures().values():
        assert Signature.of(record_of(each)) == each
