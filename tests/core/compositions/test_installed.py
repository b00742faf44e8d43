"""Installed functions: packages, runtimes and built-in substitutes."""

from __future__ import annotations

import pytest

from kanister_py.core.compositions.installed import (
    built_in,
    installed,
    substitutes_used,
)
from kanister_py.core.errors import FunctionVersionRemoved, InvalidDocument, UsageError
from kanister_py.core.registry.choose import RevisionRequest, choose_revision, choose_version
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.revisions.substitutes import repository_of
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import Document, parse_documents
from kanister_py.wiring import read_functions


@pytest.mark.parametrize(
    ("package", "want"),
    [
        (
            "xpkg.crossplane.io/crossplane-contrib/function-a:v0.1.0",
            "crossplane-contrib/function-a",
        ),
        ("localhost:5000/crossplane-contrib/function-a", "crossplane-contrib/function-a"),
        ("crossplane-contrib/function-a@sha256:00", "crossplane-contrib/function-a"),
        ("registry.example.org/a/b/c:v1@sha256:00", "a/b/c"),
        ("function-a", "function-a"),
        ("", ""),
    ],
)
def test_repository_has_no_host_tag_and_digest(package: str, want: str) -> None:
    assert repository_of(package) == want


def test_every_composition_function_is_offered_under_both_names() -> None:
    registry = built_in(read_functions().registry).registry()
    for name in ("function-auto-ready", "crossplane-contrib-function-auto-ready"):
        revision = choose_revision(registry, name).chosen
        assert revision.endpoint == "builtin:function-auto-ready@v0.1.0"
        assert revision.is_routable
    assert "KubeTask" not in registry


@pytest.mark.parametrize(
    "requested", ["", ">=0.1", ">=0.2", "<0.2", ">=0.4", "v0.5.0", "v0.2.0", ">=0.5", "<0.3 >=0.2"]
)
def test_step_gets_the_same_version_as_a_phase(requested: str) -> None:
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    leaving = Listing(deprecated_in=parse_version("0.4.0"), removed_in=parse_version("0.6.0"))
    lives = {
        "v0.1.0": Listing(removed_in=parse_version("0.3.0")),
        "v0.2.0": Listing(),
        "v0.3.0": Listing(),
        "v0.4.0": Listing(),
        "v0.5.0": leaving,
        "v0.6.0": Listing(since=parse_version("0.5.0")),
    }
    built = [
        FunctionEntry(
            "function-paint",
            parse_version(text),
            FunctionKind.COMPOSITION,
            source,
            "module:Class",
            listing,
            text == "v0.3.0",
        )
        for text, listing in lives.items()
    ]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(built, default_of(built))
    entries = builder.build()
    revisions = built_in(entries).registry()

    def version_of_phase() -> str:
        return str(choose_version(entries, "function-paint", requested, strict=True).chosen.version)

    def version_of_step() -> str:
        request = RevisionRequest(version=requested)
        return str(choose_revision(revisions, "function-paint", request).chosen.version)

    try:
        want = version_of_phase()
    except UsageError:
        with pytest.raises(UsageError):
            version_of_step()
    else:
        assert version_of_step() == want


def test_removed_built_in_version_names_the_field_to_change() -> None:
    source = Source("kanister-py", parse_version("0.4.0"), is_ours=True)
    gone = Listing(removed_in=parse_version("0.3.0"), replacement=parse_version("v0.2.0"))
    entry = FunctionEntry(
        "function-paint", parse_version("v0.1.0"), FunctionKind.COMPOSITION, source, None, gone
    )
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add([entry])
    revisions = built_in(builder.build()).registry()
    with pytest.raises(FunctionVersionRemoved) as caught:
        choose_revision(revisions, "function-paint", RevisionRequest("function-paint-v0.1.0"))
    assert "set the version in functionRevisionRef.name to v0.2.0" in caught.value.message


def test_substitute_is_reported_once() -> None:
    names = ["function-a", "crossplane-contrib-function-a", "crossplane-contrib-function-a"]
    assert [notice.function for notice in substitutes_used(names)] == ["function-a"]


@pytest.mark.parametrize(("size", "want"), [("32Mi", 32 << 20), ("1000", 1000), ("", 0)])
def test_function_sets_the_limit_for_its_responses(size: str, want: int) -> None:
    [revision] = installed(_function(size), read_functions().registry).revisions
    assert revision.answer_limit_bytes == want


@pytest.mark.parametrize("size", ["much", "-1", "1m"])
def test_invalid_size_is_a_problem_of_the_document(size: str) -> None:
    with pytest.raises(InvalidDocument, match=r"max-answer-size.*is not a quantity"):
        installed(_function(size), read_functions().registry)


def _function(size: str) -> list[Document]:
    text = f"""
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-x
  annotations:
    render.crossplane.io/runtime: Development
    kanister-py.io/max-answer-size: "{size}"
spec: {{package: example.org/function-x:v1.0.0}}
"""
    return parse_documents(text, "functions.yaml")
