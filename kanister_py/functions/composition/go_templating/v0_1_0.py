"""function-go-templating v0.1.0: composed resources from a Go template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, cast

from kanister_py.core.templates.execution import execute
from kanister_py.functions.composition.answering import Data, Refused
from kanister_py.functions.composition.fields import TEXT, Field
from kanister_py.functions.composition.go_templating.data import template_data, with_delimiters
from kanister_py.functions.composition.go_templating.functions import FUNCTIONS
from kanister_py.functions.composition.templating.composing import Vocabulary
from kanister_py.functions.composition.templating.function import (
    EFFECTS,
    Templating,
    templating_fields,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.errors import GoTemplateError, ParseError
from kanister_py.gotemplate.limits import Budget, Limits
from kanister_py.gotemplate.template import MissingKey, Template, compile_template

_DELIMITERS = {
    "left": Field(TEXT, "Left delimiter of actions"),
    "right": Field(TEXT, "Right delimiter of actions"),
}


class GoTemplating(Templating):
    """Composes resources with a Go template that receives the request.

    The template renders manifests. A manifest is one of: a composed resource, named by the
    annotation `gotemplating.fn.crossplane.io/composition-resource-name`; the composite
    resource, with the status to set; or an object of a kind of
    `meta.gotemplating.fn.crossplane.io/v1alpha1`: CompositeConnectionDetails,
    ClaimConditions, Context or ExtraResources.
    """

    name = "function-go-templating"
    go_type = "v1beta1.GoTemplate"
    words = Vocabulary.of_group("gotemplating.fn.crossplane.io")
    fields: ClassVar = templating_fields(
        "gotemplating.fn.crossplane.io/v1beta1",
        "GoTemplate",
        delims=Field(_DELIMITERS, "Delimiters to use instead of {{ and }}"),
        options=Field(
            [TEXT], "Options of Go templates: missingkey=error, zero, default or invalid"
        ),
    )

    def check_template(self, text: str, function_input: Data) -> None:
        _template(text, function_input)

    def rendered(self, text: str, function_input: Data, request: Mapping[str, Any]) -> str:
        _template(text, function_input)
        try:
            return execute(_Manifests(text, function_input, request), EFFECTS)
        except GoTemplateError as error:
            raise Refused(f"cannot execute template: {error.message}") from None


class _Manifests(NamedTuple):
    """Execution of a template for a request."""

    text: str
    function_input: Data
    request: Mapping[str, Any]
    is_costly: bool = False

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        template = _template(self.text, self.function_input)
        return template.execute(template_data(self.request), effects, limits, budget)


def _template(text: str, function_input: Data) -> Template:
    delimiters = function_input.get("delims", {})
    left, right = delimiters.get("left"), delimiters.get("right")
    if left and right and (left, right) != ("{{", "}}"):
        text = with_delimiters(text, left, right)
    missing_key = "default"
    for option in function_input.get("options", []):
        key, _, value = option.partition("=")
        if key != "missingkey" or value not in ("default", "invalid", "zero", "error"):
            raise Refused(f"invalid function input: unrecognized option: {option}", "options")
        missing_key = value
    try:
        return _compiled(text, cast("MissingKey", missing_key))
    except ParseError as error:
        raise Refused(
            f"invalid function input: cannot parse the provided templates: {error.message}",
            "inline",
        ) from None


# Also caches templates too long for the general cache: steps are few and called often.
@lru_cache(maxsize=128)
def _compiled(text: str, missing_key: MissingKey) -> Template:
    return compile_template(text, FUNCTIONS, name="manifests", missing_key=missing_key)
