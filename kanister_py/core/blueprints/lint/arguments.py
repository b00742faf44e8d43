"""Arguments and times of a phase, held against what its function takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_origin

from kanister_py.core.blueprints.analysis import Defect, wrong_arguments
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.errors import did_you_mean
from kanister_py.core.kube.pod_shapes import misshapen_in
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.retries import REASONS

MISSING = Rule(
    "argument-missing",
    Severity.ERROR,
    "A phase lacks an argument that its function requires.",
    "The phase fails before it does anything. `kanister-py functions describe` lists "
    "what a function requires, what it takes besides, and the defaults.",
)
UNKNOWN = Rule(
    "argument-unknown",
    Severity.ERROR,
    "A phase gives an argument that its function does not know.",
    "The phase fails before it does anything: a misspelt argument must not be "
    "overlooked. Names of arguments are exact, capitals included.",
)
MISTYPED = Rule(
    "argument-type",
    Severity.ERROR,
    "A phase gives an argument something that its function cannot take for it.",
    "Arguments are read as loosely as Kanister reads them: a number may be written as "
    "text, a list of one without its brackets. What is left over cannot be meant. Only "
    "what stands there is judged, never what a template will say.",
)
DURATION = Rule(
    "duration-invalid",
    Severity.ERROR,
    "A time of a phase cannot be read, or cannot be meant.",
    "Times are written as Go writes them: 90s, 5m, 1h30m. They need a unit. A phase with a "
    "timeout of zero or less fails at once; one without has no bound.",
)
RETRY_REASON = Rule(
    "retry-reason-unknown",
    Severity.WARNING,
    "A phase is tried again for a reason that nearly has the name of another one.",
    "`retry.on` lists reasons of failures, capitals included, and a phase that fails for any "
    "other is not tried again. docs/blueprints.md lists those of the functions that come with "
    "us; functions of others have more, which are not reported.",
)
COMMAND_AS_TEXT = Rule(
    "command-as-text",
    Severity.INFO,
    "A command is one text with spaces, where a list of words is meant.",
    "A text counts as a list of one, so that the whole of it is the name of a program: `echo hi` "
    "is looked for, and found nowhere. Write `[echo, hi]`, or `[sh, -c, 'echo hi']` for a shell.",
)
POD_FIELD = Rule(
    "pod-field-unknown",
    Severity.WARNING,
    "A podOverride names a field that pods do not have, and nearly the name of one they have.",
    "An API server passes over fields that it does not know: the pod is made without it.",
)
UNQUOTED = Rule(
    "argument-in-shell",
    Severity.WARNING,
    "An argument from the ActionSet becomes part of a shell command without quotes.",
    "As in Kanister, v0.0.0 of the functions that run restic puts its arguments into a command "
    "line without quotes. IDs and tags are refused if they mean something to a shell; paths and "
    "prefixes are not. Whoever writes the ActionSet could run commands in the pod, which has "
    "the credentials of the store. v0.1.0 uses no shell for its arguments.",
)
OF_ARGUMENTS = (MISSING, UNKNOWN, MISTYPED)
RULES = (*OF_ARGUMENTS, DURATION, RETRY_REASON, COMMAND_AS_TEXT, POD_FIELD, UNQUOTED)

_RULES_BY_ID = {rule.id: rule for rule in OF_ARGUMENTS}


def check_arguments(
    spot: Spot, phase: Phase, entry: FunctionEntry, context: Context
) -> Iterator[Finding]:
    """Hold the args of a phase against the model of the version that it gets."""
    if any(may_be_template(name) for name in phase.args):
        return
    code = context.code(entry)
    if code is None:
        return
    yield from _commands_as_text(spot, phase, code.Args)
    yield from _unquoted(spot, phase, entry, code.Args)
    if "pod_override" in code.Args.model_fields:
        yield from _fields_of_no_pod(spot, phase.args.get("podOverride"))
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
            message = f"{name} is a text, so {value!r} as a whole is taken for a program's name"
            remedy = "write a list of words"
            yield spot.at("args", name).finding(COMMAND_AS_TEXT, f"{message}; {remedy}")


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


def _fields_of_no_pod(spot: Spot, override: object) -> Iterator[Finding]:
    for each in misshapen_in(override, "podOverride"):
        # What is given a shape that no pod has is for the model of the function.
        if not each.wanted:
            yield spot.at("args", "podOverride").finding(POD_FIELD, str(each))


def _is_open(value: object) -> bool:
    return isinstance(value, str) and may_be_template(value)


def may_be_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def conditions_of(function: Any) -> tuple[str, ...]:
    """Say what the conditions of a class may call besides Go's own functions.

    `*` stands for the functions of blueprints.
    """
    return tuple(getattr(function, "condition_functions", ("*",)))


def check_retry(spot: Spot, phase: Phase, hints: Hints) -> Iterator[Finding]:
    """Look for misspelt reasons among those for which a phase is tried again."""
    for at, reason in enumerate(phase.retry.on if phase.retry is not None else ()):
        near = () if reason in REASONS else hints.nearest(reason, REASONS, _ALIKE)
        if near:
            message = f"No failure has the reason {reason}{did_you_mean(near)}"
            path = (*spot.path, "retry", "on")
            is_bare = spot.found.document.node_at((*spot.found.path, *path)) is None
            # YAML reads the bare key `on` as true.
            place = spot.found.place_of((*path[:-1], "true", at) if is_bare else (*path, at))
            found = spot.at("retry", "on", at).finding(RETRY_REASON, message)
            yield found._replace(line=place.line, column=place.column)


_ALIKE = 0.85
"""How much a reason must be like a known one, since functions of others have their own."""
