"""function-jinja-templating v0.2.0: as v0.1.0, but nothing is lost in silence."""

from __future__ import annotations

from kanister_py.functions.composition.jinja_templating.v0_1_0 import JinjaTemplating


class JinjaTemplatingV020(JinjaTemplating):
    """Compose resources with a Jinja2 template that is given the request.

    As v0.1.0, but what that passes over in silence fails the step: a second manifest under
    the name of another, of which v0.1.0 composes the last alone; connection details that
    are no base64, which v0.1.0 cuts off; a `ttl` that is no duration.
    """

    version = "v0.2.0"
    is_strict = True
