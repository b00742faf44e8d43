"""function-jinja-templating v0.1.0: composed resources from a Jinja2 template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from kanister_py.core.templates.errors import TemplateError, TemplateParseError
from kanister_py.core.templates.execution import execute
from kanister_py.core.templates.jinja import JinjaTemplate, compile_jinja
from kanister_py.functions.composition.answering import Data, Refused
from kanister_py.functions.composition.jinja_templating.functions import functions_for
from kanister_py.functions.composition.templating.composing import Vocabulary
from kanister_py.functions.composition.templating.function import (
    EFFECTS,
    Templating,
    templating_fields,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.limits import Budget, Limits

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


class JinjaTemplating(Templating):
    """Composes resources with a Jinja2 template that receives the request.

    Like function-go-templating, in another language. The variables are the fields of the
    request (`observed.composite.resource.spec.region`). An undefined value is an error unless
    the template tests it (`is defined`, `default`). Functions such as
    `getComposedResource(name)` read the request without an argument for it, and return an
    empty value if nothing is found.

    Annotations and kinds are in the group `jinjatemplating.fn.kanister-py.io`. A manifest is
    one of: a composed resource, named by the annotation
    `jinjatemplating.fn.kanister-py.io/composition-resource-name`; the composite resource,
    with its status; or an object of a kind of
    `meta.jinjatemplating.fn.kanister-py.io/v1alpha1`.
    """

    name = "function-jinja-templating"
    go_type = "v1alpha1.JinjaTemplate"
    words = Vocabulary.of_group("jinjatemplating.fn.kanister-py.io")
    fields: ClassVar = templating_fields(
        "jinjatemplating.fn.kanister-py.io/v1alpha1", "JinjaTemplate"
    )

    def check_template(self, text: str, function_input: Data) -> None:
        try:
            compile_jinja(text)
        except TemplateParseError as error:
            raise Refused(
                f"invalid function input: cannot parse the provided templates: {error.message}",
                "inline",
            ) from None

    def rendered(self, text: str, function_input: Data, request: Mapping[str, Any]) -> str:
        self.check_template(text, function_input)
        try:
            return execute(_Manifests(text, request, self.words.resource_name), EFFECTS)
        except TemplateError as error:
            raise Refused(f"cannot execute template: {error.message}") from None


class _Manifests(NamedTuple):
    """Execution of a template for a request."""

    text: str
    request: Mapping[str, Any]
    resource_name: str

    @property
    def is_costly(self) -> bool:
        return self._compiled().is_costly

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        request = self.request
        data = {name: request.get(name) or {} for name in _NAMES}
        # Fetched resources are available under both of their names.
        data["requiredResources"] = data["requiredResources"] or data["extraResources"]
        data["extraResources"] = data["extraResources"] or data["requiredResources"]
        functions = functions_for(request, self.resource_name)
        return self._compiled().execute(data, effects, limits, functions)

    def _compiled(self) -> JinjaTemplate:
        return compile_jinja(self.text)
