"""Errors of templates: in parsing, in execution, and at their limits."""

from __future__ import annotations

from kanister_py.core.errors import UsageError

KEY_MISSING = "TemplateKeyMissing"
"""The reason of a template that reads a key which a map has not."""


class TemplateError(UsageError, reason="TemplateError"):
    """A template cannot be parsed or carried out.

    The message is Go's own, for Go templates. `line` counts from one.
    """

    def __init__(self, message: str, line: int = 0, *, reason: str = "") -> None:
        super().__init__(message, reason=reason)
        self.line = line


class TemplateParseError(TemplateError, reason="TemplateParseError"):
    """A text is no template."""


class TemplateExecError(TemplateError, reason="TemplateExecError"):
    """A template fails over the data it was given.

    `context` is the part of the template that failed, `why` what failed there
    without the place. Where a name leads nowhere, `missing` is the name, `owner` the
    expression that does not have it, `kind` its type, and `there` what could be read of
    it instead.
    """

    missing: str = ""
    kind: str = ""
    owner: str = ""
    there: tuple[str, ...] = ()

    def __init__(
        self, message: str, line: int, why: str, context: str = "", *, reason: str = ""
    ) -> None:
        super().__init__(message, line, reason=reason)
        self.context = context
        self.why = why


class TemplateLimitExceeded(TemplateError, reason="TemplateLimitExceeded"):
    """A template was stopped because it did too much.

    `limit` is what it ran into: steps, size or depth.
    """

    def __init__(self, limit: str, why: str, line: int = 0) -> None:
        super().__init__(f"The template was stopped: {why}", line)
        self.limit = limit
