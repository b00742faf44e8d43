"""Requirements of a step's function: what it needs besides, and what it may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import re2

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse
from kanister_py.core.compositions.model import AllowedResource, Step
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.request_paths import problems_with

KINDS = ("resources", "extraResources", "schemas")


class Fetched(NamedTuple):
    """Objects fetched for one call, under the names it asked by."""

    resources: Mapping[str, Data] = {}
    extra_resources: Mapping[str, Data] = {}
    schemas: Mapping[str, Data] = {}


def requirements_of(response: FunctionResponse) -> Data | None:
    """Give what a function asks for, without maps that ask for nothing."""
    asked = response.requirements or {}
    found = {key: asked[key] for key in KINDS if asked.get(key)}
    return found or None


def with_fetched(
    request: FunctionRequest, boot: FunctionRequest, found: Fetched
) -> FunctionRequest:
    """Put what was fetched into a request, beside what the step gives from the start.

    A map in which nothing stands is left out: some functions look whether it is there.
    """
    return request._replace(
        required_resources={**(boot.required_resources or {}), **found.resources} or None,
        extra_resources=dict(found.extra_resources) or None,
        required_schemas={**(boot.required_schemas or {}), **found.schemas} or None,
    )


def requirements_not_settled(
    rounds: int, before: Data | None, last: FunctionResponse
) -> UsageError:
    """Give the error of a function that asks for more in every round, with its last requests."""
    asked = (
        f"in the round before the last it asked for {_text_of(before)}; "
        f"in the last it asked for {_text_of(requirements_of(last))}"
    )
    messages = [str(each["message"]) for each in last.results if each.get("message")]
    if messages:
        asked += f"; it said: {'; '.join(messages)}"
    return UsageError(
        f"requirements didn't stabilize after the maximum number of iterations ({rounds}): {asked}",
        reason="RequirementsUnsettled",
    )


def _text_of(asked: Data | None) -> str:
    if not asked:
        return "nothing"
    return ", ".join(
        f"{name}: {text_of_selector(selector)}"
        for key in KINDS
        for name, selector in sorted((asked.get(key) or {}).items())
    )


def required_labels(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the labels that a selector asks for."""
    return (selector.get("matchLabels") or {}).get("labels") or {}


def text_of_selector(selector: Mapping[str, Any]) -> str:
    """Say in words what a selector selects."""
    text = f"{selector.get('kind')} of {selector.get('apiVersion')}"
    if selector.get("namespace"):
        text += f" in {selector['namespace']}"
    if "matchName" in selector:
        return f"{text} named {selector['matchName']}"
    labels = required_labels(selector)
    if labels:
        text += f" with labels {', '.join(f'{key}={labels[key]}' for key in sorted(labels))}"
    return text


def check_allowed(step: Step, asked: Data) -> None:
    """Refuse requirements that address nothing, and resources that the step does not allow.

    Schemas are open to all steps.
    """
    for key in KINDS:
        for name, selector in sorted((asked.get(key) or {}).items()):
            address = {"name": selector.get("matchName"), **selector}
            for field, problem in problems_with(address):
                raise UsageError(
                    f"requirement {name} is not valid: {field}: {problem}",
                    reason="RequirementRefused",
                )
    for key in KINDS[:2]:
        for name, selector in sorted((asked.get(key) or {}).items()):
            if not is_allowed(step, selector):
                raise UsageError(
                    f"it may not ask for {text_of_selector(selector)} (requirement {name}): "
                    f"{_rules_of(step)}",
                    reason="RequirementRefused",
                )


def _rules_of(step: Step) -> str:
    if step.allowed is None:
        return "Secrets are given only to steps whose allowedExtraResources name them"
    return f"allowedExtraResources has {'; '.join(map(str, step.allowed)) or 'nothing'}"


def is_allowed(step: Step, selector: Mapping[str, Any]) -> bool:
    """Say whether a step's function may ask for this.

    Without a list it may ask for anything but Secrets; with one, for what it names.
    """
    if step.allowed is None:
        return not (selector.get("kind") == "Secret" and selector.get("apiVersion") == "v1")
    return any(_allows(rule, selector) for rule in step.allowed)


def _allows(rule: AllowedResource, selector: Mapping[str, Any]) -> bool:
    if (rule.api_version, rule.kind) != (selector.get("apiVersion"), selector.get("kind")):
        return False
    if rule.namespace is not None and not _matches(
        rule.namespace, str(selector.get("namespace") or "")
    ):
        return False
    if rule.match_name is not None:
        return "matchName" in selector and _matches(rule.match_name, selector["matchName"])
    labels = required_labels(selector)
    # A label that is not asked for may have any value in what is found.
    return all(
        key in labels and _matches(pattern, labels[key])
        for key, pattern in (rule.match_labels or {}).items()
    ) and all(each.key in labels and each.matches(labels) for each in rule.selector.requirements)


def _matches(pattern: str, text: str) -> bool:
    return re2.fullmatch(pattern, text) is not None
