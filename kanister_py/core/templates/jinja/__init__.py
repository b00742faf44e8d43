"""Jinja2 for blueprints: the same params, in a sandbox that cannot be left or worn out.

    compile_jinja(text).execute(params, effects)

`views` says what a template sees of the params, `sandbox` what it may reach, and
`filters` what it may call.
"""

from kanister_py.core.templates.jinja.template import JinjaTemplate, compile_jinja

__all__ = ["JinjaTemplate", "compile_jinja"]
