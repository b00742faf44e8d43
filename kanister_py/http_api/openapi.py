"""Description of the endpoint for machines, in OpenAPI 3.1: `openapi.yaml`, with what is there."""

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
    """Describe every address, with examples of what is really there."""
    text = files(__package__).joinpath("openapi.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = parse_document(text, "openapi.yaml").value
    document["info"]["version"] = publication.release.bare
    paths, schemas = document["paths"], document["components"]["schemas"]
    if not has_lines:
        del paths[PATH]
    one, version = (paths[f"/v1/functions/{{name}}{more}"] for more in ("", _VERSION))
    _add_examples(one, publication.registry.names)
    # One pair as the example of both: a name and a version that really are together.
    _add_examples(version, *([each] for each in next(iter(references), ())))
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
    """Give the first parameters of a path one example or more each."""
    for parameter, texts in zip(path["get"]["parameters"], examples, strict=False):
        if shown := {each: {"value": each} for each in texts}:
            parameter["examples"] = shown


def _head_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Describe HEAD beside a GET: the headers alone."""
    responses = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in operation["responses"].items()
    }
    return {
        **operation,
        "operationId": f"{operation['operationId']}Head",
        "summary": f"{operation['summary']}: the headers alone",
        "responses": responses,
    }
