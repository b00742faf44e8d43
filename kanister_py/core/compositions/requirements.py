"""Requirements of a step's function: objects that it needs, and rules that restrict them."""

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
    """Objects fetched for one call, by the names of their requirements."""

    resources: Mapping[str, Data] = {}
    extra_resources: Mapping[str, Data] = {}
    schemas: Mapping[str, Data] = {}


def requirements_of(response: FunctionResponse) -> Data | None:
    """Return the requirements in a response without empty maps, or None."""
    requirements = response.requirements or {}
    selectors = {key: requirements[key] for key in KINDS if requirements.get(key)}
    return selectors or None


def with_fetched(
    request: FunctionRequest, boot: FunctionRequest, fetched: Fetched
) -> FunctionRequest:
    """Return the request with fetched objects, in addition to the objects of `boot`.

    `boot` is the first request, which has the objects that the step itself requires. Empty maps
    are left out, since some functions check for their presence.
    """
    return request._replace(
        required_resources={**(boot.required_resources or {}), **fetched.resources} or None,
        extra_resources=dict(fetched.extra_resources) or None,
        required_schemas={**(boot.required_schemas or {}), **fetched.schemas} or None,
    )


def requirements_not_settled(
    rounds: int, before: Data | None, last: FunctionResponse
) -> UsageError:
    """Build the error for a function whose requirements change in every iteration."""
    requests = (
        f"the last but one iteration required {_text_of(before)}; "
        f"the last one required {_text_of(requirements_of(last))}"
    )
    messages = [str(result["message"]) for result in last.results if result.get("message")]
    if messages:
        requests += f"; results: {'; '.join(messages)}"
    return UsageError(
        "requirements didn't stabilize after the maximum number of iterations "
        f"({rounds}): {requests}",
        reason="RequirementsUnsettled",
    )


def _text_of(requirements: Data | None) -> str:
    if not requirements:
        return "nothing"
    return ", ".join(
        f"{name}: {text_of_selector(selector)}"
        for key in KINDS
        for name, selector in sorted((requirements.get(key) or {}).items())
    )


def required_labels(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the labels in a selector."""
    return (selector.get("matchLabels") or {}).get("labels") or {}


def text_of_selector(selector: Mapping[str, Any]) -> str:
    """Describe a selector for messages."""
    text = f"{selector.get('kind')} of {selector.get('apiVersion')}"
    if selector.get("namespace"):
        text += f" in {selector['namespace']}"
    if "matchName" in selector:
        return f"{text} named {selector['matchName']}"
    labels = required_labels(selector)
    if labels:
        text += f" with labels {', '.join(f'{key}={labels[key]}' for key in sorted(labels))}"
    return text


def check_allowed(step: Step, requirements: Data) -> None:
    """Raise UsageError for invalid requirements, and for resources that the step does not allow.

    Schemas are always allowed.
    """
    for key in KINDS:
        for name, selector in sorted((requirements.get(key) or {}).items()):
            address = {"name": selector.get("matchName"), **selector}
            for field, problem in problems_with(address):
                raise UsageError(
                    f"requirement {name} is not valid: {field}: {problem}",
                    reason="RequirementRefused",
                )
    for key in KINDS[:2]:
        for name, selector in sorted((requirements.get(key) or {}).items()):
            if not is_allowed(step, selector):
                raise UsageError(
                    f"it may not require {text_of_selector(selector)} (requirement {name}): "
                    f"{_rules_of(step)}",
                    reason="RequirementRefused",
                )


def _rules_of(step: Step) -> str:
    if step.allowed is None:
        return "Secrets are allowed only if the step's allowedExtraResources name them"
    return f"allowedExtraResources has {'; '.join(map(str, step.allowed)) or 'nothing'}"


def is_allowed(step: Step, selector: Mapping[str, Any]) -> bool:
    """Return whether a step's function may require the resources of a selector.

    Without `allowedExtraResources` everything but Secrets is allowed.
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
    # A request that does not name a label selects objects with any value of it, so it is refused.
    return all(
        key in labels and _matches(pattern, labels[key])
        for key, pattern in (rule.match_labels or {}).items()
    ) and all(
        requirement.key in labels and requirement.matches(labels)
        for requirement in rule.selector.requirements
    )


def _matches(pattern: str, text: str) -> bool:
    return re2.fullmatch(pattern, text) is not None
