"""Jinja2 templates of Blueprints, with the same parameters as Go templates, in a sandbox.

compile_jinja(text).execute(params, effects)

`values` converts the parameters, `sandbox` restricts access, and `filters` has the functions.
"""

from kanister_py.core.templates.jinja.template import JinjaTemplate, compile_jinja, parse_jinja
from kanister_py.core.templates.jinja.values import view_of

__all__ = ["JinjaTemplate", "compile_jinja", "parse_jinja", "view_of"]
