"""Findings of lint about Schedules, which the admission webhook reports as well."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.schedules.admission import review_schedule
from kanister_py.core.schedules.model import check_schema
from tests.core.schedules.schedules import schedule


def blueprint(function: str = "Greet", version: str = "") -> dict[str, Any]:
    pinned = {"funcVersion": version} if version else {}
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "made-up"},
        "actions": {"act": {"phases": [{"name": "p", "func": function, **pinned}]}},
    }


def lint(context: Context, *objects: dict[str, Any]) -> list[Finding]:
    sources = [Source(f"{obj['kind']}.yaml", yaml.safe_dump(obj)) for obj in objects]
    schema_checks = {**context.schema_checks, "Schedule": check_schema}
    findings = lint_sources(sources, context._replace(schema_checks=schema_checks)).findings
    return [finding for finding in findings if finding.file == "Schedule.yaml"]


def template_with(**action: Any) -> dict[str, Any]:
    return {"spec": {"actions": [{"name": "act", "blueprint": "made-up", **action}]}}


def test_options_of_the_template_are_checked_against_declarations(context: Context) -> None:
    declares = blueprint()
    declares["actions"]["act"]["options"] = {"count": {"type": "integer"}}
    template = template_with(options={"count": "many"})
    findings = lint(context, declares, schedule(template=template))
    (finding,) = [finding for finding in findings if finding.rule == "option-invalid"]
    assert finding.path == "spec.template.spec.actions[0].options.count"
    assert "must be an integer, found 'many'" in finding.message


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"schedule": "0 0 30 2 *"}, "spec.schedule", "never fires"),
        ({"schedule": "0 25 * * *"}, "spec.schedule", "its hour is invalid"),
        ({"timeZone": "Europe/Berlim"}, "spec.timeZone", "There is no time zone"),
        ({"jitter": "soon"}, "spec.jitter", "a duration"),
        ({"jitter": "48h"}, "spec.jitter", "no more than 24h"),
        ({"startingDeadline": "9000h"}, "spec.startingDeadline", "no more than 8784h"),
        ({"schedule": "@every 9000h"}, "spec.schedule", "and a year at most"),
        ({"keep": {"within": "99999w"}}, "spec.keep.within", "a time such as 30d"),
        (
            {"windows": [{"schedule": "0 0 * * *", "duration": "2000000h"}]},
            "spec.windows[0].duration",
            "no more than 744h",
        ),
        (
            {"concurrencyPolicy": "Allow"},
            "spec.concurrencyPolicy",
            "'Forbid', 'Replace' or 'Queue'",
        ),
        ({"historyLimits": {"complete": -1}}, "spec.historyLimits.complete", "at least 0"),
        ({"template": None}, "spec.template", "Must be given"),
        ({"template": {"spec": {}}}, "spec.template.spec.actions", "Must have an action"),
        (
            {"windows": [{"schedule": "@every 1h", "duration": "5m"}]},
            "spec.windows[0].schedule",
            "Must be a cron line",
        ),
        (
            {"windows": [{"schedule": "0 0 * * *", "duration": "24h"}]},
            "spec.windows",
            "leave no time",
        ),
        ({"keep": {"within": "1 month"}}, "spec.keep.within", "a time such as 30d"),
        ({"keep": {"daily": -1}}, "spec.keep.daily", "at least 0"),
        ({"keep": {"daily": 0}}, "spec.keep", "Must have a rule"),
        ({"windows": [{"schedule": "0 0 * * *"}]}, "spec.windows[0].duration", "Must be given"),
    ],
)
def test_invalid_schedule_is_an_error_with_its_place(
    context: Context, spec: dict[str, Any], path: str, message: str
) -> None:
    obj = schedule(**spec)
    (error,) = [
        finding
        for finding in lint(context, obj, blueprint())
        if finding.rule != "schedule-without-delete"
    ]
    assert (error.rule, error.severity, error.path) == ("schedule-invalid", Severity.ERROR, path)
    assert message in error.message
    assert error.line > 0
    verdict = review_schedule(obj, {"made-up": blueprint()}, context)
    assert not verdict.is_allowed
    assert message in verdict.message


def test_unknown_key_is_reported_with_a_similar_one(context: Context) -> None:
    (finding,) = lint(context, schedule(timezone="Europe/Berlin"), blueprint())
    assert "timeZone" in finding.message


def test_missing_action_is_reported(context: Context) -> None:
    obj = schedule(template=template_with(name="bakcup"))
    (finding,) = lint(context, obj, blueprint())
    assert (finding.rule, finding.path) == ("action-unknown", "spec.template.spec.actions[0].name")
    verdict = review_schedule(obj, {"made-up": blueprint()}, context)
    assert verdict.is_allowed
    assert "has no action bakcup" in verdict.warnings[0]


def test_missing_blueprint_is_a_warning(context: Context) -> None:
    verdict = review_schedule(schedule(), {"made-up": None}, context)
    assert verdict.is_allowed
    assert "There is no Blueprint made-up yet" in verdict.warnings[0]


def test_retention_without_an_action_delete_is_reported(context: Context) -> None:
    obj = schedule(keep={"daily": 7})
    (finding,) = lint(context, obj, blueprint())
    assert (finding.rule, finding.path) == ("schedule-without-delete", "spec.keep")
    assert not review_schedule(obj, {"made-up": blueprint()}, context).is_allowed
    with_delete = blueprint()
    with_delete["actions"]["delete"] = with_delete["actions"]["act"]
    assert lint(context, obj, with_delete) == []
    assert review_schedule(obj, {"made-up": with_delete}, context).is_allowed


# The installed release is 0.3.0; 0.4.0 is the next one.
@pytest.mark.parametrize(
    ("function", "version", "preferred", "want"),
    [
        pytest.param("Notify", "v0.2.0", "", ["schedule-outlived"], id="removed in the next"),
        pytest.param("Notify", "", "v0.2.0", ["schedule-outlived"], id="preferred, and removed"),
        pytest.param("Bury", "v0.1.0", "", [], id="removed in the one after that"),
        pytest.param("Notify", "v0.3.0", "", [], id="supported"),
        pytest.param("Notify", "v0.1.0", "", [], id="removed already, reported for the Blueprint"),
        pytest.param("Nobody", "", "", [], id="an unknown function"),
    ],
)
def test_version_that_the_next_release_removes_is_reported(
    context: Context, function: str, version: str, preferred: str, want: list[str]
) -> None:
    action = {"preferredVersion": preferred} if preferred else {}
    obj = schedule(template=template_with(**action))
    findings = [
        finding
        for finding in lint(context, obj, blueprint(function, version))
        if finding.rule != "version-deprecated"
    ]
    assert [finding.rule for finding in findings] == want
    for finding in findings:
        assert (finding.removed_in, finding.replacement) == ("0.4.0", "v0.3.0")
        assert "removed in 0.4.0, the next release" in finding.message
