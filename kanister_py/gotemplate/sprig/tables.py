"""Which functions does a template find under which name?"""

from __future__ import annotations

from kanister_py.gotemplate.functions import Function, FunctionTable
from kanister_py.gotemplate.sprig import (
    certificates,
    chance,
    ciphers,
    dates,
    defaults,
    dicts,
    encoding,
    jsons,
    lists,
    numbers,
    paths,
    regex,
    semvers,
    strings,
    surroundings,
    urls,
)

_THEMES = (
    certificates,
    chance,
    ciphers,
    dates,
    defaults,
    dicts,
    encoding,
    jsons,
    lists,
    numbers,
    paths,
    regex,
    semvers,
    strings,
    surroundings,
    urls,
)
_NEWER: dict[str, Function] = {
    name: each for theme in _THEMES for name, each in getattr(theme, "NEWER", {}).items()
}


def _table(functions: dict[str, Function]) -> FunctionTable:
    """The functions, and those that are known by a second name."""
    named = {**_NEWER, **functions}
    for second, first in lists.MUST_NAMES.items():
        named[second] = named[first]
    return FunctionTable(named)


BLUEPRINT_FUNCTIONS = _table(
    {name: each for theme in _THEMES for name, each in theme.OF_BLUEPRINTS.items()}
)
GO_TEMPLATING_FUNCTIONS = _table(
    {name: each for theme in _THEMES for name, each in theme.OF_COMPOSITIONS.items()}
)
