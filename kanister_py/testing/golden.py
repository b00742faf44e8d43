"""Golden files: what was looked at closely once, and is compared from then on."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kanister_py.core.yaml.documents import dump_yaml

VARIABLE: Final = "KANISTER_PY_GOLDEN"


def check_golden(found: Mapping[str, Any], file: str | Path) -> None:
    """Compare what was found with a file, and fail with the difference.

    `KANISTER_PY_GOLDEN=write` in the environment writes the file instead: then look at
    the difference as at any change of code.
    """
    __tracebackhide__ = True
    path = Path(file)
    text = dump_yaml(dict(found))
    if os.environ.get(VARIABLE) == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.is_file():
        raise AssertionError(f"{path} is not there yet: write it with {VARIABLE}=write pytest")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        difference = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), str(path), "found", lineterm=""
        )
        raise AssertionError("\n".join(["It is not as recorded:", *difference]))
