"""What does function-extra-resources v0.1.0 fetch, and where does it put it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kanister_py.core.objects.parts import spec_of
from kanister_py.functions.composition.answering import (
    EXTRA_RESOURCES_KEY,
    MATCH_LABELS,
    TEXT,
    WHOLE,
    Data,
    Refused,
    add_result,
    answer_to,
    composite_of,
    enough_of,
    matched_labels,
    read_input,
    required,
    set_context,
)
from kanister_py.ports.composition_function import CompositionFunction

if TYPE_CHECKING:
    from pydantic import BaseModel

_SHAPE = {
    "spec": {
        "extraResources": [
            {
                "type": TEXT,
                "kind": TEXT,
                "apiVersion": TEXT,
                "namespace": TEXT,
                "into": TEXT,
                "ref": {"name": TEXT},
                "selector": {
                    "minMatch": WHOLE,
                    "maxMatch": WHOLE,
                    "sortByFieldPath": TEXT,
                    "matchLabels": MATCH_LABELS,
                },
            }
        ],
        "policy": {"resolution": TEXT},
        "context": {"key": TEXT},
    }
}


class ExtraResources(CompositionFunction):
    """Fetch resources, by name or by labels, and put them into the context.

    Steps after this one find them under `apiextensions.crossplane.io/extra-resources`,
    or the key that `context.key` names: for each `into` a list of whole objects.
    """

    name = "function-extra-resources"
    finds_nothing: ClassVar[bool] = False
    """A selector that lost all its labels has found nothing, where v0.1.0 fails."""

    @classmethod
    def described_input(cls) -> type[BaseModel]:
        from kanister_py.functions.composition.extra_resources.input import Input

        return Input

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = answer_to(request)
        try:
            _run(request, answer, finds_nothing=self.finds_nothing)
        except Refused as refused:
            add_result(answer, "FATAL", str(refused))
        return answer


def _run(request: Mapping[str, Any], answer: Data, *, finds_nothing: bool) -> None:
    spec = spec_of(read_input(request, "v1beta1.Input", _SHAPE))
    sources = spec.get("extraResources", [])
    asked = _requirements(sources, composite_of(request))
    answer["requirements"] = {"resources": asked} if asked else {}
    if not request.get("requiredResources") and not (finds_nothing and sources and not asked):
        return  # nobody has looked yet
    is_optional = spec.get("policy", {}).get("resolution", "Required") == "Optional"
    found: dict[str, list[Data]] = {}
    for source in sources:
        try:
            objects = required(request, source.get("into", ""))
            if finds_nothing and source.get("into", "") not in asked:
                objects = []
            _take(source, objects, found, is_optional=is_optional)
        except Refused as refused:
            raise Refused(f"verifying and sorting extra resources: {refused}") from None
    set_context(answer, spec.get("context", {}).get("key", EXTRA_RESOURCES_KEY), found)


def _requirements(sources: list[Data], composite: Data) -> Data:
    selectors: dict[str, Data] = {}
    for source in sources:
        selector: Data = {
            "apiVersion": source.get("apiVersion", ""),
            "kind": source.get("kind", ""),
        }
        if source.get("type", "Reference") == "Selector":
            wanted = source.get("selector", {}).get("matchLabels", [])
            try:
                labels, is_short = matched_labels(wanted, composite)
            except Refused as refused:
                message = f"could not build extra resource requirements: {refused}"
                raise Refused(message) from None
            if is_short and not labels:
                continue  # every one of the kind would be more than anybody meant
            selector["matchLabels"] = {"labels": labels} if labels else {}
        else:
            name = source.get("ref", {}).get("name")
            if name is None:
                raise Refused(
                    "could not build extra resource requirements: "
                    f'extra resource "{source.get("into", "")}" is a Reference without ref.name'
                )
            selector["matchName"] = name
        if source.get("namespace"):
            selector["namespace"] = source["namespace"]
        selectors[source.get("into", "")] = selector
    return selectors


def _take(
    source: Data, objects: list[Data] | None, found: dict[str, list[Data]], *, is_optional: bool
) -> None:
    into = source.get("into", "")
    if objects is None:
        raise Refused(f'cannot find expected extra resource "{into}"')
    if source.get("type", "Reference") == "Selector":
        selector = source.get("selector", {})
        least = selector.get("minMatch")
        if least is not None and len(objects) < least:
            raise Refused(f'expected at least {least} extra resources "{into}", got {len(objects)}')
        found.setdefault(into, []).extend(enough_of(objects, selector))
    elif objects:
        if len(objects) > 1:
            raise Refused(f'expected exactly one extra resource "{into}", got {len(objects)}')
        found.setdefault(into, []).append(objects[0])
    elif not is_optional:
        raise Refused(f'Required extra resource "{into}" not found')
