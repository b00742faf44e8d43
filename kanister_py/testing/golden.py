"""Golden files: recorded results with which later ones are compared."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kanister_py.core.yaml.documents import dump_yaml

VARIABLE: Final = "KANISTER_PY_GOLDEN"


def check_golden(result: Mapping[str, Any], file: str | Path) -> None:
    """Compare a result with a golden file. Raises AssertionError with the difference.

    With `KANISTER_PY_GOLDEN=write` in the environment, the file is written instead. Review the
    changes like code.
    """
    __tracebackhide__ = True
    path = Path(file)
    text = dump_yaml(dict(result))
    if os.environ.get(VARIABLE) == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.is_file():
        raise AssertionError(f"{path} does not exist: write it with {VARIABLE}=write pytest")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        difference = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), str(path), "found", lineterm=""
        )
        raise AssertionError("\n".join(["The result differs from the golden file:", *difference]))
