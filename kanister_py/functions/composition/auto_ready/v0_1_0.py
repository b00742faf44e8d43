"""function-auto-ready v0.1.0: composed resources that are ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.cel.expression import compile_cel
from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.functions.composition.answering import (
    DEFAULT_TTL,
    AnsweringFunction,
    Data,
    Refused,
    add_result,
    ttl_of,
)
from kanister_py.functions.composition.auto_ready.health import is_healthy
from kanister_py.functions.composition.fields import TEXT, TTL, Field, head


class AutoReady(AnsweringFunction):
    """Say of composed resources that they are ready, where nobody else has said anything.

    Asks, in this order: a CEL expression of the input for its kind; what Kubernetes'
    own kinds show in their status; the condition Ready. Only a CEL expression can say
    that a resource is not ready. What does not exist yet is left alone.
    """

    name = "function-auto-ready"
    go_type = "v1beta1.Input"
    fields: ClassVar = {
        **head("autoready.fn.crossplane.io/v1beta1", "Input"),
        "ttl": TTL,
        "celHealthCheckCustomization": Field(
            {"*": TEXT},
            "For kinds such as apps_v1_Deployment a CEL expression over `object` that "
            "says whether it is ready",
        ),
        "celHealthCheckCustomizationFrom": Field(
            TEXT, "Field path of the context where there are more of them"
        ),
    }

    def own_verdict(self, resource: Data) -> bool | None:
        """Say True, or nothing: what is not ready now may be so any moment."""
        return True if is_healthy(resource) else None

    def answer(self, request: Mapping[str, Any], given: Data, answer: Data) -> None:
        checks = _checks_of(given, request.get("context") or {})
        answer["meta"]["ttl"] = ttl_of(given.get("ttl")) or DEFAULT_TTL
        observed = (request.get("observed") or {}).get("resources") or {}
        desired = answer["desired"].get("resources") or {}
        judged: dict[str, Data] = {}
        for name in sorted(desired):
            wanted = desired[name]
            seen = observed.get(name)
            if seen is None or wanted.get("ready", _UNSPECIFIED) != _UNSPECIFIED:
                continue
            resource = seen.get("resource") or {}
            text = checks.get(_kind_of(resource)) if checks else None
            try:
                verdict = (
                    _verdict(text, resource) if text is not None else self.own_verdict(resource)
                )
            except CelError as error:
                add_result(
                    answer,
                    "WARNING",
                    f'cannot tell by CEL whether composed resource "{name}" '
                    f"({_kind_of(resource)}) is ready: {error}",
                )
                continue
            if verdict is not None:
                judged[name] = {**wanted, "ready": "READY_TRUE" if verdict else "READY_FALSE"}
        if judged:
            answer["desired"] = {**answer["desired"], "resources": {**desired, **judged}}


def _checks_of(given: Data, context: Data) -> dict[str, str]:
    """Give the expression for each kind; what the input says itself comes first."""
    own: dict[str, str] = given.get("celHealthCheckCustomization", {})
    path = given.get("celHealthCheckCustomizationFrom")
    if not path:
        return own
    failed = "cannot get CEL health checks from the context: "
    try:
        found = parse_field_path(path).get(context)
    except FieldPathError as error:
        raise Refused(f"{failed}{error}") from None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise Refused(f"{failed}{path}: not a map of strings")
    return {**found, **own}


_UNSPECIFIED = "READY_UNSPECIFIED"


def _kind_of(resource: Data) -> str:
    """Name a kind as the input does: `apps_v1_Deployment`, `_v1_Pod`."""
    group, _, version = str(resource.get("apiVersion", "")).rpartition("/")
    return f"{group}_{version}_{resource.get('kind', '')}"


def _verdict(text: str, resource: Data) -> bool:
    verdict = compile_cel(text).evaluate({"object": resource})
    if not isinstance(verdict, bool):
        raise CelError(text, f"it must say true or false, and says {verdict!r}")
    return verdict
