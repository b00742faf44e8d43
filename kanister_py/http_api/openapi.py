"""What may a client ask, and what does it get? The answer for machines, as OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kanister_py.core.registry.entries import FunctionKind, Origin
from kanister_py.core.versions.deprecation import Support
from kanister_py.http_api.discovery import Publication
from kanister_py.http_api.negotiation import JSON, YAML
from kanister_py.http_api.phase_lines import MOST_DIGITS, PATH
from kanister_py.http_api.problems import PROBLEM

_HTML = "text/html; charset=utf-8"
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_VERSION = {
    "type": "string",
    "description": "SemVer 2, with a leading v",
    "pattern": r"^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$",
}
_RELEASE = {
    "type": "string",
    "description": "A release of the package that brings the function",
    "pattern": r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$",
}
_DATE = {"type": "string", "format": "date"}
_ETAG = {
    "ETag": {
        "description": "Names this form of the answer, byte for byte",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
    }
}
_NEGOTIATED = {
    **_ETAG,
    "Vary": {"required": True, "schema": {"const": "Accept"}},
    "Content-Location": {
        "description": "The address of this form, whatever is accepted",
        "required": True,
        "schema": _TEXT,
    },
}
_WARNINGS = {
    "Deprecation": {
        "description": (
            "On a deprecated version: when it was deprecated, as RFC 9745 has it. "
            "@0 where the release that deprecated it has no date"
        ),
        "schema": {"type": "string", "pattern": r"^@\d+$"},
    },
    "Sunset": {
        "description": (
            "On a deprecated version: from when on it is refused, as RFC 8594 has it. "
            "Left out where the release that removes it has no date"
        ),
        "schema": _TEXT,
    },
    "Link": {
        "description": (
            "On a deprecated or removed version: the one that replaces it (successor-version), "
            "and what the page says of it (deprecation)"
        ),
        "schema": _TEXT,
    },
}


def describe_api(
    publication: Publication,
    references: Mapping[tuple[str, str], Any],
    *,
    has_lines: bool = False,
) -> dict[str, Any]:
    """Describe every address, with examples of what is really there."""
    names = list(publication.registry.names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kanister-py: functions and their versions",
            "version": publication.release.bare,
            "summary": "Which functions are there, and how long is each version served?",
            "description": (
                "Everything is read only, and changes only when another release is installed. "
                "An answer has a strong ETag: ask again with If-None-Match. "
                "JSON unless YAML is asked for, by Accept or by the suffix .yaml."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "functions", "description": "What blueprints and compositions may use"},
            {"name": "record", "description": "The record of versions, as it is kept"},
            {"name": "people", "description": "What people read"},
            {"name": "operation", "description": "What watches over the process"},
        ],
        "paths": {
            **_function_paths(names, list(references)),
            **_file_paths(),
            **_operation_paths(),
            **({PATH: _lines_path()} if has_lines else {}),
        },
        "components": {"schemas": _schemas(), "parameters": _PARAMETERS},
    }


def _function_paths(names: list[str], versions: list[tuple[str, str]]) -> dict[str, Any]:
    lists = {}
    for suffix, forms in (("", (JSON, YAML)), (".json", (JSON,)), (".yaml", (YAML,))):
        which = f" as {suffix[1:].upper()}" if suffix else ""
        lists[f"/v1/functions{suffix}"] = _readable(
            _operation(
                f"listFunctions{suffix[1:].capitalize()}",
                "functions",
                f"Every function with its versions{which}",
                _document("FunctionList", forms, _NEGOTIATED),
                unchanged=True,
                negotiated=not suffix,
            )
        )
    one = _operation(
        "readFunction",
        "functions",
        "One function with its versions",
        _document("AnyFunction", (JSON, YAML), _NEGOTIATED),
        {"404": _problem("No function has this name; `near` are those meant, perhaps")},
        unchanged=True,
        negotiated=True,
    )
    version = _operation(
        "readFunctionVersion",
        "functions",
        "One version of a function: status, arguments and outputs",
        _document("FunctionVersion", (JSON, YAML), {**_NEGOTIATED, **_WARNINGS}),
        {
            "400": _problem("The version is not SemVer; `1.0.0` is taken as `v1.0.0`"),
            "404": _problem("No such function, or the function has no such version"),
            "410": _problem("The version was removed; `replacement` comes instead", _WARNINGS),
        },
        unchanged=True,
        negotiated=True,
    )
    # One pair as the example of both: a name and a version that really are together.
    name, text = next(iter(versions), ("", ""))
    version["parameters"] = [
        _path_parameter("name", "A function", _NAME, [name] if name else []),
        _path_parameter("version", _WHICH_VERSION, _ASKED_VERSION, [text] if text else []),
        *version["parameters"],
    ]
    one["parameters"] = [_path_parameter("name", _WHICH_NAME, _NAME, names), *one["parameters"]]
    return {
        **lists,
        "/v1/functions/{name}": _readable(one),
        "/v1/functions/{name}/versions/{version}": _readable(version),
    }


_NAME = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[0-9A-Za-z.-]+$"}
_NUMBER = r"(0|[1-9]\d*)"
_WORD = r"(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_ASKED_VERSION = {
    "type": "string",
    "maxLength": 128,
    "pattern": (rf"^v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\.json|\.yaml)?$"),
}
_WHICH_NAME = "A function; .json or .yaml at the end asks for that form"
_WHICH_VERSION = (
    "A version, with or without its leading v; .json or .yaml at the end asks for that form"
)


def _path_parameter(
    name: str, description: str, schema: Mapping[str, Any], examples: Iterable[str]
) -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": dict(schema),
    }
    shown = {each: {"value": each} for each in examples}
    if shown:
        parameter["examples"] = shown
    return parameter


def _file_paths() -> dict[str, Any]:
    return {
        "/v1/versions.yaml": _readable(
            _operation(
                "readRecord",
                "record",
                "The record of the versions that come with kanister-py",
                _content("The file, byte for byte", {YAML: {"type": "object"}}, _ETAG),
                unchanged=True,
            )
        ),
        "/v1/versions.schema.json": _readable(
            _operation(
                "readRecordSchema",
                "record",
                "The JSON schema of that record",
                _content("The schema", {"application/schema+json": {"type": "object"}}, _ETAG),
                unchanged=True,
            )
        ),
        "/": _readable(
            _operation(
                "readPage",
                "people",
                "Functions and versions for people",
                _content("The page, complete without any other file", {_HTML: _TEXT}, _ETAG),
                unchanged=True,
            )
        ),
        "/openapi.json": _readable(
            _operation(
                "readDescription",
                "people",
                "This description",
                _content("OpenAPI 3.1", {JSON: {"type": "object"}}, _ETAG),
                unchanged=True,
            )
        ),
    }


def _operation_paths() -> dict[str, Any]:
    ready = {"$ref": "#/components/schemas/Readiness"}
    return {
        "/metrics": _readable(
            _operation(
                "scrape",
                "operation",
                "Figures for Prometheus",
                _content(
                    "In the text format, or in OpenMetrics where Accept names it",
                    {
                        "text/plain; version=1.0.0; charset=utf-8; escaping=underscores": _TEXT,
                        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores": _TEXT,
                        "text/plain; version=0.0.4; charset=utf-8": _TEXT,
                        "application/openmetrics-text; version=1.0.0; charset=utf-8": _TEXT,
                    },
                ),
            )
        ),
        "/healthz": _readable(
            _operation(
                "isAlive",
                "operation",
                "Whether the process is alive",
                _content(
                    "It is",
                    {
                        JSON: {
                            "type": "object",
                            "required": ["status"],
                            "properties": {"status": {"const": "alive"}},
                            "additionalProperties": False,
                        }
                    },
                ),
            )
        ),
        "/readyz": _readable(
            _operation(
                "isReady",
                "operation",
                "Whether it may be asked",
                _content("It may", {JSON: ready}),
                {"503": _content("Not now; `checks` say why", {JSON: ready})},
            )
        ),
    }


_OBJECT_NAME = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$",
}


def _lines_path() -> dict[str, Any]:
    operation = _operation(
        "readLines",
        "operation",
        "What the phases of an ActionSet have printed, as far as it is kept",
        _content("The lines, none included", {JSON: {"$ref": "#/components/schemas/Lines"}}),
        {
            "401": _problem("Where a token is asked for: there is none, or nobody knows it"),
            "403": _problem("Where a token is asked for: its owner may not get this ActionSet"),
            "503": _problem("Where a token is asked for: the cluster cannot say whose it is"),
        },
    )
    after = {
        "name": "after",
        "in": "query",
        "description": "The number of the last line that the client has",
        "schema": {"type": "integer", "minimum": 0, "maximum": 10**MOST_DIGITS - 1, "default": 0},
    }
    operation["parameters"] = [
        _path_parameter("namespace", "Where the ActionSet is", _OBJECT_NAME, ()),
        _path_parameter("name", "An ActionSet", _OBJECT_NAME, ()),
        after,
    ]
    return _readable(operation)


def _readable(operation: dict[str, Any]) -> dict[str, Any]:
    """Whatever can be read can be asked for its headers alone."""
    responses = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in operation["responses"].items()
    }
    head = {
        **operation,
        "operationId": f"{operation['operationId']}Head",
        "summary": f"{operation['summary']}: the headers alone",
        "responses": responses,
    }
    return {"get": operation, "head": head}


def _operation(
    name: str,
    tag: str,
    summary: str,
    fine: Mapping[str, Any],
    others: Mapping[str, Any] | None = None,
    *,
    unchanged: bool = False,
    negotiated: bool = False,
) -> dict[str, Any]:
    parameters, responses = [], {"200": fine, **(others or {})}
    if unchanged:
        parameters.append({"$ref": "#/components/parameters/IfNoneMatch"})
        headers = dict(fine["headers"].items())
        responses["304"] = {"description": "As the client has it already", "headers": headers}
    if negotiated:
        responses["406"] = _problem("Neither JSON nor YAML is accepted")
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "parameters": parameters,
        "responses": dict(sorted(responses.items())),
    }


def _content(
    description: str, schemas: Mapping[str, Any], headers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    content = {media_type: {"schema": schema} for media_type, schema in schemas.items()}
    response: dict[str, Any] = {"description": description, "content": content}
    if headers:
        response["headers"] = dict(headers)
    return response


def _document(name: str, forms: Iterable[str], headers: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    return _content("It is there", dict.fromkeys(forms, schema), headers)


def _problem(description: str, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return _content(description, {PROBLEM: schema}, headers)


_PARAMETERS = {
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "ETags that the client has; `*` for any",
        "schema": _TEXT,
    },
}


def _object(
    required: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


_LINE = "#/components/schemas/Line"


def _schemas() -> dict[str, Any]:
    summary = {
        "version": _VERSION,
        "status": {
            "description": (
                "stable: what a phase gets that names no version. served: to phases that name it. "
                "deprecated: served, and warned of. removed: refused. planned: not released yet"
            ),
            "enum": ["stable", *(str(each) for each in Support)],
        },
        "stable": _FLAG,
        "prerelease": _FLAG,
    }
    window: dict[str, Any] = {}
    for key in ("since", "deprecatedIn", "removedIn"):
        window[key] = _RELEASE
        window[f"{key}Date"] = _DATE
    windows = tuple(window)
    window |= {
        "replacement": _VERSION,
        "renamedArgs": {"type": "object", "additionalProperties": _TEXT},
        "reads": {"type": "array", "items": _TEXT},
        "message": _TEXT,
        "inUseBy": {
            "type": "object",
            "description": "How much a cluster uses it; only where a controller serves this",
            "required": ["blueprints", "actionSets"],
            "properties": {
                "blueprints": {"type": "integer"},
                "actionSets": {"type": "integer", "description": "Those that are under way"},
                "lastRun": _TEXT,
                "compositions": {
                    "type": "integer",
                    "description": "Compositions with a step that gets it; left out for none",
                },
            },
            "additionalProperties": False,
        },
    }
    head = {
        "name": _TEXT,
        "kind": {"enum": [str(each) for each in FunctionKind]},
        "source": {"type": "string", "description": "The package that brings the function"},
        "origin": {"enum": [str(Origin.BUILT_IN), str(Origin.PLUGIN)]},
    }
    field = {"name": _TEXT, "type": _TEXT, "required": _FLAG, "description": _TEXT}
    fields = {"type": "array", "items": {"$ref": "#/components/schemas/Field"}}
    maybe = {"anyOf": [_VERSION, {"type": "null"}]}
    revisions = {
        "type": "array",
        "description": "Those that a cluster has, the newest first",
        "items": {"$ref": "#/components/schemas/FunctionRevision"},
    }
    return {
        "FunctionList": _object(
            {
                "release": _RELEASE,
                "functions": {"type": "array", "items": {"$ref": "#/components/schemas/Function"}},
            },
            {
                "leftOut": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "Plugins that could not be loaded",
                },
                "installed": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/InstalledFunction"},
                    "description": "What a cluster installs under other names; only where a "
                    "controller serves this",
                },
            },
        ),
        "AnyFunction": {
            "anyOf": [
                {"$ref": "#/components/schemas/Function"},
                {"$ref": "#/components/schemas/InstalledFunction"},
            ]
        },
        "InstalledFunction": _object({"name": _TEXT, "revisions": revisions}),
        "FunctionRevision": _object(
            {
                "name": _TEXT,
                "origin": {
                    "description": "Where the code comes from that it runs",
                    "enum": [str(each) for each in Origin],
                },
                "version": {
                    **maybe,
                    "description": "What steps ask for; null where its package names none",
                },
                "runs": {
                    "type": "string",
                    "description": "The function and version behind it; empty for none",
                },
                "status": {
                    "description": "What that version is worth; null for none",
                    "enum": [*(str(each) for each in Support), None],
                },
                "revision": {"type": "integer", "description": "The highest that can serve does"},
                "state": {"enum": ["routable", "active", "inactive"]},
                "image": {"type": "string", "description": "The package, by its digest"},
                "labels": {"type": "object", "additionalProperties": _TEXT},
                "created": _TEXT,
                "usedBy": {
                    "type": "object",
                    "description": "Which compositions use it, by the way they do",
                    "additionalProperties": {"type": "array", "items": _TEXT},
                },
            },
            {key: window[key] for key in (*windows, "replacement")},
        ),
        "Function": _object(
            {
                **head,
                "release": {**_RELEASE, "description": "The installed release of that package"},
                "stableVersion": maybe,
                "defaultVersion": {
                    **maybe,
                    "description": "What a phase gets that names no version",
                },
                "versions": {
                    "type": "array",
                    "description": "The newest first",
                    "items": {"$ref": "#/components/schemas/VersionSummary"},
                },
            },
            {"revisions": revisions},
        ),
        "VersionSummary": _object(summary, window),
        "FunctionVersion": _object(
            {**head, **summary, "description": _TEXT, "arguments": fields, "outputs": fields},
            {
                **window,
                "onRestart": {
                    "description": "What becomes of a call that was under way at a restart",
                    "enum": ["adopt", "repeat", "fail"],
                },
                "freeOutputs": {
                    "type": "boolean",
                    "description": "Whether there may be outputs besides the declared ones",
                },
            },
        ),
        "Lines": _object({"lines": {"type": "array", "items": {"$ref": _LINE}}}),
        "Line": _object(
            {
                "number": {"type": "integer", "description": "Counts from one in an ActionSet"},
                "time": {"type": "string", "format": "date-time"},
                "action": _TEXT,
                "phase": _TEXT,
                "function": _TEXT,
                "version": _TEXT,
                "attempt": {"type": "integer"},
                "line": _TEXT,
            }
        ),
        "Field": _object(field, {"default": {"description": "What it is when left out"}}),
        "Problem": {
            "type": "object",
            "description": "RFC 9457, with the facts of the problem as further members",
            "required": ["type", "title", "status", "detail", "reason"],
            "properties": {
                "type": {"type": "string", "format": "uri"},
                "title": _TEXT,
                "status": {"type": "integer"},
                "detail": _TEXT,
                "reason": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
                "function": _TEXT,
                "version": _TEXT,
                "near": {"type": "array", "items": _TEXT},
                "versions": {"type": "array", "items": _TEXT},
                "removedIn": _RELEASE,
                "removedInDate": _DATE,
                "replacement": _VERSION,
                "renamedArgs": {"type": "object", "additionalProperties": _TEXT},
                "message": _TEXT,
                "offered": {"type": "array", "items": _TEXT},
                "known": {"type": "array", "items": _TEXT},
            },
            "additionalProperties": False,
        },
        "Readiness": _object(
            {
                "status": {"enum": ["ready", "not ready"]},
                "checks": {"type": "object", "additionalProperties": _TEXT},
            }
        ),
    }
