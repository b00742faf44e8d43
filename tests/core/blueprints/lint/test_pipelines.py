"""Lint and upgrade of Compositions and packages of functions."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kanister_py.cli.lint import exit_code_of
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.upgrade import Upgraded, upgrade_sources
from kanister_py.core.compositions.model import check_schema, parse_composition
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistryBuilder,
    default_of,
)
from kanister_py.core.registry.entries import (
    Source as Package,
)
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version
from kanister_py.core.yaml.documents import parse_document

LIVES = {
    "v0.1.0": Listing(
        deprecated_in=parse_version("0.1.0"),
        removed_in=parse_version("0.3.0"),
        replacement=parse_version("v0.3.0"),
    ),
    "v0.2.0": Listing(
        deprecated_in=parse_version("0.3.0"),
        removed_in=parse_version("0.5.0"),
        replacement=parse_version("v0.3.0"),
        renamed_args={"colour": "color"},
    ),
    "v0.3.0": Listing(),
}


@pytest.fixture
def context() -> Context:
    ours = Package("kanister-py", parse_version("0.3.0"))
    entries = [
        FunctionEntry(
            "function-paint",
            parse_version(text),
            FunctionKind.COMPOSITION,
            ours,
            None if text == "v0.1.0" else object,
            listing,
            is_stable=text == "v0.3.0",
        )
        for text, listing in LIVES.items()
    ]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(entries, default_of(entries))
    return Context(builder.build())


def composition(*steps: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {"pipeline": list(steps)},
    }


def step(version: str = "", name: str = "function-paint", **more: Any) -> dict[str, Any]:
    reference = {"name": name, **({"version": version} if version else {})}
    return {"step": "paint", "functionRef": reference, **more}


def function(package: str, kind: str = "Function", **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": kind,
        "metadata": {"name": "function-paint", "annotations": annotations},
        "spec": {"package" if kind == "Function" else "image": package},
    }


OURS = "xpkg.example.org/kanister-py/function-paint"
THEIRS = "xpkg.example.org/painters/function-paint"


def lint(context: Context, *objects: dict[str, Any]) -> list[Finding]:
    source = Source("apps.yaml", yaml.safe_dump_all(objects))
    return list(lint_sources([source], context).findings)


def upgrade(context: Context, *objects: dict[str, Any]) -> Upgraded:
    (result,) = upgrade_sources([Source("apps.yaml", yaml.safe_dump_all(objects))], context)
    return result


@pytest.mark.parametrize(
    ("objects", "rule", "path", "code"),
    [
        pytest.param([composition(step())], "", "", 0, id="no version"),
        pytest.param([composition(step("v0.3.0"))], "", "", 0, id="supported"),
        pytest.param(
            [composition(step("v0.2.0"))],
            "version-deprecated",
            "spec.pipeline[0].functionRef.version",
            2,
            id="deprecated",
        ),
        pytest.param(
            [composition(step("v0.1.0"))],
            "version-removed",
            "spec.pipeline[0].functionRef.version",
            3,
            id="removed",
        ),
        pytest.param(
            [composition(step("v9.9.9"))],
            "version-not-found",
            "spec.pipeline[0].functionRef.version",
            1,
            id="unknown, without a fallback",
        ),
        pytest.param(
            [composition(step("latest"))],
            "",
            "",
            0,
            id="latest",
        ),
        pytest.param(
            [function(f"{OURS}:v0.1.0")],
            "version-removed",
            "spec.package",
            3,
            id="tag of our package",
        ),
        pytest.param(
            [function(f"{THEIRS}:v0.1.0")], "", "", 0, id="tag of another vendor's package"
        ),
        pytest.param(
            [function(f"{THEIRS}:v0.1.0", **{"kanister-py.io/runtime": "InProcess"})],
            "version-removed",
            "spec.package",
            3,
            id="tag of a package that runs in process",
        ),
        pytest.param(
            [composition(step("v0.1.0")), function(f"{THEIRS}:v0.1.0")],
            "",
            "",
            0,
            id="step with another vendor's package",
        ),
        pytest.param(
            [composition(step("v0.1.0", "function-other"))],
            "",
            "",
            0,
            id="another vendor's function",
        ),
        pytest.param(
            [
                composition(step(functionRevisionRef={"name": "function-paint"})),
                function(f"{OURS}:v0.3.0", "FunctionRevision"),
            ],
            "",
            "",
            0,
            id="reference to a supported revision",
        ),
    ],
)
def test_versions_of_composition_functions_are_checked(
    context: Context, objects: list[dict[str, Any]], rule: str, path: str, code: int
) -> None:
    findings = lint(context, *objects)
    assert [(finding.rule, finding.path) for finding in findings] == (
        [(rule, path)] if rule else []
    )
    assert exit_code_of(findings) == code


def test_reference_to_a_revision_of_a_removed_version_is_reported_at_the_step(
    context: Context,
) -> None:
    reference = composition(step(functionRevisionRef={"name": "function-paint"}))
    revision = function(
        f"{OURS}@sha256:1", "FunctionRevision", **{"kanister-py.io/package-tag": "v0.1.0"}
    )
    findings = lint(context, reference, revision)
    assert [finding.path for finding in findings] == [
        "spec.pipeline[0].functionRevisionRef.name",
        "spec.image",
    ]
    assert {finding.rule for finding in findings} == {"version-removed"}


def test_version_in_the_name_of_a_built_in_revision_is_checked(
    context: Context,
) -> None:
    pinned_step = step(
        functionRevisionRef={"name": "function-paint-v0.2.0"}, input={"colour": "red"}
    )
    (finding,) = lint(context, composition(pinned_step))
    assert (finding.rule, finding.path) == (
        "version-deprecated",
        "spec.pipeline[0].functionRevisionRef.name",
    )
    upgraded = upgrade(context, composition(pinned_step))
    assert "name: function-paint-v0.3.0" in upgraded.after
    assert "color: red" in upgraded.after
    of_a_cluster = step(functionRevisionRef={"name": "function-paint-1a2b3c4"})
    assert lint(context, composition(of_a_cluster)) == []


@pytest.mark.parametrize(
    ("tag", "annotations", "is_strict", "is_found"),
    [
        pytest.param("v0.8.2", {}, True, True, id="another release"),
        pytest.param("v0.8.2", {}, False, False, id="not strict"),
        pytest.param("v1.4.0", {}, True, False, id="a tested release"),
        pytest.param(
            "v0.8.2",
            {"render.crossplane.io/runtime": "Development"},
            True,
            False,
            id="another runtime",
        ),
        pytest.param(
            "v0.3.0", {"kanister-py.io/runtime": "InProcess"}, True, False, id="in process"
        ),
    ],
)
def test_release_without_a_stand_in_is_an_error_in_strict_mode(
    context: Context, tag: str, annotations: dict[str, str], is_strict: bool, is_found: bool
) -> None:
    (family,) = context.registry
    held = Listing(stands_for={"crossplane-contrib/function-paint": "~1.4"})
    entries = [entry._replace(listing=held) for entry in family if str(entry.version) == "v0.3.0"]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(entries, default_of(entries))
    strict = context._replace(registry=builder.build(), is_strict=is_strict)
    package = f"xpkg.example.org/crossplane-contrib/function-paint:{tag}"
    findings = lint(strict, function(package, **annotations))
    assert [(finding.rule, finding.path) for finding in findings] == (
        [("package-not-stood-for", "spec.package")] if is_found else []
    )


def test_finding_has_step_function_releases_and_fix(context: Context) -> None:
    (finding,) = lint(context, composition(step("v0.1.0")))
    assert (finding.phase, finding.function, finding.version) == (
        "paint",
        "function-paint",
        "v0.1.0",
    )
    assert (finding.replacement, finding.removed_in) == ("v0.3.0", "0.3.0")
    assert finding.message.endswith(
        "set functionRef.version to v0.3.0, as `kanister-py upgrade` does"
    )


def test_findings_depend_on_the_given_release(context: Context) -> None:
    later = context._replace(at={"kanister-py": parse_version("0.5.0")})
    assert [finding.rule for finding in lint(later, composition(step("v0.2.0")))] == [
        "version-removed"
    ]


def test_upgrade_changes_versions_tags_and_input_fields(context: Context) -> None:
    step_input = {"colour": "red", "size": 1}
    before = composition(step("v0.2.0", input=step_input))
    result = upgrade(context, before, function(f"{OURS}:v0.2.0"))
    after, package = yaml.safe_load_all(result.after)
    (new_step,) = after["spec"]["pipeline"]
    assert new_step["functionRef"]["version"] == "v0.3.0"
    assert new_step["input"] == {"color": "red", "size": 1}
    assert package["spec"]["package"] == f"{OURS}:v0.3.0"
    assert result.left == ()
    assert [(change.before, change.after) for change in result.changes] == [
        ("v0.2.0", "v0.3.0")
    ] * 2


def test_upgrade_changes_the_input_of_a_step_with_the_tag_of_its_package(context: Context) -> None:
    before = composition(step(input={"colour": "red"}))
    result = upgrade(context, before, function(f"{OURS}:v0.2.0"))
    after, package = yaml.safe_load_all(result.after)
    assert after["spec"]["pipeline"][0] == {
        "step": "paint",
        "functionRef": {"name": "function-paint"},
        "input": {"color": "red"},
    }
    assert package["spec"]["package"].endswith(":v0.3.0")


def test_upgrade_does_not_overwrite_a_field_with_the_new_name(context: Context) -> None:
    before = composition(step("v0.2.0", input={"colour": "red", "color": "blue"}))
    result = upgrade(context, before)
    assert result.after == result.before
    assert "color is already given under its new name" in result.left[0].message


FORM = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  mode: Pipeline
  pipeline:
  - step: paint
    functionRef: {name: function-paint}
    timeout: 5s
  - step: dry
    functionRef: {name: function-paint}
    input: {apiVersion: example.org/v1, kind: Drying}
"""
AT = "spec.pipeline[0]"


@pytest.fixture
def reading(context: Context) -> Context:
    return context._replace(schema_checks={"Composition": check_schema})


def lint_text(context: Context, text: str) -> list[Finding]:
    return list(lint_sources([Source("apps.yaml", text)], context).findings)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("", "", [], id="fine"),
        pytest.param(
            "mode: Pipeline",
            "mode: Pipelne",
            [(6, "composition-invalid", "spec.mode", "Pipeline or Resources, found 'Pipelne'")],
            id="a misspelt mode",
        ),
        pytest.param(
            "functionRef: {name: function-paint}\n    timeout",
            "functionRf: {name: function-paint}\n    timeout",
            [
                (8, "composition-invalid", f"{AT}.functionRef", "Must be given"),
                (9, "unknown-key", f"{AT}.functionRf", "did you mean functionRef"),
            ],
            id="a misspelt key of a step",
        ),
        pytest.param(
            "step: dry",
            "step: paint",
            [(11, "composition-invalid", "spec.pipeline[1].step", "Another step has the name")],
            id="two steps of one name",
        ),
        pytest.param(
            "timeout: 5s",
            'when: "observed.foo ="',
            [(10, "composition-invalid", f"{AT}.when", "`=` is not valid here")],
            id="a condition with a syntax error",
        ),
        pytest.param(
            "timeout: 5s",
            'when: "1 + 1"',
            [(10, "composition-invalid", f"{AT}.when", "is true or false, found '1 + 1'")],
            id="a condition that is a number",
        ),
        pytest.param(
            "timeout: 5s",
            "maxIterations: 99",
            [(10, "composition-invalid", f"{AT}.maxIterations", "at most 25, found 99")],
            id="too many iterations",
        ),
        pytest.param(
            "timeout: 5s",
            "timeout: 5x",
            [(10, "composition-invalid", f"{AT}.timeout", 'unknown unit "x"')],
            id="an invalid timeout",
        ),
        pytest.param(
            "timeout: 5s",
            "allowedExtraResources: [{apiVersion: v1, kynd: Secret}]",
            [
                (
                    10,
                    "composition-invalid",
                    f"{AT}.allowedExtraResources[0].kind",
                    "Must be given",
                ),
                (
                    10,
                    "composition-invalid",
                    f"{AT}.allowedExtraResources[0].kynd",
                    "did you mean kind?",
                ),
            ],
            id="a misspelt key of allowedExtraResources",
        ),
        pytest.param(
            "  compositeTypeRef: {apiVersion: example.org/v1, kind: App}\n",
            "",
            [
                (4, "composition-invalid", "spec.compositeTypeRef", "Must be given"),
            ],
            id="no composite type",
        ),
        pytest.param(
            "{name: function-paint}\n    timeout",
            "{name: function-pant}\n    timeout",
            [(9, "step-function-unknown", f"{AT}.functionRef.name", "did you mean function-paint")],
            id="similar to a built-in function",
        ),
        pytest.param(
            "{name: function-paint}\n    timeout",
            "{name: function-kcl}\n    timeout",
            [],
            id="another vendor's function",
        ),
        pytest.param(
            "{name: function-paint}\n    timeout",
            "{name: function-paint, version: two}\n    timeout",
            [(9, "version-invalid", f"{AT}.functionRef.version", "'two' is not a version")],
            id="an invalid version, reported once",
        ),
    ],
)
def test_lint_reports_compositions_that_render_refuses(
    reading: Context, before: str, after: str, expected: list[tuple[int, str, str, str]]
) -> None:
    text = FORM.replace(before, after) if before else FORM
    findings = lint_text(reading, text)
    assert [(finding.line, finding.rule, finding.path) for finding in findings] == [
        row[:3] for row in expected
    ]
    for finding, (*_, message) in zip(findings, expected, strict=True):
        assert message in finding.message
    if exit_code_of(findings):
        with pytest.raises(InvalidDocument):
            parse_composition(parse_document(text))
    else:
        parse_composition(parse_document(text))


def test_finding_in_a_list_has_the_path_in_the_list(reading: Context) -> None:
    broken = yaml.safe_load(FORM.replace("Pipeline", "Pipelne"))
    (finding,) = lint(reading, {"apiVersion": "v1", "kind": "List", "items": [broken]})
    assert finding.path == "items[0].spec.mode"


def test_name_of_a_function_in_the_files_is_not_misspelt(reading: Context) -> None:
    theirs = function("xpkg.example.org/painters/function-pant:v1.0.0")
    theirs["metadata"]["name"] = "function-pant"
    misspelt = yaml.safe_load(FORM.replace("function-paint", "function-pant"))
    assert lint(reading, misspelt, theirs) == []
