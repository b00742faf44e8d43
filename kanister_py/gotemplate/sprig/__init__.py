"""Tables of sprig's functions, one for blueprints and one for compositions.

Blueprints have the functions of sprig 2.22.0, as in Kanister, and in addition the new
functions of sprig 3.3. Compositions have the functions of sprig 3.3 without access to the
environment. Functions with the same name may differ between the two tables.
"""

from __future__ import annotations

from kanister_py.gotemplate.functions import Function, FunctionTable, GoError, go_function
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
    urls,
)


def _refused(why: str) -> Function:
    """Declare a function that always fails because it would reveal the host."""

    def refuse(_: str) -> str:
        raise GoError(why)

    return go_function("func(string) (string, error)")(refuse)


_NO_ENVIRONMENT = "templates have no access to environment variables"
_NO_HOST = {"getHostByName": _refused("templates have no access to the network")}


def _table(own: str, more: dict[str, Function]) -> FunctionTable:
    """Collect the functions of one generation; modules without any use the older generation."""
    named: dict[str, Function] = {}
    for theme in _THEMES:
        named |= getattr(theme, "NEWER", {})
    for theme in _THEMES:
        named |= getattr(theme, own, theme.OF_BLUEPRINTS)
    # These fail with the same words under both names.
    must = {f"must{name[0].upper()}{name[1:]}": named[name] for name in lists.MUST_NAMES}
    return FunctionTable(named | must | more)


BLUEPRINT_FUNCTIONS = _table(
    "OF_BLUEPRINTS",
    {**_NO_HOST, **dict.fromkeys(("env", "expandenv"), _refused(_NO_ENVIRONMENT))},
)
GO_TEMPLATING_FUNCTIONS = _table("OF_COMPOSITIONS", _NO_HOST)

__all__ = ["BLUEPRINT_FUNCTIONS", "GO_TEMPLATING_FUNCTIONS"]
