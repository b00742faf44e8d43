"""Lifecycles of versions in packages."""

from __future__ import annotations

import json

import pytest

from kanister_py.core.errors import FunctionVersionRemoved, InvalidDocument
from kanister_py.core.registry.choose import RevisionRequest, choose_revision
from kanister_py.core.registry.entries import FunctionRevision, Registry, RegistryBuilder
from kanister_py.core.revisions.lifecycles import read_lifecycle, with_lifecycles
from kanister_py.core.versions.semver import parse_version

RECORD = json.dumps(
    {
        "releases": [{"version": version} for version in ("1.0.0", "1.1.0", "1.2.0", "1.3.0")],
        "versions": {
            "v1.0.0": {
                "since": "1.0.0",
                "deprecatedIn": "1.0.0",
                "removedIn": "1.2.0",
                "replacement": "v1.2.0",
            },
            "v1.1.0": {"since": "1.1.0", "deprecatedIn": "1.1.0", "removedIn": "1.3.0"},
            "v1.2.0": {"since": "1.2.0"},
        },
    }
)


def revision(number: int, version: str, lifecycle: str = "") -> FunctionRevision:
    return FunctionRevision(
        "function-a",
        f"function-a-{number}",
        number,
        is_healthy=True,
        endpoint="dns:///a:9443",
        version=parse_version(version),
        lifecycle=lifecycle,
    )


def registry(*revisions: FunctionRevision) -> Registry[FunctionRevision]:
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(with_lifecycles(revisions))
    return builder.build()


def test_record_of_the_newest_package_applies_to_older_ones() -> None:
    functions = registry(
        revision(1, "v1.0.0"), revision(2, "v1.1.0", "{}"), revision(3, "v1.2.0", RECORD)
    )
    assert choose_revision(functions, "function-a").notices == ()
    old = choose_revision(functions, "function-a", RevisionRequest(version="v1.1.0"))
    (notice,) = old.notices
    assert notice.message.startswith("function-a v1.1.0 is deprecated since release 1.1.0")
    with pytest.raises(FunctionVersionRemoved, match=r"set functionRef.version to v1\.2\.0"):
        choose_revision(functions, "function-a", RevisionRequest(version="v1.0.0"))


def test_without_a_record_every_version_is_supported() -> None:
    functions = registry(revision(1, "v1.0.0"), revision(2, "v1.1.0"))
    request = RevisionRequest(version="v1.0.0")
    assert choose_revision(functions, "function-a", request).notices == ()


def test_a_window_that_is_too_short_is_refused() -> None:
    record = json.loads(RECORD)
    record["versions"]["v1.0.0"]["removedIn"] = "1.1.0"
    with pytest.raises(InvalidDocument, match=r"so 1\.2\.0 at the earliest"):
        read_lifecycle(json.dumps(record))


def test_invalid_record_is_reported() -> None:
    with pytest.raises(InvalidDocument, match="did you mean versions"):
        read_lifecycle('{"releases": [{"version": "1.0.0"}], "version": {}}')
