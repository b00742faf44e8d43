"""The blueprint of OpenSearch restores all indices, with a real server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import urllib3
from urllib3.util import make_headers

from e2e.cluster.programs import (
    BuildFailed,
    MavenMissing,
    find_opensearch,
    opensearch_is_built,
)
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.testing import Stage
from kanister_py.wiring import object_stores
from tests.blueprints.readmes import type_all
from tests.blueprints.servers import program
from tests.conftest import CommandLine
from tests.ports import free_port
from tests.stores import running_store

pytestmark = [pytest.mark.usefixtures("mounts"), pytest.mark.long]

BOOKS = 500
LOGIN = 'us"er:p"a\\s{s'
SETTINGS_OF_ITS_OWN = ("creation_date", "uuid", "version", "provided_name")
"""Settings that differ between any two indices."""


@pytest.fixture(scope="module")
def opensearch() -> Path:
    if not opensearch_is_built() and not os.environ.get("KANISTER_PY_EVERY_GATE"):
        pytest.skip("OpenSearch is not there: run `python -m tests.stores`, once")
    program("curl", "curl")
    try:
        return find_opensearch()
    except (MavenMissing, BuildFailed) as error:
        pytest.skip(f"no OpenSearch: {error}")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def folder(tmp_path: Path, blueprints: Path, opensearch: Path, port: int) -> Path:
    """The blueprint with a program and a port of this machine."""
    folder = tmp_path / "blueprints" / "opensearch"
    shutil.copytree(blueprints / "opensearch", folder)
    for name in ("README.md", "objects.yaml"):
        text = (folder / name).read_text().replace("9200", str(port))
        text = text.replace("- opensearch\n", f"- {opensearch}\n")
        # This server lacks a plugin of the distribution.
        text = text.replace("            - -Eplugins.security.disabled=true\n", "")
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


class OpenSearch:
    """Client of a server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/"

    def ask(self, method: str, path: str, *body: Any) -> Any:
        """Send a request with a document, or with several lines of JSON."""
        text = "".join(json.dumps(line) + "\n" for line in body)
        headers = {"content-type": "application/x-ndjson" if body[1:] else "application/json"}
        answer = urllib3.request(
            method, self._url + path, body=text, headers=headers, timeout=60, retries=False
        )
        assert answer.status < 400, answer.data
        # Numbers exactly as the server returns them.
        return json.loads(answer.data, parse_float=str) if answer.data else None

    def everything(self) -> dict[str, Any]:
        """Return all data of its indices and data streams, document by document."""
        self.ask("POST", "_refresh")
        indices: dict[str, Any] = self.ask("GET", "*?expand_wildcards=all")
        for name, index in indices.items():
            settings = index["settings"]["index"]
            for setting in SETTINGS_OF_ITS_OWN:
                del settings[setting]
            query = f"{name}/_search?size=10000&version=true&seq_no_primary_term=true"
            hits = self.ask("GET", query)["hits"]["hits"]
            # A restore increases the term of every shard.
            index["documents"] = sorted((hit | {"_primary_term": 0} for hit in hits), key=str)
        streams = self.ask("GET", "_data_stream")["data_streams"]
        return {**indices, "streams": [stream["name"] for stream in streams]}


@pytest.fixture
def server(port: int) -> OpenSearch:
    return OpenSearch(port)


@pytest.fixture
def guarded(port: int) -> Iterator[str]:
    """Return the address of a proxy that requires the password."""

    class Guard(BaseHTTPRequestHandler):
        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("authorization") != make_headers(basic_auth=LOGIN)["authorization"]:
                self.send_error(401)
                return
            headers = {"content-type": "application/json"}
            url = f"http://127.0.0.1:{port}{self.path}"
            response = urllib3.request(self.command, url, body=body, headers=headers, timeout=60)
            self.send_response(response.status)
            self.end_headers()
            self.wfile.write(response.data)

        do_GET = do_PUT = do_POST = do_DELETE = do  # noqa: N815 - name of the library

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    guard = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    thread = Thread(target=guard.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{guard.server_port}"
    guard.shutdown()
    guard.server_close()
    thread.join()


def fill(server: OpenSearch) -> None:
    """Create usual contents: analyzers, aliases, routing, numbers, a data stream."""
    analyzer = {"type": "custom", "tokenizer": "standard", "filter": ["lowercase"]}
    settings = {"number_of_shards": 3, "number_of_replicas": 0}
    properties = {
        "title": {"type": "text", "analyzer": "mine"},
        "isbn": {"type": "long"},
        "where": {"type": "geo_point"},
    }
    server.ask(
        "PUT",
        "books",
        {
            "settings": {**settings, "analysis": {"analyzer": {"mine": analyzer}}},
            "mappings": {"properties": properties},
            "aliases": {"old": {"filter": {"range": {"isbn": {"lt": 9}}}}, "new": {}},
        },
    )
    lines: list[Any] = []
    for n in range(BOOKS):
        # Beyond the precision of floating point, and a text that looks like such a number.
        book = {"isbn": 2**53 + n, "serial": str(2**63 + n), "price": n / 7, "nothing": None}
        book |= {"title": f'"Zoë" {n}\\\n\u2028', "where": {"lat": n / 10, "lon": 1.0}}
        lines += [{"index": {"_id": f"a b/{n}", "routing": f"r{n % 5}"}}, book]
    assert not server.ask("POST", "books/_bulk", *lines)["errors"]
    server.ask("PUT", "books/_doc/a%20b%2F7?routing=r2", {"isbn": 1, "title": "changed"})
    server.ask("PUT", "empty", {"settings": settings})
    template = {"index_patterns": ["logs-*"], "data_stream": {}}
    server.ask("PUT", "_index_template/logs", {**template, "template": {"settings": settings}})
    for n in range(3):
        entry = {"@timestamp": f"2026-01-0{n + 1}T00:00:00Z", "n": n}
        server.ask("POST", "logs-app/_doc", entry)
    server.ask("PUT", ".hidden", {"settings": {**settings, "hidden": True}})


def create_objects(stage: Stage, folder: Path, location: Location) -> None:
    """Create the server's objects, with a Profile of the real store."""
    text = (folder / "objects.yaml").read_text()
    credential = location.credential
    for usual, own in {
        "https://s3.example.com": location.endpoint,
        "bucket: backups": f"bucket: {location.bucket}",
        "eu-central-1": location.region,
        "\n  id: change-me": f"\n  id: {credential.id}",
        "\n  secret: change-me": f"\n  secret: {credential.secret}",
    }.items():
        assert usual in text
        text = text.replace(usual, own)
    stage.given_text(text).stand()


def test_restore_of_opensearch_has_all_indices(
    blueprint_stage: Stage,
    folder: Path,
    server: OpenSearch,
    guarded: str,
    location: Location,
    tmp_path: Path,
) -> None:
    stage = blueprint_stage.use_processes()
    create_objects(stage, folder, location)
    username, _, password = LOGIN.partition(":")
    metadata = {"name": "search", "namespace": "shop"}
    login = {"username": username, "password": password}
    stage.given({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": login})
    fill(server)
    before = server.everything()
    assert len(before["books"]["documents"]) == BOOKS
    assert before["streams"] == ["logs-app"]

    store = object_stores().open(location)
    blueprint = folder / "blueprint.yaml"
    action: dict[str, Any] = {
        "object": "StatefulSet/shop/search",
        "profile": "shop/backups",
        "options": {"endpoint": guarded},
    }
    backup = stage.run(blueprint, "backup", **action)
    assert backup.is_complete, backup.error
    assert len(list(store.list(""))) == 1

    server.ask("DELETE", "books")
    server.ask("DELETE", "_data_stream/logs-app")
    server.ask("PUT", "books/_doc/1", {"title": "of another kind", "isbn": "no number"})
    server.ask("PUT", "empty/_doc/1", {"wrong": True})
    server.ask("PUT", "later/_doc/1", {"stays": True})
    restore = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert restore.is_complete, restore.error
    later = server.everything()
    assert later.pop("later")["documents"][0]["_source"] == {"stays": True}
    assert later == before

    # A missing snapshot removes nothing.
    gone = {"snapshot": {"keyValue": {"path": "opensearch/gone.tar.gz"}}}
    failed = stage.run(blueprint, "restore", artifacts=gone, **action)
    assert failed.state == "failed"
    assert server.everything()["books"] == before["books"]

    # No files remain next to the server, and no repository in it, after failures either.
    assert server.ask("GET", "_snapshot") == {}
    volumes = list((tmp_path / "stage").rglob("snapshots-search-0-*"))
    assert [path for volume in volumes for path in volume.iterdir()] == []
    assert volumes
    delete: dict[str, Any] = {"object": "Namespace/shop", "profile": "shop/backups"}
    deleted = stage.run(blueprint, "delete", artifacts=backup.artifacts, **delete)
    assert deleted.is_complete, deleted.error
    assert list(store.list("")) == []


def test_commands_in_the_readme_of_opensearch_work(
    kanister: CommandLine, folder: Path, tmp_path: Path
) -> None:
    assert folder.is_relative_to(tmp_path)
    outputs = type_all(kanister, tmp_path, "opensearch")
    assert "restore/clear" in outputs[-1]
