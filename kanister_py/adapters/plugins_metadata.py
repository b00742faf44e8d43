"""Which release of ours is installed, and does any package bring functions?

Answered from the names of metadata folders: the standard library's reader of
package metadata takes longer to import than most commands take to run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DISTRIBUTION = "kanister-py"
ENTRY_POINT_GROUP = "kanister_py.functions"

_OURS = "kanister_py-"


def installed_version() -> str:
    """Give the version of this package as its metadata has it."""
    for folder in _metadata_folders():
        name = os.path.basename(folder)  # noqa: PTH119 - pathlib costs start-up time here
        if name.startswith(_OURS) and name.endswith(".dist-info"):
            return name.removeprefix(_OURS).removesuffix(".dist-info")
    from importlib.metadata import version

    return version(DISTRIBUTION)


def installed_plugins() -> Sequence[EntryPoint]:
    """List the entry points of packages that bring functions."""
    if not any(_brings_functions(folder) for folder in _metadata_folders()):
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _metadata_folders() -> Iterator[str]:
    for place in sys.path:
        try:
            with os.scandir(place or ".") as found:
                folders = [each.path for each in found if each.name.endswith("-info")]
        except OSError:
            continue  # not a folder, or gone: Python's own import skips it, too
        yield from sorted(folders)


def _brings_functions(folder: str) -> bool:
    try:
        with open(f"{folder}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123 - as above
            return f"[{ENTRY_POINT_GROUP}]" in file.read()
    except (OSError, UnicodeDecodeError):
        return False
