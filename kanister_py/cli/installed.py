"""Installed functions, with a warning for each plugin that cannot be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanister_py.cli.output import say_warning
from kanister_py.wiring import check_everything, read_functions

if TYPE_CHECKING:
    from kanister_py.http_api.discovery import Publication
    from kanister_py.wiring import Functions


def installed_functions(*, is_checked: bool = False) -> Functions:
    """Read the functions, and load the code of plugins.

    With `is_checked`, load the built-in functions, too, and fail if they do not match their record.
    """
    functions = check_everything(read_functions(), plugins_only=not is_checked)
    for broken in functions.broken:
        say_warning(broken.message)
    return functions


def publication_of(functions: Functions) -> Publication:
    """Return the data that an HTTP endpoint publishes about functions."""
    # Slow to import, and only commands that serve HTTP need it.
    from importlib.resources import files

    from kanister_py.functions.builtin import read_versions_file
    from kanister_py.http_api.discovery import Publication

    return Publication(
        functions.registry,
        functions.release,
        read_versions_file(),
        files("kanister_py").joinpath("versions.schema.json").read_text(encoding="utf-8"),
        tuple(broken.plugin for broken in functions.broken),
    )
