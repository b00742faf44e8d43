"""PyYAML, without the patterns that it compiles at import.

They take as long as half of Python's start, and are asked where YAML is written: texts
are read by the library in C. Import `yaml` from here where it may be the first time.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from kanister_py.patterns import pattern_of


def _load() -> None:
    compiled = re.compile

    def compile_others(text: Any, flags: Any = 0) -> Any:
        # Other modules that compile a pattern meanwhile get it as ever.
        asking = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - of Python itself
        make = pattern_of if asking.startswith("yaml.") else compiled
        return make(text, flags)

    re.compile = compile_others  # type: ignore[assignment] # one form for its three
    try:
        import yaml  # noqa: F401 - kept by Python
    finally:
        re.compile = compiled


_load()

import yaml  # noqa: E402 - it is there now, and known to type checkers

__all__ = ["yaml"]
