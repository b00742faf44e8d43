from __future__ import annotations

import pytest

from kanister_py.core.blueprints.lint.check import lint_sources, rules
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source

HEAD = "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\n"
ONE = "actions: {a: {phases: [{func: Greet, name: x}]}}\n"


def lint(context: Context, text: str | bytes) -> list[Finding]:
    return list(lint_sources([Source("b.yaml", text)], context).findings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            HEAD.replace("/v1alpha1", "/v2") + ONE,
            [("api-version", 1, "error")],
            id="an unknown apiVersion",
        ),
        pytest.param(
            "kind: Blueprint\nmetadata: {name: b}\n" + ONE,
            [("api-version", 1, "error")],
            id="no apiVersion",
        ),
        pytest.param(
            "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\n" + ONE,
            [("blueprint-without-name", 1, "warning")],
            id="no name",
        ),
        pytest.param(
            HEAD
            + "actions:\n  a:\n    phases:\n    - func: Greet\n      name: x\n      objects:\n"
            + "        a: {kind: Secrt, name: one, namespace: two}\n"
            + "        b: {name: one, namespace: two}\n"
            + "        c: {kind: configMap, name: one, namespace: two}\n",
            [("object-not-fetched", 10, "warning"), ("object-not-fetched", 11, "warning")],
            id="an object of another kind",
        ),
        pytest.param(
            HEAD
            + "actions:\n  a:\n    phases:\n    - func: Greet\n      name: x\n      objects:\n"
            + "        db: {kind: Secret, namespace: shop}\n",
            [("object-without-name", 10, "error")],
            id="a Secret without a name",
        ),
        pytest.param(
            HEAD.replace("{name: b}", "{name: b, nme: c}") + "actions:\n  a: {phases: []}\n",
            [("unknown-key", 3, "warning"), ("action-without-phases", 5, "warning")],
            id="an unknown key of metadata",
        ),
        pytest.param(
            HEAD + "actions:\n  a: {}\n",
            [("action-without-phases", 5, "warning")],
            id="no phases",
        ),
        pytest.param(
            HEAD + "actions:\n  a:\n    phases:\n    - name: x\n",
            [("phase-without-func", 7, "error")],
            id="no function",
        ),
        pytest.param(
            HEAD
            + "actions:\n  a:\n    phases:\n    - func: Greet\n    deferPhase: {func: Greet}\n",
            [("phase-without-name", 7, "warning")],
            id="a phase without a name",
        ),
        pytest.param(
            HEAD
            + "actions:\n  a:\n    phases:\n    - {func: Greet, name: x}\n"
            + "    - {func: Greet, name: x}\n    deferPhase: {func: Greet, name: x}\n",
            [("duplicate-phase-name", 8, "error"), ("duplicate-phase-name", 9, "error")],
            id="a name twice in one action",
        ),
        pytest.param(
            HEAD
            + "actions:\n  a:\n    phases:\n    - {func: Greet, name: x}\n"
            + "  b:\n    phases:\n    - {func: Greet, name: x}\n",
            [("duplicate-phase-name-across-actions", 10, "info")],
            id="a name in two actions",
        ),
        pytest.param(
            HEAD
            + "spec: {}\nactions:\n  a:\n    phase: []\n    phases:\n    - func: Greet\n"
            + "      name: x\n      arg: {}\n      retry: {limits: 3}\n      objects:\n"
            + "        s: {knd: Secret}\n",
            [
                ("unknown-key", 4, "warning"),
                ("unknown-key", 7, "warning"),
                ("unknown-key", 11, "warning"),
                ("unknown-key", 12, "warning"),
                ("object-not-fetched", 14, "warning"),
                ("unknown-key", 14, "warning"),
            ],
            id="unknown keys",
        ),
    ],
)
def test_structural_mistakes_are_reported(
    context: Context, text: str, expected: list[tuple[str, int, str]]
) -> None:
    findings = lint(context, text)
    assert [(finding.rule, finding.line, str(finding.severity)) for finding in findings] == expected


def test_misspelt_key_is_reported_with_a_similar_one(context: Context) -> None:
    (finding,) = lint(context, f"{HEAD}action: {{}}\n{ONE}")
    assert finding.message == "Nothing reads the key 'action'; did you mean actions?"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param("a: [", "file-unreadable", id="bad YAML"),
        pytest.param(b"\xff", "file-unreadable", id="not UTF-8"),
        pytest.param("- kind: Blueprint\n", "file-unreadable", id="a list where a map belongs"),
        pytest.param("just text\n", "file-unreadable", id="text where a map belongs"),
        pytest.param(HEAD + "actions: []\n", "blueprint-invalid", id="a list as actions"),
        pytest.param(
            HEAD + "actions: {a: {phases: {}}}\n", "blueprint-invalid", id="a map as phases"
        ),
    ],
)
def test_unreadable_document_has_a_single_finding(
    context: Context, text: str | bytes, rule: str
) -> None:
    assert [finding.rule for finding in lint(context, text)] == [rule]


def test_readable_parts_of_an_invalid_blueprint_are_checked(context: Context) -> None:
    text = (
        f"{HEAD}actions:\n  a: {{phases: [{{name: p, func: 3}}]}}\n"
        "  b: {phases: [{name: q, func: Notify, funcVersion: v0.1.0}]}\n"
    )
    findings = [(finding.rule, finding.path) for finding in lint(context, text)]
    assert findings == [
        ("blueprint-invalid", "actions.a.phases[0].func"),
        ("version-removed", "actions.b.phases[0].funcVersion"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD.replace("{name: b}", "[]") + ONE, id="metadata"),
        pytest.param(HEAD.replace("{name: b}", "{name: 5}") + ONE, id="the name"),
        pytest.param(HEAD + "actions: {a: {phases: [x]}}\n", id="a phase"),
        pytest.param(HEAD + "actions: {a: {phases: [{name: 1, func: Greet}]}}\n", id="its name"),
        pytest.param(
            HEAD + "actions: {a: {phases: [{name: p, func: Notify, funcVersion: 0.1}]}}\n",
            id="its version",
        ),
        pytest.param(
            HEAD + "actions: {a: {phases: [{name: 1, func: Greet},"
            " {name: q, func: Greet, if: '{{ .Phases.p.Output.x }}'}]}}\n",
            id="a name that a template reads",
        ),
    ],
)
def test_invalid_value_is_not_reported_as_missing(context: Context, text: str) -> None:
    rules = {finding.rule for finding in lint(context, text)}
    assert rules - {"template-engine"} == {"blueprint-invalid"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            HEAD.replace("Blueprint", "blueprint") + "actions: {}\n",
            "must be Blueprint, found 'blueprint'",
            id="in other capitals",
        ),
        pytest.param("kind: Actionset\n", "must be ActionSet", id="an ActionSet's"),
        pytest.param("actions: {a: {phases: []}}\n", "kind is missing", id="left out"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n- kind: BluePrint\n",
            "must be Blueprint, found 'BluePrint'",
            id="in a list",
        ),
        pytest.param(
            HEAD.replace("Blueprint", "Blueprnt") + "actions: {}\n",
            "cr.kanister.io has no kind Blueprnt; did you mean Blueprint? "
            "The object was not checked",
            id="misspelt",
        ),
        pytest.param(
            "apiVersion: kanister-py.io/v1alpha1\nkind: Schedul\n",
            "did you mean Schedule?",
            id="a misspelt Schedule",
        ),
        pytest.param(
            "apiVersion: apiextensions.crossplane.io/v1\nkind: Compositon\n",
            "did you mean Composition",
            id="a misspelt Composition",
        ),
        pytest.param(
            "apiVersion: pkg.crossplane.io/v1\nkind: function\n",
            "must be Function, found 'function'",
            id="a Function in other capitals",
        ),
    ],
)
def test_similar_kind_is_reported(context: Context, text: str, message: str) -> None:
    report = lint_sources([Source("b.yaml", text, is_named=False)], context)
    assert [(finding.rule, message in finding.message) for finding in report.findings] == [
        ("kind-overlooked", True)
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("apiVersion: cr.kanister.io/v1alpha1\nkind: Profile\n", id="a Profile"),
        pytest.param(
            "apiVersion: cr.kanister.io/v1alpha1\nkind: RepositoryServer\n",
            id="a kind that lint does not check",
        ),
        pytest.param("apiVersion: pkg.crossplane.io/v1\nkind: Provider\n", id="a Provider"),
        pytest.param(
            "apiVersion: apiextensions.crossplane.io/v1alpha1\nkind: ManagedResourceDefinition\n",
            id="a kind of Crossplane that lint does not check",
        ),
        pytest.param("kind: Blueprints\n", id="similar kind without a group"),
        pytest.param("apiVersion: other.io/v1\nkind: blueprint\n", id="of another group"),
        pytest.param("actions: {a: {script: x}}\n", id="values with actions"),
        pytest.param("actions: [a]\n", id="a list of actions"),
    ],
)
def test_other_objects_are_ignored(context: Context, text: str) -> None:
    assert lint(context, text) == []


def test_a_file_found_in_a_folder_may_hold_a_list(context: Context) -> None:
    report = lint_sources([Source("kustomize.yaml", "- op: add\n", is_named=False)], context)
    assert (report.findings, report.empty_files) == ((), ())


def test_named_file_without_objects_for_lint_is_listed(context: Context) -> None:
    report = lint_sources([Source("values.yaml", "a: 1\n")], context)
    assert report.empty_files == ("values.yaml",)


def test_rules_have_uniform_ids_and_an_explanation() -> None:
    for rule in rules().values():
        assert rule.id == rule.id.lower().replace("_", "-")
        assert rule.summary.endswith(".")
        assert len(rule.explanation) > 40


def test_misspelt_kind_of_an_object_is_reported(context: Context) -> None:
    text = (
        "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: a}\nspec:\n"
        "  actions:\n  - {name: b, blueprint: c, object: {kind: Namespaec, name: shop}}\n"
    )
    (finding,) = lint(context, text)
    assert (finding.rule, finding.line) == ("object-kind-unknown", 6)
    assert "did you mean Namespace?" in finding.message
    assert lint(context, text.replace("Namespaec", "namespace")) == []
    assert [finding.rule for finding in lint(context, text.replace("kind: Namespaec, ", ""))] == [
        "object-kind-unknown"
    ]
    own = "{kind: Namespaec, apiVersion: v1, resource: things, name: shop}"
    assert lint(context, text.replace("{kind: Namespaec, name: shop}", own)) == []


_DECLARES = (
    HEAD + "actions:\n  a:\n    secretNames: [login, spare]\n    configMapNames: [sizes]\n"
    "    phases:\n    - func: Wait\n      name: w\n      args:\n"
    "        timeout: 1s\n        conditions: {anyOf: []}\n"
)
_GIVES = (
    "---\napiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: s}\nspec:\n"
    "  actions:\n  - name: a\n    blueprint: b\n"
    "    object: {kind: Namespace, name: shop}\n"
)


@pytest.mark.parametrize(
    ("inputs", "missing"),
    [
        pytest.param("", ["login", "spare", "sizes"], id="none"),
        pytest.param(
            "    secrets: {login: {kind: Secret, name: x, namespace: n}}\n",
            ["spare", "sizes"],
            id="one Secret",
        ),
        pytest.param(
            "    secrets:\n      login: {kind: Secret, name: x, namespace: n}\n"
            "      spare: {kind: Secret, name: x, namespace: n}\n"
            "    configMaps: {sizes: {kind: ConfigMap, name: x, namespace: n}}\n",
            [],
            id="all",
        ),
    ],
)
def test_an_actionset_that_lacks_declared_inputs_is_reported(
    context: Context, inputs: str, missing: list[str]
) -> None:
    findings = [
        finding
        for finding in lint(context, _DECLARES + _GIVES + inputs)
        if finding.rule == "input-not-given"
    ]
    assert sorted(finding.message.split()[4] for finding in findings) == sorted(missing)
    assert {str(finding.severity) for finding in findings} <= {"warning"}


@pytest.mark.parametrize(
    ("override", "rule"),
    [
        pytest.param("{containers: {}}", "actionset-invalid", id="a map for a list"),
        pytest.param("{nodeSelektor: {a: b}}", "pod-field-unknown", id="a misspelt field"),
        pytest.param("{nodeSelector: {a: b}}", "", id="nothing"),
    ],
)
def test_pod_override_of_an_actionset_is_checked(
    context: Context, override: str, rule: str
) -> None:
    findings = lint(context, f"{_GIVES}    podOverride: {override}\n")
    assert [finding.rule for finding in findings if "podOverride" in finding.message] == [rule][
        : bool(rule)
    ]


def test_misspelt_function_is_reported_at_its_name(context: Context) -> None:
    text = HEAD + "actions:\n  a:\n    phases:\n    - func: Gret\n      funcVersion: v0.1.0\n"
    (error,) = [finding for finding in lint(context, text) if finding.rule == "function-unknown"]
    assert (error.line, error.path) == (7, "actions.a.phases[0].func")


def test_a_blueprint_without_actions_is_an_error(context: Context) -> None:
    findings = lint(context, HEAD + "action: {}\n")
    assert [finding.rule for finding in findings] == ["blueprint-without-actions", "unknown-key"]
    assert str(findings[0].severity) == "error"
