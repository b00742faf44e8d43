"""Versions that Compositions and packages of functions ask for."""

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
    made = [
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
    builder.add(made, default_of(made))
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
        pytest.param([composition(step())], "", "", 0, id="no version, so the stable one"),
        pytest.param([composition(step("v0.3.0"))], "", "", 0, id="served"),
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
            id="unknown: nothing falls back",
        ),
        pytest.param(
            [composition(step("latest"))],
            "",
            "",
            0,
            id="the word for no version",
        ),
        pytest.param(
            [function(f"{OURS}:v0.1.0")], "version-removed", "spec.package", 3, id="a tag of ours"
        ),
        pytest.param(
            [function(f"{THEIRS}:v0.1.0")], "", "", 0, id="a tag of others is their number"
        ),
        pytest.param(
            [function(f"{THEIRS}:v0.1.0", **{"kanister-py.io/runtime": "InProcess"})],
            "version-removed",
            "spec.package",
            3,
            id="a tag of what runs in this process",
        ),
        pytest.param(
            [composition(step("v0.1.0")), function(f"{THEIRS}:v0.1.0")],
            "",
            "",
            0,
            id="a step that names a package of others",
        ),
        pytest.param(
            [composition(step("v0.1.0", "function-other"))], "", "", 0, id="a function of others"
        ),
        pytest.param(
            [
                composition(step(functionRevisionRef={"name": "function-paint"})),
                function(f"{OURS}:v0.3.0", "FunctionRevision"),
            ],
            "",
            "",
            0,
            id="a reference to a revision that is served",
        ),
    ],
)
def test_what_a_composition_asks_for_is_judged_as_what_a_phase_does(
    context: Context, objects: list[dict[str, Any]], rule: str, path: str, code: int
) -> None:
    findings = lint(context, *objects)
    assert [(each.rule, each.path) for each in findings] == ([(rule, path)] if rule else [])
    assert exit_code_of(findings) == code


def test_a_reference_to_a_revision_of_a_removed_version_is_told_at_the_step(
    context: Context,
) -> None:
    reference = composition(step(functionRevisionRef={"name": "function-paint"}))
    revision = function(
        f"{OURS}@sha256:1", "FunctionRevision", **{"kanister-py.io/package-tag": "v0.1.0"}
    )
    findings = lint(context, reference, revision)
    assert [each.path for each in findings] == [
        "spec.pipeline[0].functionRevisionRef.name",
        "spec.image",
    ]
    assert {each.rule for each in findings} == {"version-removed"}


def test_a_finding_says_step_function_window_and_what_to_write(context: Context) -> None:
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


def test_another_release_can_be_asked(context: Context) -> None:
    later = context._replace(at={"kanister-py": parse_version("0.5.0")})
    assert [each.rule for each in lint(later, composition(step("v0.2.0")))] == ["version-removed"]


def test_an_upgrade_writes_versions_tags_and_renamed_fields_of_inputs(context: Context) -> None:
    given = {"colour": "red", "size": 1}
    asked = composition(step("v0.2.0", input=given))
    result = upgrade(context, asked, function(f"{OURS}:v0.2.0"))
    made, package = yaml.safe_load_all(result.after)
    (found,) = made["spec"]["pipeline"]
    assert found["functionRef"]["version"] == "v0.3.0"
    assert found["input"] == {"color": "red", "size": 1}
    assert package["spec"]["package"] == f"{OURS}:v0.3.0"
    assert result.left == ()
    assert [(each.before, each.after) for each in result.changes] == [("v0.2.0", "v0.3.0")] * 2


def test_the_input_of_a_step_follows_the_tag_of_its_package(context: Context) -> None:
    asked = composition(step(input={"colour": "red"}))
    result = upgrade(context, asked, function(f"{OURS}:v0.2.0"))
    made, package = yaml.safe_load_all(result.after)
    assert made["spec"]["pipeline"][0] == {
        "step": "paint",
        "functionRef": {"name": "function-paint"},
        "input": {"color": "red"},
    }
    assert package["spec"]["package"].endswith(":v0.3.0")


def test_a_field_that_is_there_under_both_names_is_left_to_its_author(context: Context) -> None:
    asked = composition(step("v0.2.0", input={"colour": "red", "color": "blue"}))
    result = upgrade(context, asked)
    assert result.after == result.before
    assert "color is given already, under its new name" in result.left[0].message
