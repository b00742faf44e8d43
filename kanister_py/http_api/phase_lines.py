"""Log lines of an ActionSet over HTTP: the route that a controller adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from kanister_py.http_api.answers import Answer, json_answer
from kanister_py.http_api.negotiation import Wishes

if TYPE_CHECKING:
    from kanister_py.http_api.app import Ask

PATH: Final = "/v1/namespaces/{namespace}/actionsets/{name}/lines"
_MOST_DIGITS: Final = 11

LinesOf = Callable[[str, str, int], Sequence[Mapping[str, Any]]]
"""Gives the lines of the ActionSet of a namespace and name, from behind a number on."""


def number_in(text: str) -> int:
    """Give the number of a line that a client has; what is none asks for all."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else 0


def lines_route(lines: LinesOf) -> Ask:
    """Answer with the lines that are still kept, from behind `after` on.

    No lines are no error: whether there is such an ActionSet, the cluster says.
    """

    def give(parts: Mapping[str, str], wishes: Wishes) -> Answer:
        wanted = parse_qs(wishes.query.decode("latin-1")).get("after", ["0"])[-1]
        found = lines(parts["namespace"], parts["name"], number_in(wanted))
        return json_answer(200, {"lines": list(found)}, {"cache-control": "no-store"})

    return give
