"""Log lines of phases, on the endpoint of a controller."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from kanister_py.cli.controller_endpoint import lines_of
from kanister_py.controller.machine.logs import LineSource, PhaseLines
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.http_api.app import build_app
from kanister_py.http_api.discovery import Publication
from kanister_py.http_api.phase_lines import PATH
from tests.fake_clock import FakeClock
from tests.http_api.asking import ask

ADDRESS = PATH.format(namespace="shop", name="backup-x7k2p")


@pytest.fixture
def app(sample_publication: Publication) -> Starlette:
    kept = PhaseLines(FakeClock())
    place = LineSource("backup", "dump", "KubeTask", "v0.0.0", 1)
    for text in ("one", "two", "three"):
        kept.write(ObjectKey("shop", "backup-x7k2p"), "uid", place, text)
    return build_app(sample_publication, lines=lines_of(kept))


def described(app: Starlette) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(ask(app, "/openapi.json").body)
    return document


def lines_in(app: Starlette, address: str) -> list[str]:
    answer = ask(app, address)
    assert answer.status == 200
    components = described(app)["components"]
    schema = {"$ref": "#/components/schemas/Lines", "components": components}
    jsonschema.Draft202012Validator(schema).validate(answer.json())
    return [line["line"] for line in answer.json()["lines"]]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param("", ["one", "two", "three"], id="all at first"),
        pytest.param("?after=2", ["three"], id="those that are new"),
        pytest.param("?after=3", [], id="none so far"),
        pytest.param("?after=" + "9" * 40, ["one", "two", "three"], id="no number of a line"),
    ],
)
def test_lines_after_a_number_are_returned(app: Starlette, query: str, want: list[str]) -> None:
    assert lines_in(app, ADDRESS + query) == want


def test_an_actionset_without_lines_has_an_empty_list(app: Starlette) -> None:
    assert lines_in(app, PATH.format(namespace="shop", name="other")) == []


def test_the_description_contains_every_route_of_a_controller(app: Starlette) -> None:
    routes = {route.path for route in app.routes if isinstance(route, Route)}
    assert set(described(app)["paths"]) == routes


def test_an_endpoint_without_controller_neither_serves_nor_describes_lines(
    sample_app: Starlette,
) -> None:
    assert PATH not in described(sample_app)["paths"]
    assert ask(sample_app, ADDRESS).status == 404
