"""Template errors of both engines."""

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
    """A Jinja2 template uses an undefined name; `why` contains the name."""

    reason = "TemplateUndefined"
