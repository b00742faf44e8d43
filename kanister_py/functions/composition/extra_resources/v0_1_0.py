"""function-extra-resources v0.1.0: resources fetched into the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.kube.parts import spec_of
from kanister_py.functions.composition.answering import (
    EXTRA_RESOURCES_KEY,
    AnsweringFunction,
    Data,
    Refused,
    composite_of,
    set_context,
)
from kanister_py.functions.composition.fields import REQUIRED, TEXT, Field, head
from kanister_py.functions.composition.selecting import (
    NO_LABELS,
    POLICY,
    REFERENCE,
    TYPE,
    check_minimum,
    is_optional,
    is_selector,
    required,
    requirement_for,
    selector_fields,
)

_SOURCE = {
    "type": TYPE,
    "kind": Field(TEXT, "Kind of the resources", REQUIRED),
    "apiVersion": Field(TEXT, "API version of the resources", REQUIRED),
    "namespace": Field(TEXT, "Namespace of the resources"),
    "into": Field(TEXT, "Key of the list in the context", REQUIRED),
    "ref": REFERENCE,
    "selector": Field(
        selector_fields("Field path of the observed composite resource", "FromCompositeFieldPath"),
        "Selector, for the type Selector",
    ),
}
_SPEC = {
    "extraResources": Field([_SOURCE], "Resources to fetch", []),
    "policy": POLICY,
    "context": Field(
        {"key": Field(TEXT, "Key of the context", EXTRA_RESOURCES_KEY)},
        "Place of the result in the context",
    ),
}


class ExtraResources(AnsweringFunction):
    """Fetches resources, selected by name or by labels, and adds them to the context.

    Later steps find them in the context under `apiextensions.crossplane.io/extra-resources`,
    or under the key in `context.key`: for every `into`, a list of complete objects.
    """

    name = "function-extra-resources"
    go_type = "v1beta1.Input"
    fields: ClassVar = {
        **head("extra-resources.fn.crossplane.io/v1beta1", "Input"),
        "spec": Field(_SPEC, "Specification"),
    }
    finds_nothing: ClassVar[bool] = False
    """Whether a selector that has no label left finds nothing instead of failing the step."""

    def answer(self, request: Mapping[str, Any], function_input: Data, answer: Data) -> None:
        spec = spec_of(function_input)
        sources = spec.get("extraResources", [])
        requirements = _requirements(sources, composite_of(request))
        answer["requirements"] = {"resources": requirements} if requirements else {}
        is_settled = self.finds_nothing and sources and not requirements
        if not request.get("requiredResources") and not is_settled:
            return  # not fetched yet
        selected: dict[str, list[Data]] = {}
        for source in sources:
            try:
                objects = required(request, source.get("into", ""))
                if self.finds_nothing and source.get("into", "") not in requirements:
                    objects = []
                _take(source, objects, selected, may_lack=is_optional(spec))
            except Refused as refused:
                raise Refused(f"verifying and sorting extra resources: {refused}") from None
        set_context(answer, spec.get("context", {}).get("key", EXTRA_RESOURCES_KEY), selected)


def _requirements(sources: list[Data], composite: Data) -> Data:
    selectors: dict[str, Data] = {}
    for source in sources:
        into = source.get("into", "")
        try:
            requirement, is_short = requirement_for(source, f'extra resource "{into}"', composite)
        except Refused as refused:
            raise Refused(f"could not build extra resource requirements: {refused}") from None
        if is_short and requirement == NO_LABELS:
            continue  # without labels, all objects of the kind would be fetched
        kind = {key: source.get(key, "") for key in ("apiVersion", "kind")}
        selectors[into] = {**kind, **requirement}
        if source.get("namespace"):
            selectors[into]["namespace"] = source["namespace"]
    return selectors


def _take(
    source: Data, objects: list[Data] | None, fetched: dict[str, list[Data]], *, may_lack: bool
) -> None:
    into = source.get("into", "")
    if objects is None:
        raise Refused(f'cannot find expected extra resource "{into}"')
    if is_selector(source):
        selector = source.get("selector", {})
        least = selector.get("minMatch")
        if least is not None and len(objects) < least:
            raise Refused(f'expected at least {least} extra resources "{into}", got {len(objects)}')
        fetched.setdefault(into, []).extend(check_minimum(objects, selector))
    elif objects:
        if len(objects) > 1:
            raise Refused(f'expected exactly one extra resource "{into}", got {len(objects)}')
        fetched.setdefault(into, []).append(objects[0])
    elif not may_lack:
        raise Refused(f'Required extra resource "{into}" not found')
