"""Log lines of an ActionSet over HTTP: the route that a controller adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from kanister_py.http_api.answers import Answer, json_answer
from kanister_py.http_api.negotiation import RequestOptions

if TYPE_CHECKING:
    from kanister_py.http_api.app import Responder

PATH: Final = "/v1/namespaces/{namespace}/actionsets/{name}/lines"
_MOST_DIGITS: Final = 11

LinesOf = Callable[[str, str, int], Sequence[Mapping[str, Any]]]
"""Returns the lines of an ActionSet, by namespace, name and the number of the last known line."""


def line_number(text: str) -> int:
    """Parse the number of the last line that a client has. Invalid numbers count as 0."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else 0


def lines_route(lines: LinesOf) -> Responder:
    """Build the route that returns the stored lines after `after`.

    An unknown ActionSet has no lines; that is not an error.
    """

    def respond(parts: Mapping[str, str], options: RequestOptions) -> Answer:
        number = parse_qs(options.query.decode("latin-1")).get("after", ["0"])[-1]
        printed = lines(parts["namespace"], parts["name"], line_number(number))
        return json_answer(200, {"lines": list(printed)}, {"cache-control": "no-store"})

    return respond
