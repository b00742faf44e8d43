"""Admission of Schedules: one that never comes, or cannot be read, is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.actionsets.admission import (
    Verdict,
    findings_in,
    truncate_warnings,
    verdict_of,
    warnings_of_blueprints,
)
from kanister_py.core.actionsets.model import check_schema as check_action_set
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.kube.parts import mapping_of, spec_of
from kanister_py.core.schedules.model import check_schema as check_schedule


def template_in(schedule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what a Schedule makes ActionSets of, as far as it can be read."""
    return mapping_of(spec_of(schedule).get("template"))


def judge_schedule(
    schedule: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Verdict:
    """Judge a Schedule beside the Blueprints it names; None stands for one that is not there."""
    schema_checks = {"Schedule": check_schedule, "ActionSet": check_action_set}
    context = context._replace(schema_checks=schema_checks)
    there = {name: each for name, each in blueprints.items() if each is not None}
    verdict = verdict_of(findings_in(schedule, there, context))
    if not verdict.is_allowed:
        return verdict
    warnings = warnings_of_blueprints(template_in(schedule), blueprints, context)
    return Verdict((), truncate_warnings([*verdict.warnings, *warnings]))
