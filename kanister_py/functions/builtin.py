"""Where is the code of each function that comes with kanister_py? `module:Class`, loaded lazily."""

from __future__ import annotations

from collections.abc import Mapping

BUILTIN_FUNCTIONS: Mapping[str, Mapping[str, str]] = {}
