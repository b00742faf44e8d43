"""Admission of Schedules: rejects Schedules that are invalid or never fire."""

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
    """Return the template of the ActionSets of a Schedule, or an empty mapping."""
    return mapping_of(spec_of(schedule).get("template"))


def review_schedule(
    schedule: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Verdict:
    """Review a Schedule with the Blueprints that it refers to; None stands for a missing one."""
    schema_checks = {"Schedule": check_schedule, "ActionSet": check_action_set}
    context = context._replace(schema_checks=schema_checks)
    existing = {name: obj for name, obj in blueprints.items() if obj is not None}
    verdict = verdict_of(findings_in(schedule, existing, context))
    if not verdict.is_allowed:
        return verdict
    warnings = warnings_of_blueprints(template_in(schedule), blueprints, context)
    return Verdict((), truncate_warnings([*verdict.warnings, *warnings]))
