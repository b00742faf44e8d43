"""OpenAPI 3.1 description of the endpoint: `openapi.yaml`, completed from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from kanister_py.core.registry.entries import FunctionKind, Origin
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.yaml.documents import parse_document
from kanister_py.http_api.discovery import Publication
from kanister_py.http_api.phase_lines import PATH


def describe_api(
    publication: Publication,
    references: Mapping[tuple[str, str], Any],
    *,
    has_lines: bool = False,
) -> dict[str, Any]:
    """Build the description of all routes, with registered functions as examples."""
    text = files(__package__).joinpath("openapi.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = parse_document(text, "openapi.yaml").value
    document["info"]["version"] = publication.release.bare
    paths, schemas = document["paths"], document["components"]["schemas"]
    if not has_lines:
        del paths[PATH]
    function, version = (paths[f"/v1/functions/{{name}}{more}"] for more in ("", _VERSION))
    _add_examples(function, publication.registry.names)
    # The example of both parameters is one existing pair of name and version.
    _add_examples(version, *([reference] for reference in next(iter(references), ())))
    for path in paths.values():
        path["head"] = _head_of(path["get"])
    statuses = [*map(str, Support)]
    for name in ("VersionSummary", "FunctionVersion"):
        schemas[name]["properties"]["status"]["enum"] = ["stable", *statuses]
    for name in ("Function", "FunctionVersion"):
        schemas[name]["properties"]["kind"]["enum"] = [*map(str, FunctionKind)]
        schemas[name]["properties"]["origin"]["enum"] = [str(Origin.BUILT_IN), str(Origin.PLUGIN)]
    revision = schemas["FunctionRevision"]["properties"]
    revision["origin"]["enum"] = [*map(str, Origin)]
    revision["status"]["enum"] = [*statuses, None]
    return document


_VERSION = "/versions/{version}"


def _add_examples(path: dict[str, Any], *examples: Iterable[str]) -> None:
    """Add examples to the first parameters of a path."""
    for parameter, texts in zip(path["get"]["parameters"], examples, strict=False):
        if shown := {text: {"value": text} for text in texts}:
            parameter["examples"] = shown


def _head_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Derive the description of HEAD from that of GET."""
    responses = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in operation["responses"].items()
    }
    return {
        **operation,
        "operationId": f"{operation['operationId']}Head",
        "summary": f"{operation['summary']}: headers only",
        "responses": responses,
    }
