"""Errors of templates in either language: those of the engine, under the house's names."""

from kanister_py.gotemplate.errors import ExecError as TemplateExecError
from kanister_py.gotemplate.errors import GoTemplateError as TemplateError
from kanister_py.gotemplate.errors import LimitExceeded as TemplateLimitExceeded
from kanister_py.gotemplate.errors import ParseError as TemplateParseError

__all__ = [
    "TemplateError",
    "TemplateExecError",
    "TemplateLimitExceeded",
    "TemplateParseError",
    "TemplateUndefined",
]


class TemplateUndefined(TemplateExecError):
    """A template in Jinja2 uses a name that is not defined; `why` says which."""

    reason = "TemplateUndefined"
