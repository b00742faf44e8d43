"""function-go-templating v0.2.0: like v0.1.0, but mistakes are not ignored."""

from __future__ import annotations

from kanister_py.functions.composition.go_templating.v0_1_0 import GoTemplating


class GoTemplatingV020(GoTemplating):
    """Composes resources with a Go template that receives the request.

    Like v0.1.0, except that these mistakes, which v0.1.0 ignores, fail the step: two
    manifests with the same name (v0.1.0 composes only the last), connection details that are
    not valid base64 (v0.1.0 truncates them), and a `ttl` that is not a duration.
    """

    version = "v0.2.0"
    is_strict = True
