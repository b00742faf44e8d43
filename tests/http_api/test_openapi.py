"""The endpoint conforms to its OpenAPI description, tested with schemathesis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from starlette.applications import Starlette

from tests.http_api.asking import ask
from tests.http_api.serving import served

schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

PATHS = [
    "/",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/v1/functions",
    "/v1/functions.json",
    "/v1/functions.yaml",
    "/v1/functions/{name}",
    "/v1/functions/{name}/versions/{version}",
    "/v1/versions.schema.json",
    "/v1/versions.yaml",
]


@pytest.fixture(scope="module")
def described(sample_app: Starlette) -> Iterator[Any]:
    # Over a real port, to include what the server adds.
    with served(sample_app) as url:
        document = json.loads(ask(sample_app, "/openapi.json").body)
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=url)
        yield schema


def test_every_described_path_is_tested(described: Any) -> None:
    assert sorted(described) == PATHS


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", PATHS)
def test_every_response_matches_the_description(described: Any, path: str, method: str) -> None:
    operation = described[path][method]
    modes = schemathesis.GenerationMode

    @given(case=operation.as_strategy(generation_mode=modes.POSITIVE))
    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def as_described(case: Any) -> None:
        case.call_and_validate()

    as_described()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("Notify", "v0.2.0"),
        ("Notify", "0.1.0"),
        ("Notify", "v0.0.1"),
        ("Notify", "v0.3.0-rc.1.yaml"),
        ("CountRows", "v1.0.0"),
        ("CountRows", "v0.0.0"),
        ("Greet", "v0.0.0.json"),
        ("Greet", "latest"),
        ("Great", "v0.0.0"),
    ],
)
def test_versions_of_every_status_match_the_description(
    described: Any, name: str, version: str
) -> None:
    operation = described["/v1/functions/{name}/versions/{version}"]["GET"]
    for accept in ("application/json", "application/yaml", "text/html"):
        case = operation.Case(
            path_parameters={"name": name, "version": version}, headers={"Accept": accept}
        )
        case.call_and_validate()
