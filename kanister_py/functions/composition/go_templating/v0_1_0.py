"""What does function-go-templating v0.1.0 make of a template?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from kanister_py.functions.composition.answering import (
    TEXT,
    Data,
    Refused,
    add_result,
    answer_to,
    read_input,
)
from kanister_py.functions.composition.go_templating.data import template_data, with_delimiters
from kanister_py.functions.composition.go_templating.functions import FUNCTIONS
from kanister_py.functions.composition.templating.composing import Vocabulary, compose, wanted_ttl
from kanister_py.functions.composition.templating.manifests import read_manifests
from kanister_py.functions.composition.templating.sources import template_of
from kanister_py.functions.composition.templating.surroundings import EFFECTS
from kanister_py.gotemplate import MissingKey, Template, compile_template
from kanister_py.gotemplate.errors import GoTemplateError, ParseError
from kanister_py.ports.composition_function import CompositionFunction

if TYPE_CHECKING:
    from pydantic import BaseModel

WORDS = Vocabulary.of_group("gotemplating.fn.crossplane.io")

_SHAPE = {
    "source": TEXT,
    "inline": {"template": TEXT, "templates": [TEXT]},
    "fileSystem": {"dirPath": TEXT},
    "environment": {"key": TEXT},
    "delims": {"left": TEXT, "right": TEXT},
    "options": [TEXT],
    "ttl": TEXT,
}


class GoTemplating(CompositionFunction):
    """Compose resources with a Go template that is given the request.

    The template writes manifests. Each is a composed resource, named by the annotation
    `gotemplating.fn.crossplane.io/composition-resource-name`; or the composite resource
    with a status to be set; or of a kind of `meta.gotemplating.fn.crossplane.io/v1alpha1`:
    CompositeConnectionDetails, ClaimConditions, Context, ExtraResources.
    """

    name = "function-go-templating"
    is_strict: ClassVar = False
    """Whether what would be lost in silence fails the step."""

    @classmethod
    def described_input(cls) -> type[BaseModel]:
        from kanister_py.functions.composition.go_templating.input import GoTemplate

        return GoTemplate

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = answer_to(request)
        try:
            given = read_input(request, "v1beta1.GoTemplate", _SHAPE)
            strict = self.is_strict
            answer["meta"]["ttl"] = wanted_ttl(given, request, WORDS, is_strict=strict)
            text = template_of(given, request.get("context") or {})
            template = _template(text, given)
            compose(
                request,
                answer,
                read_manifests(_rendered(template, request)),
                WORDS,
                is_strict=strict,
            )
        except Refused as refused:
            add_result(answer, "FATAL", str(refused))
        return answer


def _template(text: str, given: Data) -> Template:
    delimiters = given.get("delims", {})
    left, right = delimiters.get("left"), delimiters.get("right")
    if left and right and (left, right) != ("{{", "}}"):
        text = with_delimiters(text, left, right)
    missing_key = "default"
    for option in given.get("options", []):
        key, _, value = option.partition("=")
        if key != "missingkey" or value not in ("default", "invalid", "zero", "error"):
            raise Refused(f"invalid function input: unrecognized option: {option}")
        missing_key = value
    try:
        return _compiled(text, cast("MissingKey", missing_key))
    except ParseError as error:
        raise Refused(
            f"invalid function input: cannot parse the provided templates: {error.message}"
        ) from None


# Also what is too long for the cache of all templates: steps are few, and called often.
@lru_cache(maxsize=128)
def _compiled(text: str, missing_key: MissingKey) -> Template:
    return compile_template(text, FUNCTIONS, name="manifests", missing_key=missing_key)


def _rendered(template: Template, request: Mapping[str, Any]) -> str:
    try:
        return template.execute(template_data(request), EFFECTS)
    except GoTemplateError as error:
        raise Refused(f"cannot execute template: {error.message}") from None
