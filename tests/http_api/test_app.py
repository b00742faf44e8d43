"""Endpoint of functions."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from starlette.applications import Starlette

from kanister_py.core.registry.declared import CatalogueMismatch
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistryBuilder,
    Source,
)
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import parse_document
from kanister_py.http_api.app import build_app
from kanister_py.http_api.discovery import Publication
from tests.http_api.asking import ask
from tests.http_api.serving import served

NOTIFY = "/v1/functions/Notify/versions"


def test_the_list_contains_all_functions_with_their_versions(sample_app: Starlette) -> None:
    listing = ask(sample_app, "/v1/functions")
    assert listing.status == 200
    functions = {function["name"]: function for function in listing.json()["functions"]}
    assert list(functions) == ["CountRows", "Greet", "Notify"]
    assert [
        (version["version"], version["status"]) for version in functions["Notify"]["versions"]
    ] == [
        ("v0.3.0-rc.1", "served"),
        ("v0.2.0", "stable"),
        ("v0.1.0", "deprecated"),
        ("v0.0.1", "removed"),
    ]
    assert functions["Notify"]["defaultVersion"] == "v0.2.0"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/functions",
        "/v1/functions/Notify",
        f"{NOTIFY}/v0.2.0",
        "/v1/functions/CountRows/versions/v0.0.0",
    ],
)
def test_yaml_and_json_have_the_same_content(sample_app: Starlette, path: str) -> None:
    as_json = ask(sample_app, path)
    as_yaml = ask(sample_app, path, {"accept": "application/yaml"})
    assert as_json.headers["content-type"] == "application/json"
    assert as_yaml.headers["content-type"] == "application/yaml"
    assert parse_document(as_yaml.body).value == as_json.json()
    assert as_yaml.headers["etag"] != as_json.headers["etag"]
    assert as_json.headers["vary"] == as_yaml.headers["vary"] == "Accept"
    for form in (as_json, as_yaml):
        again = ask(sample_app, form.headers["content-location"], {"accept": "text/html"})
        assert (again.status, again.body) == (200, form.body)


def test_a_client_with_the_current_etag_gets_304(sample_app: Starlette) -> None:
    first = ask(sample_app, f"{NOTIFY}/v0.1.0")
    again = ask(sample_app, f"{NOTIFY}/v0.1.0", {"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    kept = ("etag", "vary", "cache-control", "content-location", "deprecation", "sunset", "link")
    assert {key: again.headers[key] for key in kept} == {key: first.headers[key] for key in kept}
    other = {"if-none-match": first.headers["etag"], "accept": "application/yaml"}
    assert ask(sample_app, f"{NOTIFY}/v0.1.0", other).status == 200


def test_etags_may_be_sent_in_several_headers(sample_app: Starlette) -> None:
    etag = ask(sample_app, "/v1/functions").headers["etag"]
    headers = [("if-none-match", '"other"'), ("if-none-match", f"W/{etag}")]
    assert ask(sample_app, "/v1/functions", headers).status == 304


def test_a_deprecated_version_has_warning_headers(sample_app: Starlette) -> None:
    headers = ask(sample_app, f"{NOTIFY}/v0.1.0").headers
    assert headers["deprecation"] == "@1777593600"  # 2026-05-01
    assert headers["sunset"] == "Fri, 15 Jan 2027 00:00:00 GMT"
    assert f'<{NOTIFY}/v0.2.0>; rel="successor-version"' in headers["link"]
    assert '</#Notify@v0.1.0>; rel="deprecation"' in headers["link"]


def test_a_deprecation_without_a_date_is_in_the_past_and_has_no_sunset(
    sample_app: Starlette,
) -> None:
    headers = ask(sample_app, "/v1/functions/CountRows/versions/v0.0.0").headers
    assert headers["deprecation"] == "@0"
    assert "sunset" not in headers
    assert "successor-version" not in headers["link"]


@pytest.mark.parametrize("version", ["v0.2.0", "v0.3.0-rc.1"])
def test_a_supported_version_has_no_warning_headers(sample_app: Starlette, version: str) -> None:
    headers = ask(sample_app, f"{NOTIFY}/{version}").headers
    assert not {"deprecation", "sunset", "link"} & set(headers)


def test_a_removed_version_is_gone_and_names_its_replacement(sample_app: Starlette) -> None:
    response = ask(sample_app, f"{NOTIFY}/v0.0.1")
    assert response.status == 410
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["reason"] == "FunctionVersionRemoved"
    assert (problem["replacement"], problem["removedIn"]) == ("v0.2.0", "1.2.0")
    assert problem["removedInDate"] == "2026-09-01"
    assert f'<{NOTIFY}/v0.2.0>; rel="successor-version"' in response.headers["link"]


@pytest.mark.parametrize(
    "spelling", ["0.1.0", "v0.1.0", "v0.1.0.json", "0.1.0.json"], ids=lambda text: text
)
def test_a_version_is_found_by_every_spelling(sample_app: Starlette, spelling: str) -> None:
    response = ask(sample_app, f"{NOTIFY}/{spelling}")
    assert response.status == 200
    assert response.json()["version"] == "v0.1.0"
    assert response.headers["content-location"] == f"{NOTIFY}/v0.1.0.json"


def test_a_suffix_may_follow_a_prerelease(sample_app: Starlette) -> None:
    response = ask(sample_app, f"{NOTIFY}/v0.3.0-rc.1.yaml")
    assert response.headers["content-type"] == "application/yaml"
    assert parse_document(response.body).value["version"] == "v0.3.0-rc.1"


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        pytest.param("/v1/functions/Notifi", 404, "FunctionNotRegistered", id="no such function"),
        pytest.param(
            "/v1/functions/Notifi/versions/v1.0.0", 404, "FunctionNotRegistered", id="nor version"
        ),
        pytest.param(f"{NOTIFY}/v9.0.0", 404, "FunctionVersionNotFound", id="no such version"),
        pytest.param(f"{NOTIFY}/v9.0.0.yaml", 404, "FunctionVersionNotFound", id="nor as yaml"),
        pytest.param(f"{NOTIFY}/latest", 400, "InvalidVersion", id="not a version"),
        pytest.param(f"{NOTIFY}/v1", 400, "InvalidVersion", id="half a version"),
        pytest.param(f"{NOTIFY}/v1.0.0+build", 400, "InvalidVersion", id="with build metadata"),
        pytest.param("/v1/functions/", 404, "NotFound", id="an address that is none"),
        pytest.param("//elsewhere.example/", 404, "NotFound", id="an address of somebody else"),
        pytest.param("/v1/functions/" + "x" * 5000, 414, "URITooLong", id="a long address"),
    ],
)
def test_a_missing_resource_is_a_problem_with_a_reason(
    sample_app: Starlette, path: str, status: int, reason: str
) -> None:
    response = ask(sample_app, path)
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (response.status, problem["status"], problem["reason"]) == (status, status, reason)


def test_near_names_are_offered(sample_app: Starlette) -> None:
    assert ask(sample_app, "/v1/functions/notifi").json()["near"] == ["Notify"]


def test_existing_versions_are_offered(sample_app: Starlette) -> None:
    versions = ask(sample_app, f"{NOTIFY}/v9.0.0").json()["versions"]
    assert versions == ["v0.3.0-rc.1", "v0.2.0", "v0.1.0", "v0.0.1"]


def test_an_unknown_media_type_is_not_acceptable(sample_app: Starlette) -> None:
    response = ask(sample_app, "/v1/functions", {"accept": "text/html"})
    assert response.status == 406
    assert response.json()["offered"] == ["application/json", "application/yaml"]
    assert response.headers["vary"] == "Accept"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/v1/functions", f"{NOTIFY}/v0.0.1", "/", "/metrics"])
def test_only_reading_methods_are_allowed(sample_app: Starlette, method: str, path: str) -> None:
    response = ask(sample_app, path, method=method)
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/v1/functions", f"{NOTIFY}/v0.0.1", "/", "/healthz", "/nowhere"])
def test_head_has_the_headers_of_get(sample_app: Starlette, path: str) -> None:
    full, head = ask(sample_app, path), ask(sample_app, path, method="HEAD")
    assert head.body == b""
    assert (head.status, head.pairs) == (full.status, full.pairs)
    assert int(head.headers["content-length"]) == len(full.body)


def test_too_many_headers_are_refused(sample_app: Starlette) -> None:
    assert ask(sample_app, "/v1/functions", {"x-much": "x" * 20000}).status == 431


@pytest.mark.parametrize("path", ["/v1/functions", "/", "/nowhere", "/healthz", "/metrics"])
def test_responses_forbid_type_sniffing(sample_app: Starlette, path: str) -> None:
    assert ask(sample_app, path).headers["x-content-type-options"] == "nosniff"


def test_the_record_is_served_unchanged(sample_app: Starlette) -> None:
    record = ask(sample_app, "/v1/versions.yaml")
    assert parse_document(record.body).value["kind"] == "FunctionVersions"
    schema = ask(sample_app, "/v1/versions.schema.json").json()
    assert schema["$id"].endswith("versions.schema.json")


def test_a_mismatch_between_code_and_record_fails_at_startup(
    sample_app: Starlette, sample_publication: Publication
) -> None:
    entry = FunctionEntry(
        "Greet",
        Version(0, 0, 0),
        FunctionKind.BLUEPRINT,
        Source("ours", Version(1, 0, 0), is_ours=True),
        "acme_functions:Notify",
    )
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add([entry])
    with pytest.raises(CatalogueMismatch, match="Notify"):
        build_app(replace(sample_publication, registry=builder.build()))


def test_a_process_that_is_not_ready_reports_the_reason(sample_publication: Publication) -> None:
    checks = {"cluster": lambda: "no answer", "registry": lambda: ""}
    app = build_app(sample_publication, checks=checks)
    response = ask(app, "/readyz")
    assert response.status == 503
    assert response.json() == {
        "status": "not ready",
        "checks": {"cluster": "no answer", "registry": "fine"},
    }
    assert ask(app, "/healthz").status == 200


def test_a_defect_is_logged_but_its_details_are_not_sent(
    sample_publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise RuntimeError("the password is swordfish")

    app = build_app(sample_publication, checks={"it": broken})
    with served(app) as url, pytest.raises(HTTPError) as error:
        urlopen(f"{url}/readyz", timeout=60)
    with error.value as answer:
        problem = json.load(answer)
    assert (error.value.code, problem["reason"]) == (500, "Fault")
    assert "swordfish" not in json.dumps(problem)
    assert "swordfish" in caplog.text
    assert 'route="/readyz",status="500"} 1.0' in ask(app, "/metrics").text


def test_requests_are_counted_by_route_instead_of_path(
    sample_publication: Publication,
) -> None:
    app = build_app(sample_publication)
    for number in range(50):
        ask(app, f"/v1/functions/Unknown{number}")
        ask(app, f"/nowhere/{number}", method=f"M{number}")
    ask(app, "/v1/functions")
    text = ask(app, "/metrics").text
    name = "kanister_py_http_requests_total"
    assert f'{name}{{method="GET",route="/v1/functions/{{name}}",status="404"}} 50.0' in text
    assert f'{name}{{method="other",route="unmatched",status="405"}} 50.0' in text
    assert f'{name}{{method="GET",route="/v1/functions",status="200"}} 1.0' in text
    assert "Unknown1" not in text
    assert "kanister_py_functions 3.0" in text
    assert 'kanister_py_function_versions{status="deprecated"} 2.0' in text
    assert 'kanister_py_function_versions{status="removed"} 1.0' in text
    assert 'kanister_py_build_info{release="0.1.0"} 1.0' in text


def test_every_example_in_the_description_exists(sample_app: Starlette) -> None:
    api = ask(sample_app, "/openapi.json").json()
    for path, item in api["paths"].items():
        values = {
            parameter["name"]: next(iter(parameter["examples"].values()))["value"]
            for parameter in item["get"]["parameters"]
            if parameter.get("in") == "path"
        }
        response = ask(sample_app, path.format(**values))
        assert response.status == 200, path
        assert str(response.status) in item["get"]["responses"]


def test_the_description_contains_every_route(sample_app: Starlette) -> None:
    api = json.loads(ask(sample_app, "/openapi.json").body)
    assert set(api["paths"]) == {route.path for route in sample_app.routes}  # type: ignore[attr-defined]  # all are plain routes
