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
    asked_for,
    enough_of,
    is_optional,
    is_selector,
    required,
    selector_fields,
)

_SOURCE = {
    "type": TYPE,
    "kind": Field(TEXT, "Kind of the resources", REQUIRED),
    "apiVersion": Field(TEXT, "API version of the resources", REQUIRED),
    "namespace": Field(TEXT, "Their namespace"),
    "into": Field(TEXT, "Key under which they are put into the context", REQUIRED),
    "ref": REFERENCE,
    "selector": Field(
        selector_fields("Field path of the observed composite resource", "FromCompositeFieldPath"),
        "Those that are meant",
    ),
}
_SPEC = {
    "extraResources": Field([_SOURCE], "What is fetched", []),
    "policy": POLICY,
    "context": Field(
        {"key": Field(TEXT, "Key of the context", EXTRA_RESOURCES_KEY)}, "Where what is found goes"
    ),
}


class ExtraResources(AnsweringFunction):
    """Fetch resources, by name or by labels, and put them into the context.

    Steps after this one find them under `apiextensions.crossplane.io/extra-resources`,
    or the key that `context.key` names: for each `into` a list of whole objects.
    """

    name = "function-extra-resources"
    go_type = "v1beta1.Input"
    fields: ClassVar = {
        **head("extra-resources.fn.crossplane.io/v1beta1", "Input"),
        "spec": Field(_SPEC, "What is wanted"),
    }
    finds_nothing: ClassVar[bool] = False
    """A selector that lost all its labels has found nothing, where v0.1.0 fails."""

    def answer(self, request: Mapping[str, Any], given: Data, answer: Data) -> None:
        spec = spec_of(given)
        sources = spec.get("extraResources", [])
        asked = _requirements(sources, composite_of(request))
        answer["requirements"] = {"resources": asked} if asked else {}
        is_settled = self.finds_nothing and sources and not asked
        if not request.get("requiredResources") and not is_settled:
            return  # nobody has looked yet
        found: dict[str, list[Data]] = {}
        for source in sources:
            try:
                objects = required(request, source.get("into", ""))
                if self.finds_nothing and source.get("into", "") not in asked:
                    objects = []
                _take(source, objects, found, may_lack=is_optional(spec))
            except Refused as refused:
                raise Refused(f"verifying and sorting extra resources: {refused}") from None
        set_context(answer, spec.get("context", {}).get("key", EXTRA_RESOURCES_KEY), found)


def _requirements(sources: list[Data], composite: Data) -> Data:
    selectors: dict[str, Data] = {}
    for source in sources:
        into = source.get("into", "")
        try:
            asked, is_short = asked_for(source, f'extra resource "{into}"', composite)
        except Refused as refused:
            raise Refused(f"could not build extra resource requirements: {refused}") from None
        if is_short and asked == NO_LABELS:
            continue  # every one of the kind would be more than the author meant
        kind = {key: source.get(key, "") for key in ("apiVersion", "kind")}
        selectors[into] = {**kind, **asked}
        if source.get("namespace"):
            selectors[into]["namespace"] = source["namespace"]
    return selectors


def _take(
    source: Data, objects: list[Data] | None, found: dict[str, list[Data]], *, may_lack: bool
) -> None:
    into = source.get("into", "")
    if objects is None:
        raise Refused(f'cannot find expected extra resource "{into}"')
    if is_selector(source):
        selector = source.get("selector", {})
        least = selector.get("minMatch")
        if least is not None and len(objects) < least:
            raise Refused(f'expected at least {least} extra resources "{into}", got {len(objects)}')
        found.setdefault(into, []).extend(enough_of(objects, selector))
    elif objects:
        if len(objects) > 1:
            raise Refused(f'expected exactly one extra resource "{into}", got {len(objects)}')
        found.setdefault(into, []).append(objects[0])
    elif not may_lack:
        raise Refused(f'Required extra resource "{into}" not found')
