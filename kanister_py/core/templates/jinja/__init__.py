"""Jinja2 for blueprints: the same params, in Jinja2's own sandbox.

    compile_jinja(text).execute(params, effects)

`values` says what a template sees of the params, `sandbox` what it may reach, and
`filters` what it may call.
"""

from kanister_py.core.templates.jinja.template import JinjaTemplate, compile_jinja, parse_jinja
from kanister_py.core.templates.jinja.values import view_of

__all__ = ["JinjaTemplate", "compile_jinja", "parse_jinja", "view_of"]
