"""Functions installed in a cluster, on the endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.applications import Starlette

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.censuses import RevisionCensus
from kanister_py.core.errors import ClusterUnavailable
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.http_api.app import build_app
from kanister_py.http_api.discovery import Publication
from kanister_py.wiring import read_functions
from tests.cli.revision_objects import CRDS, function_revision


def revision(of: str, number: int, state: str, **used: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": "FunctionRevision",
        "of": of,
        "name": f"{of}-{number}",
        "revision": number,
        "state": state,
        "labels": {"channel": "<stable>"},
        "created": "2026-01-01T00:00:00Z",
        "usedBy": {way.replace("_", " "): list(who) for way, who in used.items()},
        "image": f"example.org/{of}@sha256:abc",
        "origin": "package",
        "version": "v1.0.0",
        "runs": "v1.0.0",
        "status": "deprecated",
        "deprecatedIn": "1.0.0",
        "removedIn": "1.2.0",
        "endpoint": "ipv4:10.0.0.1:9443",
        "healthy": True,
        "desiredState": "Active",
    }


INSTALLED = [
    revision("templates", 2, "routable", is_selected_by=["Composition/bucket"]),
    revision("templates", 1, "inactive"),
]


def get(app: Starlette, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


class FoundRevisions:
    """Revisions that a controller has found so far."""

    def __init__(self) -> None:
        self.revisions: list[dict[str, Any]] | None = None


@pytest.fixture
def seen() -> FoundRevisions:
    return FoundRevisions()


@pytest.fixture
def app(sample_publication: Publication, seen: FoundRevisions) -> Starlette:
    return build_app(sample_publication, revisions=lambda: seen.revisions)


def fits(app: Starlette, schema: str, document: Any) -> None:
    api = get(app, "/openapi.json").json()
    schema_of = {"$ref": f"#/components/schemas/{schema}", "components": api["components"]}
    jsonschema.Draft202012Validator(schema_of).validate(document)


def test_revisions_are_omitted_until_they_are_known(app: Starlette) -> None:
    assert "installed" not in get(app, "/v1/functions").json()
    assert get(app, "/v1/functions/templates").status_code == 404
    assert "Installed in this cluster" not in get(app, "/").text


def test_installed_functions_are_listed_with_their_users(
    app: Starlette, seen: FoundRevisions
) -> None:
    before = get(app, "/v1/functions")
    seen.revisions = INSTALLED
    after = get(app, "/v1/functions")
    assert before.headers["etag"] != after.headers["etag"]
    (function,) = after.json()["installed"]
    assert function["name"] == "templates"
    assert [entry["state"] for entry in function["revisions"]] == ["routable", "inactive"]
    assert function["revisions"][0]["usedBy"] == {"is selected by": ["Composition/bucket"]}
    fits(app, "FunctionList", after.json())
    one = get(app, "/v1/functions/templates")
    assert one.json() == function
    fits(app, "AnyFunction", one.json())
    assert "10.0.0.1" not in after.text


def test_a_builtin_function_shows_installed_revisions_of_its_name(
    app: Starlette, seen: FoundRevisions, sample_publication: Publication
) -> None:
    name = next(iter(sample_publication.registry.names))
    seen.revisions = [*INSTALLED, revision(name, 7, "active")]
    listed = get(app, "/v1/functions").json()
    assert [function["name"] for function in listed["installed"]] == ["templates"]
    of_this = next(function for function in listed["functions"] if function["name"] == name)
    assert [entry["revision"] for entry in of_this["revisions"]] == [7]
    document = get(app, f"/v1/functions/{name}").json()
    assert document["versions"]
    assert document["revisions"] == of_this["revisions"]
    fits(app, "AnyFunction", document)


def test_the_page_shows_installed_functions(app: Starlette, seen: FoundRevisions) -> None:
    first = get(app, "/")
    seen.revisions = INSTALLED
    page = get(app, "/")
    assert "Installed in this cluster" in page.text
    assert "templates-2" in page.text
    assert "Composition/bucket" in page.text
    assert "v1.0.0, deprecated until 1.2.0" in page.text
    assert page.headers["etag"] != first.headers["etag"]
    again = get(app, "/", **{"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304


def test_names_from_a_cluster_are_escaped_on_the_page(app: Starlette, seen: FoundRevisions) -> None:
    seen.revisions = [revision("x", 1, "active", is_held_by=["<script>alert(1)</script>"])]
    assert "<script>alert(1)" not in get(app, "/").text


def test_a_failed_census_keeps_the_previous_result() -> None:

    cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    cluster.load([function_revision(1, "Active", channel="stable", serves=True)])
    broken: list[bool] = []

    class Fragile:
        def __getattr__(self, name: str) -> Any:
            if broken:
                raise ClusterUnavailable("it is away")
            return getattr(cluster, name)

    fragile: Any = Fragile()
    census = RevisionCensus(fragile, read_functions().registry)
    census.count()
    revisions = census.revisions
    assert revisions is not None
    assert [entry["name"] for entry in revisions] == ["templates-1"]
    census.count()
    # An unchanged census returns the same object, so that responses stay cached.
    assert census.revisions is revisions
    broken.append(True)
    with pytest.raises(ClusterUnavailable):
        census.count()
    assert census.revisions is revisions
