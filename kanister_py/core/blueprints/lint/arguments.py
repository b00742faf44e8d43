"""Lint rules for the arguments and durations of a phase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_origin

from kanister_py.core.blueprints.analysis import Defect, wrong_arguments
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.errors import did_you_mean
from kanister_py.core.kube.pod_shapes import shape_problems
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.retries import REASONS

MISSING = Rule(
    "argument-missing",
    Severity.ERROR,
    "A phase lacks an argument that its function requires.",
    "The phase fails before it does anything. `kanister-py functions describe` lists "
    "required and optional arguments with their defaults.",
)
UNKNOWN = Rule(
    "argument-unknown",
    Severity.ERROR,
    "A phase gives an argument that its function does not have.",
    "The phase fails before it does anything, so that misspelt arguments are noticed. "
    "Names of arguments are exact, including capitals.",
)
MISTYPED = Rule(
    "argument-type",
    Severity.ERROR,
    "An argument has a value that its function does not accept.",
    "Arguments are converted like in Kanister: a number may be written as text, a list with "
    "one member without brackets. All other values of the wrong type are errors. Values that "
    "come from templates are not checked.",
)
DURATION = Rule(
    "duration-invalid",
    Severity.ERROR,
    "A duration of a phase is invalid.",
    "Durations are written like in Go, with a unit: 90s, 5m, 1h30m. A phase with a timeout of "
    "zero or less fails at once; a phase without a timeout has no limit.",
)
RETRY_REASON = Rule(
    "retry-reason-unknown",
    Severity.WARNING,
    "A phase is retried for an unknown reason that resembles a known one.",
    "`retry.on` lists reasons of failures, including capitals. A phase that fails for any "
    "other reason is not retried. docs/blueprints.md lists the reasons of the built-in "
    "functions; other functions may have more, which are not reported.",
)
COMMAND_AS_TEXT = Rule(
    "command-as-text",
    Severity.INFO,
    "A command is one text with spaces instead of a list of words.",
    "A text counts as a list with one member, so the program is called `echo hi` and is not "
    "found. Write `[echo, hi]`, or `[sh, -c, 'echo hi']` for a shell.",
)
POD_FIELD = Rule(
    "pod-field-unknown",
    Severity.WARNING,
    "A podOverride names a field that pods do not have and that resembles one they have.",
    "An API server ignores unknown fields: the pod is created without it.",
)
UNQUOTED = Rule(
    "argument-in-shell",
    Severity.WARNING,
    "An argument from the ActionSet becomes part of a shell command without quotes.",
    "As in Kanister, v0.0.0 of the functions that run restic puts its arguments into a command "
    "line without quotes. IDs and tags with shell characters are refused; paths and prefixes are "
    "not. The author of an ActionSet could run commands in the pod, which has the credentials of "
    "the store. v0.1.0 uses no shell for its arguments.",
)
OF_ARGUMENTS = (MISSING, UNKNOWN, MISTYPED)
RULES = (*OF_ARGUMENTS, DURATION, RETRY_REASON, COMMAND_AS_TEXT, POD_FIELD, UNQUOTED)

_RULES_BY_ID = {rule.id: rule for rule in OF_ARGUMENTS}


def check_arguments(
    spot: Spot, phase: Phase, entry: FunctionEntry, context: Context
) -> Iterator[Finding]:
    """Check the arguments of a phase against the model of its function version."""
    if any(may_be_template(name) for name in phase.args):
        return
    code = context.code(entry)
    if code is None:
        return
    yield from _commands_as_text(spot, phase, code.Args)
    yield from _unquoted(spot, phase, entry, code.Args)
    if "pod_override" in code.Args.model_fields:
        yield from _unknown_pod_fields(spot, phase.args.get("podOverride"))
    for wrong in wrong_arguments(phase, phase.args, code, _is_open):
        is_missing = wrong.defect is Defect.ARGUMENT_MISSING
        where = spot.at("args") if is_missing else spot.at(*wrong.path)
        rule = _RULES_BY_ID[wrong.defect]
        yield where.finding(rule, wrong.message, version=str(entry.version))


def _commands_as_text(spot: Spot, phase: Phase, model: Any) -> Iterator[Finding]:
    for field, info in model.model_fields.items():
        name = info.alias or field
        value = phase.args.get(name)
        is_command = get_origin(info.annotation) is list and name.casefold().endswith("command")
        if is_command and isinstance(value, str) and not _is_open(value) and len(value.split()) > 1:
            message = f"{name} is a text, so {value!r} as a whole is the name of the program"
            fix = "write a list of words"
            yield spot.at("args", name).finding(COMMAND_AS_TEXT, f"{message}; {fix}")


def _unquoted(spot: Spot, phase: Phase, entry: FunctionEntry, model: Any) -> Iterator[Finding]:
    """Find arguments for a shell whose values come from the ActionSet."""
    for name in getattr(model, "unquoted", ()):
        value = phase.args.get(name)
        if not isinstance(value, str) or not _is_open(value):
            continue
        if "ArtifactsIn" in value or "Options" in value:
            message = (
                f"{name} comes from the ActionSet, and {entry.function} {entry.version} puts it "
                "into a shell command without quotes; use v0.1.0"
            )
            where = spot.at("args", name)
            yield where.finding(UNQUOTED, message, version=str(entry.version))


def _unknown_pod_fields(spot: Spot, override: object) -> Iterator[Finding]:
    for field in shape_problems(override, "podOverride"):
        # The model of the function reports fields of the wrong type.
        if not field.expected_type:
            yield spot.at("args", "podOverride").finding(POD_FIELD, str(field))


def _is_open(value: object) -> bool:
    return isinstance(value, str) and may_be_template(value)


def may_be_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def conditions_of(function: Any) -> tuple[str, ...]:
    """Return the functions that conditions of a function class may call, in addition to Go's.

    `*` stands for the functions of Blueprints.
    """
    return tuple(getattr(function, "condition_functions", ("*",)))


def check_retry(spot: Spot, phase: Phase, hints: Hints) -> Iterator[Finding]:
    """Find misspelt reasons in `retry.on`."""
    for at, reason in enumerate(phase.retry.on if phase.retry is not None else ()):
        near = () if reason in REASONS else hints.nearest(reason, REASONS, _MIN_SIMILARITY)
        if near:
            message = f"There is no failure reason {reason}{did_you_mean(near)}"
            path = (*spot.path, "retry", "on")
            is_bare = spot.manifest.document.node_at((*spot.manifest.path, *path)) is None
            # YAML reads the unquoted key `on` as true.
            place = spot.manifest.place_of((*path[:-1], "true", at) if is_bare else (*path, at))
            finding = spot.at("retry", "on", at).finding(RETRY_REASON, message)
            yield finding._replace(line=place.line, column=place.column)


_MIN_SIMILARITY = 0.85
"""Similarity with a known reason from which a warning is due: plugins have their own reasons."""
