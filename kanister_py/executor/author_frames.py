"""Places in the code of an author's function where an exception was raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_MOST_FRAMES: Final = 3
_OWN_PACKAGE: Final = __name__.partition(".")[0]


def place_of(error: BaseException, function: type) -> str:
    """Return file, line and name of the innermost frames in the author's code, innermost first.

    Empty for built-in functions, and if no frame is in the package of the function.
    """
    package = _package_of(function.__module__)
    if package == _OWN_PACKAGE:
        return ""
    places = [
        f"{_shown_path(frame.f_code.co_filename)}:{line} in {frame.f_code.co_qualname}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _package_of(str(frame.f_globals.get("__name__", ""))) == package
    ]
    return ", called from ".join(places[: -_MOST_FRAMES - 1 : -1])


def error_text(error: BaseException, function: type) -> str:
    """Return the type, the message and the place of an exception that a function raised."""
    name = type(error).__name__
    text = f"{name}: {error}" if str(error) else name
    place = place_of(error, function)
    return f"{text} (at {place})" if place else text


def _package_of(module: str) -> str:
    return module.partition(".")[0]


def _shown_path(file: str) -> str:
    """Return a path relative to the current folder if it is below it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
