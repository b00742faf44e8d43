from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.versions.catalogue import Catalogue, RecordModel, parse_catalogue
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import parse_document
from tests.versions_record import changes_refused

NOW = parse_version("0.3.0")

HEAD = """\
apiVersion: kanister-py.io/v1alpha1
kind: FunctionVersions
releases:
  - version: 0.1.0
    date: 2026-01-01
  - version: 0.2.0
  - version: 0.3.0
  - version: 0.4.0
  - version: 0.5.0
"""

GOOD = (
    HEAD
    + """\
functions:
  KubeTask:
    kind: Blueprint
    versions:
      v0.0.0:
        since: 0.1.0
        deprecatedIn: 0.2.0
        removedIn: 0.4.0
        replacement: v0.1.0
        renamedArgs: {image: imageName}
        message: it waits for ever
      v0.1.0:
        since: 0.2.0
        annotations: {kanister-py.io/stable: "true"}
"""
)


def read(versions: str, release: str = "0.3.0") -> Catalogue:
    body = indent(dedent(versions), "      ")
    text = f"{HEAD}functions:\n  KubeTask:\n    kind: Blueprint\n    versions:\n{body}"
    return parse_catalogue(text, "versions.yaml", parse_version(release))


def refusals(text: str, release: str = "0.3.0") -> list[tuple[int, str, str]]:
    with pytest.raises(InvalidDocument) as refused:
        parse_catalogue(text, "versions.yaml", parse_version(release))
    return [(problem.line, problem.path, problem.message) for problem in refused.value.problems]


def test_record_has_the_support_of_every_version() -> None:
    catalogue = parse_catalogue(GOOD, "versions.yaml", NOW)
    listed = catalogue.listed("KubeTask")
    old = listed[parse_version("v0.0.0")]
    assert catalogue.functions["KubeTask"].stable == parse_version("0.1.0")
    assert old.removed_in == parse_version("0.4.0")
    assert old.replacement == parse_version("0.1.0")
    assert old.renamed_args == {"image": "imageName"}
    assert str(catalogue.releases[0].date) == "2026-01-01"
    assert catalogue.listed("Unheard") == {}


STABLE = 'annotations: {kanister-py.io/stable: "true"}'


@pytest.mark.parametrize(
    ("versions", "path", "want"),
    [
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, {STABLE}, replacment: v0.1.0}}",
            'functions.KubeTask.versions["v0.0.0"].replacment',
            "Unknown key 'replacment'; did you mean replacement?",
            id="an unknown key",
        ),
        pytest.param(
            f'"1.0": {{since: 0.1.0, {STABLE}}}',
            'functions.KubeTask.versions["1.0"]',
            "'1.0' is not a version: it has too few numbers; write v1.0.0 or the range ~1.0",
            id="a version 1.0",
        ),
        pytest.param(
            f"latest: {{since: 0.1.0, {STABLE}}}",
            "functions.KubeTask.versions.latest",
            "'latest' is not a version: it is not SemVer; "
            "write a version such as v1.2.3 or v1.2.3-rc.1",
            id="a version latest",
        ),
        pytest.param(
            f"v1.0.0+build: {{since: 0.1.0, {STABLE}}}",
            'functions.KubeTask.versions["v1.0.0+build"]',
            "'v1.0.0+build' is not a version: build metadata is not allowed; write v1.0.0",
            id="build metadata",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, {STABLE}}}
            0.0.0: {{since: 0.1.0}}
            """,
            'functions.KubeTask.versions["0.0.0"]',
            "The same version as v0.0.0",
            id="one version in two spellings",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, {STABLE}}}
            v0.1.0: {{since: 0.1.0, deprecatedIn: 0.2.0, removedIn: 0.3.0}}
            """,
            'functions.KubeTask.versions["v0.1.0"].removedIn',
            "Removed 1 release after 0.2.0, where it was deprecated; at least 2 are due, "
            "so 0.4.0 at the earliest",
            id="a window that is too short",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, {STABLE}, removedIn: 0.5.0}}",
            'functions.KubeTask.versions["v0.0.0"].removedIn',
            "Removed without deprecatedIn; deprecate it first",
            id="removed without a warning",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.9.0, {STABLE}}}",
            'functions.KubeTask.versions["v0.0.0"].since',
            "Release 0.9.0 is not in releases; add it there",
            id="a release that is not planned",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.3.0, deprecatedIn: 0.2.0, {STABLE}}}",
            'functions.KubeTask.versions["v0.0.0"].deprecatedIn',
            "Deprecated before it exists, since 0.3.0",
            id="deprecated before it exists",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, {STABLE}, deprecatedIn: 0.3.0, replacement: v0.7.0}}",
            'functions.KubeTask.versions["v0.0.0"].replacement',
            "Version v0.7.0 does not exist; use one of v0.0.0",
            id="a replacement that does not exist",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.3.0, replacement: v0.1.0}}
            v0.1.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.3.0}}
            v0.2.0: {{since: 0.2.0, {STABLE}}}
            """,
            'functions.KubeTask.versions["v0.0.0"].replacement',
            "v0.1.0 is itself removed, in 0.3.0",
            id="a replacement that is itself removed",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, deprecatedIn: 0.2.0, replacement: v0.1.0}}
            v0.1.0: {{since: 0.1.0, deprecatedIn: 0.2.0, replacement: v0.0.0}}
            v0.2.0: {{since: 0.2.0, {STABLE}}}
            """,
            'functions.KubeTask.versions["v0.0.0"].replacement',
            "The replacements of v0.0.0 form a cycle",
            id="a cycle of replacements",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, {STABLE}}}
            v0.1.0: {{since: 0.1.0, {STABLE}}}
            """,
            'functions.KubeTask.versions["v0.1.0"].annotations["kanister-py.io/stable"]',
            "Marked stable, as v0.0.0 is; only one version can be stable",
            id="two stable versions",
        ),
        pytest.param(
            f"v0.1.0-rc.1: {{since: 0.1.0, {STABLE}}}",
            "functions.KubeTask.versions",
            "The stable version v0.1.0-rc.1 is a pre-release",
            id="a stable pre-release",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, {STABLE}, deprecatedIn: 0.1.0, removedIn: 0.3.0}}",
            "functions.KubeTask.versions",
            "The stable version v0.0.0 is removed",
            id="a stable version that is removed",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, deprecatedIn: 0.2.0, {STABLE}}}",
            "functions.KubeTask.versions",
            "The stable version v0.0.0 is deprecated; make another version the stable one",
            id="a stable version that is deprecated",
        ),
        pytest.param(
            "v0.1.0: {since: 0.1.0}",
            "functions.KubeTask.versions",
            "No version is stable and there is no v0.0.0: phases without a version "
            'fail; mark one with kanister-py.io/stable: "true"',
            id="no version for phases without one",
        ),
        pytest.param(
            'v0.0.0: {since: 0.1.0, annotations: {kanister-py.io/stabel: "true"}}',
            'functions.KubeTask.versions["v0.0.0"].annotations["kanister-py.io/stabel"]',
            "Unknown annotation; did you mean kanister-py.io/stable?",
            id="a misspelt mark",
        ),
        pytest.param(
            "v0.0.0: {since: 0.1.0, annotations: {kanister-py.io/stable: true}}",
            'functions.KubeTask.versions["v0.0.0"].annotations["kanister-py.io/stable"]',
            "Must be text, found true; put it in quotes if that is the value",
            id="a mark that is not a string",
        ),
        pytest.param(
            f"v0.0.0: {{since: 0.1.0, {STABLE}, reads: ['BackupData@v9.9.9']}}",
            'functions.KubeTask.versions["v0.0.0"].reads[0]',
            "BackupData@v9.9.9 does not exist",
            id="a reader of nothing",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.4.0}}
            v0.1.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.5.0, reads: [KubeTask@0.0.0]}}
            v0.2.0: {{since: 0.2.0, {STABLE}}}
            """,
            'functions.KubeTask.versions["v0.1.0"].reads[0]',
            "v0.1.0 is removed in 0.5.0, too soon after KubeTask@v0.0.0, which it reads and which "
            "is removed in 0.4.0; a reader must stay at least 2 releases longer",
            id="a reader that is removed too early",
        ),
        pytest.param(
            f"""\
            v0.0.0: {{since: 0.1.0, {STABLE}}}
            v0.1.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.5.0, reads: [KubeTask@0.0.0]}}
            """,
            'functions.KubeTask.versions["v0.1.0"].reads[0]',
            "v0.1.0 is removed in 0.5.0, but KubeTask@v0.0.0, which it reads, is not: "
            "its results could no longer be restored",
            id="a reader that is removed before its source",
        ),
    ],
)
def test_inconsistent_record_is_refused(versions: str, path: str, want: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        read(versions)
    messages = {problem.path: problem.message for problem in refused.value.problems}
    assert messages[path] == want
    assert all(problem.line > 0 for problem in refused.value.problems)


def test_every_problem_is_reported() -> None:
    text = GOOD.replace("replacement: v0.1.0", "replacement: v0.9.0").replace(
        "version: 0.3.0", "version: 0.2.0"
    )
    text += "  Other:\n    kind: Blueprints\n    versions: {v1: {since: 0.1.0}}\n"
    paths = [path for _, path, _ in refusals(text)]
    assert paths == [
        "releases[2].version",
        'functions.KubeTask.versions["v0.0.0"].replacement',
        "functions.Other.kind",
        "functions.Other.versions.v1",
    ]


def test_invalid_key_does_not_hide_other_problems() -> None:
    text = GOOD.replace("message: it waits for ever", "massage: it waits").replace(
        "removedIn: 0.4.0", "removedIn: 0.3.0"
    )
    text += '      "1.0": {since: 7.0.0}\n'
    assert [path for _, path, _ in refusals(text)] == [
        'functions.KubeTask.versions["v0.0.0"].removedIn',
        'functions.KubeTask.versions["v0.0.0"].massage',
        'functions.KubeTask.versions["1.0"]',
    ]


def test_invalid_version_does_not_count_as_missing() -> None:
    text = GOOD.replace("      v0.1.0:\n", '      "0.1":\n')
    assert [path for _, path, _ in refusals(text)] == ['functions.KubeTask.versions["0.1"]']


def test_record_that_is_not_utf8_is_reported_with_its_place() -> None:
    with pytest.raises(InvalidDocument, match=r"versions\.yaml:\d+:\d+: Not UTF-8"):
        parse_catalogue(GOOD.encode() + b"# \xff\n", "versions.yaml", NOW)


def test_empty_record_is_reported() -> None:
    text = "apiVersion: kanister-py.io/v1alpha1\nkind: FunctionVersions\n"
    assert [(path, message) for _, path, message in refusals(text)] == [
        ("functions", "Must be given"),
        ("releases", "Must be given"),
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
)


@given(ANYTHING)
def test_any_file_is_parsed_or_refused(
    value: object,
) -> None:
    text = json.dumps({"apiVersion": "kanister-py.io/v1alpha1", "functions": value})
    with pytest.raises(InvalidDocument) as refused:
        parse_catalogue(text, "versions.yaml", NOW)
    assert refused.value.problems


def test_released_version_must_stay_in_the_record() -> None:
    before = parse_catalogue(GOOD, "versions.yaml", NOW)
    after = read(f"v0.1.0: {{since: 0.2.0, {STABLE}}}")
    assert [change.path for change in changes_refused(before, after)] == [
        'functions.KubeTask.versions["v0.0.0"]'
    ]
    again = read(f"v0.0.0: {{since: 0.3.0}}\nv0.1.0: {{since: 0.2.0, {STABLE}}}")
    assert "since of v0.0.0 was released as 0.1.0" in str(changes_refused(before, again)[0])


def test_stable_mark_moves_only_from_a_deprecated_version() -> None:
    before = read(f"v0.0.0: {{since: 0.1.0, {STABLE}}}\nv0.1.0: {{since: 0.2.0}}")
    silent = read(f"v0.0.0: {{since: 0.1.0}}\nv0.1.0: {{since: 0.2.0, {STABLE}}}")
    fair = read(
        f"v0.0.0: {{since: 0.1.0, deprecatedIn: 0.3.0}}\nv0.1.0: {{since: 0.2.0, {STABLE}}}"
    )
    assert "was stable in the last release" in str(changes_refused(before, silent)[0])
    assert changes_refused(before, fair) == []


def test_deprecation_window_is_never_shortened() -> None:
    stable = f"v0.1.0: {{since: 0.1.0, {STABLE}}}"
    before = read(f"v0.0.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.5.0}}\n{stable}")
    after = read(f"v0.0.0: {{since: 0.1.0, deprecatedIn: 0.1.0, removedIn: 0.4.0}}\n{stable}")
    assert "was promised until 0.5.0" in str(changes_refused(before, after)[0])


class _Schema(GenerateJsonSchema):
    """JSON Schema generator that leaves out generated titles and null alternatives."""

    def field_title_should_be_set(self, schema: object) -> bool:  # the library's
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def published_schema() -> dict[str, Any]:
    """Build the JSON Schema of versions.yaml for editors and other tools."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://kanister-py.io/schemas/versions.schema.json",
        **RecordModel.model_json_schema(schema_generator=_Schema),
        "title": "versions.yaml of kanister_py",
    }


@pytest.fixture(scope="session")
def schema(repository: Path) -> Any:
    file = repository / "kanister_py/versions.schema.json"
    if os.environ.get("KANISTER_PY_GOLDEN") == "write":
        file.write_text(json.dumps(published_schema(), indent=1) + "\n", encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def test_published_schema_equals_that_of_the_models(schema: Any) -> None:
    assert schema == published_schema(), (
        "run KANISTER_PY_GOLDEN=write pytest tests/core/versions/test_catalogue.py"
    )


def plain(text: str) -> Any:
    return parse_document(text).value


def test_published_schema_accepts_the_record(repository: Path, schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(plain(GOOD), schema)
    jsonschema.validate(plain((repository / "versions.yaml").read_text()), schema)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        pytest.param("removedIn: 0.4.0", "removed_in: 0.4.0", id="an unknown key"),
        pytest.param("since: 0.2.0", "since: 0.2", id="a release with two numbers"),
        pytest.param("      v0.1.0:", "      v0.1:", id="a version with two numbers"),
        pytest.param("kind: Blueprint", "kind: Function", id="an unknown kind"),
        pytest.param("        since: 0.2.0\n", "", id="a version without since"),
        pytest.param("date: 2026-01-01", "date: tomorrow", id="an invalid date"),
        pytest.param('stable: "true"', "stable: true", id="a mark that is not a string"),
        pytest.param("replacement: v0.1.0", "replacement: latest", id="a word for a version"),
    ],
)
def test_schema_and_parser_refuse_the_same(good: str, bad: str, schema: Any) -> None:
    assert good in GOOD
    text = GOOD.replace(good, bad, 1)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain(text), schema)
    assert refusals(text)
