"""function-auto-ready v0.1.0: detection of ready composed resources."""

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
    """Marks composed resources as ready if no earlier step has set their readiness.

    If the input has a CEL expression for the kind of a resource, that expression decides.
    Otherwise the resource is ready if it has a built-in kind whose status shows that it is
    ready, or if its condition Ready is True. Only a CEL expression can mark a resource as not
    ready. Resources that do not exist yet are ignored.
    """

    name = "function-auto-ready"
    go_type = "v1beta1.Input"
    fields: ClassVar = {
        **head("autoready.fn.crossplane.io/v1beta1", "Input"),
        "ttl": TTL,
        "celHealthCheckCustomization": Field(
            {"*": TEXT},
            "CEL expressions that decide whether a resource, the variable `object`, is ready; "
            "the keys are kinds such as apps_v1_Deployment",
        ),
        "celHealthCheckCustomizationFrom": Field(
            TEXT, "Field path of further CEL expressions in the context"
        ),
    }

    def own_verdict(self, resource: Data) -> bool | None:
        """Return True if a resource is ready, else None: it may become ready at any moment."""
        return True if is_healthy(resource) else None

    def answer(self, request: Mapping[str, Any], function_input: Data, answer: Data) -> None:
        checks = _checks_of(function_input, request.get("context") or {})
        answer["meta"]["ttl"] = ttl_of(function_input.get("ttl")) or DEFAULT_TTL
        observed = (request.get("observed") or {}).get("resources") or {}
        desired = answer["desired"].get("resources") or {}
        judged: dict[str, Data] = {}
        for name in sorted(desired):
            composed = desired[name]
            seen = observed.get(name)
            if seen is None or composed.get("ready", _UNSPECIFIED) != _UNSPECIFIED:
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
                judged[name] = {**composed, "ready": "READY_TRUE" if verdict else "READY_FALSE"}
        if judged:
            answer["desired"] = {**answer["desired"], "resources": {**desired, **judged}}


def _checks_of(function_input: Data, context: Data) -> dict[str, str]:
    """Return the expressions by kind; the input takes precedence over the context."""
    own: dict[str, str] = function_input.get("celHealthCheckCustomization", {})
    path = function_input.get("celHealthCheckCustomizationFrom")
    if not path:
        return own
    failed = "cannot get CEL health checks from the context: "
    try:
        checks = parse_field_path(path).get(context)
    except FieldPathError as error:
        raise Refused(f"{failed}{error}") from None
    if not isinstance(checks, dict) or not all(isinstance(check, str) for check in checks.values()):
        raise Refused(f"{failed}{path}: not a map of strings")
    return {**checks, **own}


_UNSPECIFIED = "READY_UNSPECIFIED"


def _kind_of(resource: Data) -> str:
    """Return a kind in the notation of the input: `apps_v1_Deployment`, `_v1_Pod`."""
    group, _, version = str(resource.get("apiVersion", "")).rpartition("/")
    return f"{group}_{version}_{resource.get('kind', '')}"


def _verdict(text: str, resource: Data) -> bool:
    verdict = compile_cel(text).evaluate({"object": resource})
    if not isinstance(verdict, bool):
        raise CelError(text, f"it must say true or false, and says {verdict!r}")
    return verdict
