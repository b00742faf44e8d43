"""What does function-jinja-templating v0.1.0 make of a template?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kanister_py.core.templates.errors import TemplateError, TemplateParseError
from kanister_py.functions.composition.answering import (
    TEXT,
    Refused,
    add_result,
    answer_to,
    read_input,
)
from kanister_py.functions.composition.templating.composing import Vocabulary, compose, wanted_ttl
from kanister_py.functions.composition.templating.manifests import read_manifests
from kanister_py.functions.composition.templating.sources import template_of
from kanister_py.functions.composition.templating.surroundings import EFFECTS
from kanister_py.ports.composition_function import CompositionFunction

if TYPE_CHECKING:
    from pydantic import BaseModel

WORDS = Vocabulary.of_group("jinjatemplating.fn.kanister-py.io")

_SHAPE = {
    "source": TEXT,
    "inline": {"template": TEXT, "templates": [TEXT]},
    "fileSystem": {"dirPath": TEXT},
    "environment": {"key": TEXT},
    "ttl": TEXT,
}
_NAMES = (
    "meta",
    "observed",
    "desired",
    "input",
    "context",
    "credentials",
    "requiredResources",
    "extraResources",
    "requiredSchemas",
)


class JinjaTemplating(CompositionFunction):
    """Compose resources with a Jinja2 template that is given the request.

    As function-go-templating, in another language: the names are those of the request
    (`observed.composite.resource.spec.region`), and what is not there is an error unless
    a template asks first (`is defined`, `default`). `getComposedResource(name)` and its
    kin have the request at hand, and give what is empty for what is not there.
    Annotations and kinds belong to the group `jinjatemplating.fn.kanister-py.io`: each
    manifest is a composed resource, named by the annotation
    `jinjatemplating.fn.kanister-py.io/composition-resource-name`, or the composite
    resource with a status, or of a kind of
    `meta.jinjatemplating.fn.kanister-py.io/v1alpha1`.
    """

    name = "function-jinja-templating"
    is_strict: ClassVar = False
    """Whether what would be lost in silence fails the step."""

    @classmethod
    def described_input(cls) -> type[BaseModel]:
        from kanister_py.functions.composition.jinja_templating.input import JinjaTemplate

        return JinjaTemplate

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = answer_to(request)
        try:
            given = read_input(request, "v1alpha1.JinjaTemplate", _SHAPE)
            strict = self.is_strict
            answer["meta"]["ttl"] = wanted_ttl(given, request, WORDS, is_strict=strict)
            text = template_of(given, request.get("context") or {})
            compose(
                request, answer, read_manifests(_rendered(text, request)), WORDS, is_strict=strict
            )
        except Refused as refused:
            add_result(answer, "FATAL", str(refused))
        return answer


def _rendered(text: str, request: Mapping[str, Any]) -> str:
    # Jinja2 takes longer to import than most calls take; others do without it.
    from kanister_py.core.templates.jinja import compile_jinja
    from kanister_py.functions.composition.jinja_templating.functions import functions_for

    data = {name: request.get(name) or {} for name in _NAMES}
    # Resources that were fetched stand under both of their names.
    data["requiredResources"] = data["requiredResources"] or data["extraResources"]
    data["extraResources"] = data["extraResources"] or data["requiredResources"]
    try:
        functions = functions_for(request, WORDS.resource_name)
        return compile_jinja(text).execute_over(data, EFFECTS, functions=functions)
    except TemplateParseError as error:
        raise Refused(
            f"invalid function input: cannot parse the provided templates: {error.message}"
        ) from None
    except TemplateError as error:
        raise Refused(f"cannot execute template: {error.message}") from None
