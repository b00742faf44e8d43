from __future__ import annotations

import pytest

from kanister_py.cli.lint import exit_code_of
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.versions.semver import parse_version

HEAD = "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\nactions:\n"


def blueprint(function: str, version: str = "") -> str:
    pinned = f"      funcVersion: {version}\n" if version else ""
    return f"{HEAD}  go:\n    phases:\n    - name: p\n      func: {function}\n{pinned}"


def lint(context: Context, *texts: str) -> list[Finding]:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    return list(lint_sources(sources, context).findings)


class TestEveryUseOfAVersion:
    @pytest.mark.parametrize(
        ("function", "version", "rule", "severity", "line", "code"),
        [
            pytest.param("Greet", "", None, None, 0, 0, id="no version"),
            pytest.param("Notify", "v0.3.0", None, None, 0, 0, id="supported"),
            pytest.param("Notify", "0.3.0", None, None, 0, 0, id="supported, without the v"),
            pytest.param(
                "Notify", "v0.2.0", "version-deprecated", "warning", 9, 2, id="deprecated"
            ),
            pytest.param("Notify", "v0.1.0", "version-removed", "error", 9, 3, id="removed"),
            pytest.param(
                "Bury",
                "v0.1.0",
                "version-deprecated",
                "warning",
                9,
                4,
                id="deprecated without a replacement",
            ),
            pytest.param(
                "Bury",
                "v0.2.0",
                "version-removed",
                "error",
                9,
                4,
                id="removed without a replacement",
            ),
            pytest.param("Linger", "", "version-deprecated", "warning", 8, 2, id="by default"),
            pytest.param("Greet", "v9.0.0", "version-fallback", "warning", 9, 0, id="fallback"),
            pytest.param("Notify", "v9.0.0", "version-not-found", "error", 9, 1, id="unknown"),
            pytest.param("Notify", "^0.2", "version-deprecated", "warning", 9, 2, id="a range"),
            pytest.param("Notify", "^0.1", "version-not-found", "error", 9, 1, id="a dead range"),
            pytest.param("Notify", "latest", "version-invalid", "error", 9, 1, id="no version"),
            pytest.param("Notify", "v1", "version-invalid", "error", 9, 1, id="too few numbers"),
            pytest.param("Notifi", "", "function-unknown", "error", 8, 1, id="unknown function"),
            pytest.param("Compose", "", "function-unknown", "error", 8, 1, id="of compositions"),
        ],
    )
    def test_is_reported_with_its_line(
        self,
        context: Context,
        function: str,
        version: str,
        rule: str | None,
        severity: str | None,
        line: int,
        code: int,
    ) -> None:
        findings = lint(context, blueprint(function, version))
        assert [(finding.rule, finding.severity, finding.line) for finding in findings] == (
            [(rule, severity, line)] if rule else []
        )
        assert exit_code_of(findings) == code

    def test_is_reported_with_all_fields(self, context: Context) -> None:
        (finding,) = lint(context, blueprint("Notify", "v0.1.0"))
        data = finding.as_dict()
        assert data.pop("message")
        assert data == {
            "file": "0.yaml",
            "line": 9,
            "column": 7,
            "path": "actions.go.phases[0].funcVersion",
            "rule": "version-removed",
            "severity": "error",
            "action": "go",
            "phase": "p",
            "function": "Notify",
            "version": "v0.1.0",
            "replacement": "v0.3.0",
            "deprecatedIn": "0.1.0",
            "removedIn": "0.3.0",
        }

    def test_of_an_unknown_function_is_reported_with_a_similar_one(self, context: Context) -> None:
        (finding,) = lint(context, blueprint("notify"))
        assert "did you mean Notify?" in finding.message
        (finding,) = lint(context, blueprint("CreateRDSSnapshots"))
        assert "CreateRDSSnapshot" in finding.message

    def test_in_a_defer_phase_is_reported(self, context: Context) -> None:
        text = (
            f"{HEAD}  go:\n    phases: [{{func: Greet, name: p}}]\n"
            "    deferPhase: {func: Notify, funcVersion: v0.2.0}\n"
        )
        (finding,) = lint(context, text)
        assert finding.path == "actions.go.deferPhase.funcVersion"


class TestAnotherRelease:
    @pytest.mark.parametrize(
        ("release", "rules"),
        [
            pytest.param("0.1.0", [], id="before the deprecation"),
            pytest.param("0.2.0", ["version-deprecated"], id="the release that deprecates"),
            pytest.param("0.3.9", ["version-deprecated"], id="the last release with it"),
            pytest.param("0.4.0", ["version-removed"], id="the release that removes"),
        ],
    )
    def test_decides_about_deprecation_and_removal(
        self, context: Context, release: str, rules: list[str]
    ) -> None:
        then = context._replace(at={"acme": parse_version(release)})
        assert [finding.rule for finding in lint(then, blueprint("Notify", "v0.2.0"))] == rules

    def test_of_another_package_changes_nothing(self, context: Context) -> None:
        then = context._replace(at={"other": parse_version("9.0.0")})
        assert lint(then, blueprint("Notify", "v0.3.0")) == []


def test_fallback_is_an_error_in_strict_mode(
    context: Context,
) -> None:
    findings = lint(context._replace(is_strict=True), blueprint("Greet", "v9.0.0"))
    assert [(finding.rule, finding.severity) for finding in findings] == [
        ("version-fallback", Severity.ERROR)
    ]
    assert exit_code_of(findings) == 1


ACTION_SET = """\
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {{name: s}}
spec:
  actions:
  - name: go
    blueprint: b
    preferredVersion: {version}
"""


class TestAPreferredVersion:
    @pytest.mark.parametrize(
        ("function", "version", "rules"),
        [
            pytest.param("Notify", "v0.2.0", ["version-deprecated"], id="deprecated"),
            pytest.param("Notify", "v0.1.0", ["version-removed"], id="removed"),
            pytest.param("Greet", "v0.1.0", ["version-fallback"], id="fallback"),
            pytest.param("Notify", "new", ["version-invalid"], id="invalid"),
            pytest.param("Notify", "1.0", ["actionset-invalid"], id="a number in YAML"),
            pytest.param("Notify", "v0.3.0", [], id="supported"),
            pytest.param(
                "Unheard",
                "v0.3.0",
                ["function-unknown"],
                id="unknown function, reported at the phase",
            ),
        ],
    )
    def test_is_checked_with_the_phases_that_it_applies_to(
        self, context: Context, function: str, version: str, rules: list[str]
    ) -> None:
        findings = lint(context, ACTION_SET.format(version=version), blueprint(function))
        assert [finding.rule for finding in findings] == rules
        if rules and not rules[0].startswith("function"):
            assert (findings[0].file, findings[0].line) == ("0.yaml", 8)

    def test_does_not_apply_to_a_phase_with_its_own_version(self, context: Context) -> None:
        texts = ACTION_SET.format(version="v0.2.0"), blueprint("Notify", "v0.3.0")
        assert lint(context, *texts) == []

    def test_that_only_one_function_has_is_no_warning_for_the_others(
        self, context: Context
    ) -> None:
        text = (
            f"{HEAD}  go:\n    phases:\n"
            "    - {name: p, func: Notify}\n    - {name: q, func: Greet}\n"
        )
        findings = lint(context, ACTION_SET.format(version="v0.3.0"), text)
        assert [(finding.rule, finding.severity) for finding in findings] == [
            ("version-fallback", Severity.INFO)
        ]

    def test_that_was_removed_is_reported_with_the_key_to_change(self, context: Context) -> None:
        (finding,) = lint(context, ACTION_SET.format(version="v0.1.0"), blueprint("Notify"))
        assert finding.message.endswith("; set preferredVersion to v0.3.0")

    @pytest.mark.parametrize(
        "blueprints",
        [
            pytest.param([], id="no Blueprint"),
            pytest.param([blueprint("Notify").replace("{name: b}", "{name: c}")], id="another"),
        ],
    )
    def test_without_its_blueprint_is_reported_as_unchecked(
        self, context: Context, blueprints: list[str]
    ) -> None:
        findings = lint(context, ACTION_SET.format(version="v0.2.0"), *blueprints)
        assert [(finding.rule, finding.severity) for finding in findings] == [
            ("blueprint-not-given", Severity.INFO)
        ]

    @pytest.mark.parametrize(
        ("spec", "rules"),
        [
            ("", ["actionset-without-actions"]),
            ("spec: 5", ["actionset-invalid"]),
            ("spec: {actions: [x, 1]}", ["actionset-invalid", "actionset-invalid"]),
            ("spec: {actions: 5}", ["actionset-invalid"]),
        ],
        ids=["no spec", "a number", "no maps", "no list"],
    )
    def test_is_not_expected_without_actions(
        self, context: Context, spec: str, rules: list[str]
    ) -> None:
        text = f"apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\n{spec}\n"
        assert [finding.rule for finding in lint(context, text)] == rules


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("", "spec is missing"),
        ("spc: {actions: []}", "spec is missing; found spc"),
        ("spec: {}", "spec.actions is missing"),
        ("spec: {action: []}", "spec.actions is missing; found action"),
        ("spec: {actions: []}", "spec.actions is empty"),
    ],
)
def test_an_actionset_that_would_do_nothing_is_an_error(
    context: Context, spec: str, why: str
) -> None:
    text = f"apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\n{spec}\n"
    findings = [e for e in lint(context, text) if e.rule == "actionset-without-actions"]
    assert [(e.severity, e.message) for e in findings] == [
        (Severity.ERROR, f"The ActionSet runs nothing: {why}")
    ]


def test_missing_action_is_reported(context: Context) -> None:
    other = blueprint("Notify", "v0.3.0").replace("go:", "goes:")
    (finding,) = lint(context, ACTION_SET.format(version="v0.3.0"), other)
    assert (finding.rule, finding.severity) == ("action-unknown", Severity.ERROR)
    assert finding.message.endswith("has no action go; did you mean goes?")


def test_unknown_keys_of_an_actionset_are_reported(context: Context) -> None:
    text = ACTION_SET.format(version="v0.3.0") + "    option: {a: b}\n    prefferedVersion: x\n"
    messages = [finding.message for finding in lint(context, text) if finding.rule == "unknown-key"]
    assert messages == [
        "Nothing reads the key 'option'; did you mean options?",
        "Nothing reads the key 'prefferedVersion'; did you mean preferredVersion?",
    ]


class TestSuppression:
    @pytest.mark.parametrize(
        ("line", "rules"),
        [
            pytest.param("      funcVersion: v0.2.0 # kanister-py: ignore", [], id="all"),
            pytest.param(
                "      funcVersion: v0.2.0 # kanister-py: ignore=version-deprecated", [], id="one"
            ),
            pytest.param(
                "      # kanister-py: ignore=version-removed, version-deprecated\n"
                "      funcVersion: v0.2.0",
                [],
                id="in the line before",
            ),
            pytest.param(
                "      funcVersion: v0.2.0 # kanister-py: ignore=version-removed",
                ["version-deprecated"],
                id="of another rule",
            ),
            pytest.param(
                "      funcVersion: v0.2.0 #kanister-py:ignorance", ["version-deprecated"], id="no"
            ),
        ],
    )
    def test_comment_applies_to_its_line(
        self, context: Context, line: str, rules: list[str]
    ) -> None:
        text = f"{HEAD}  go:\n    phases:\n    - name: p\n      func: Notify\n{line}\n"
        assert [finding.rule for finding in lint(context, text)] == rules

    def test_comment_with_an_unknown_rule_is_reported(self, context: Context) -> None:
        line = "      funcVersion: v0.2.0  # kanister-py: ignore=version-depreciated"
        text = f"{HEAD}  go:\n    phases:\n    - name: p\n      func: Notify\n{line}\n"
        by_rule = {finding.rule: finding for finding in lint(context, text)}
        assert by_rule.keys() == {"version-deprecated", "ignore-unknown"}
        place = (by_rule["ignore-unknown"].line, by_rule["ignore-unknown"].column)
        assert place == (9, line.index("version-depreciated") + 1)
        assert "did you mean version-deprecated" in by_rule["ignore-unknown"].message

    def test_comment_does_not_hide_unreadable_files(self, context: Context) -> None:
        findings = lint(context, f"{HEAD}  go: 5 # kanister-py: ignore\n")
        assert [finding.rule for finding in findings] == ["blueprint-invalid"]


@pytest.mark.parametrize(
    ("versions", "code"),
    [
        pytest.param(["v0.2.0", "v0.1.0"], 3, id="deprecated and removed"),
        pytest.param(["v0.2.0", "v0.1.0", "x"], 1, id="with another error"),
    ],
)
def test_exit_code_depends_on_the_worst_finding(
    context: Context, versions: list[str], code: int
) -> None:
    assert (
        exit_code_of(lint(context, *(blueprint("Notify", version) for version in versions))) == code
    )
    with_unreplaceable = [blueprint("Bury", "v0.1.0"), *(blueprint("Notify", v) for v in versions)]
    assert exit_code_of(lint(context, *with_unreplaceable)) == (1 if code == 1 else 4)
