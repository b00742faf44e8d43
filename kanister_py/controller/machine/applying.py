"""Does an object already say what it shall say?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def says(live: Any, wanted: Any) -> bool:
    """Say whether everything that is wanted stands in an object, whatever else does.

    A cluster fills in defaults, so what is not wanted counts for nothing. Lists must be
    of one length: what one leaves out of a list is meant to go.
    """
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            says(live.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(says(each, value) for each, value in zip(live, wanted, strict=True))
        )
    # What is wanted empty may be left out.
    return live == wanted or (live is None and wanted in ("", False, 0))
