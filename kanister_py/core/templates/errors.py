"""Failures of templates: of texts that are none, and of their carrying out."""

from __future__ import annotations

from kanister_py.core.errors import UsageError


class TemplateError(UsageError):
    """A template cannot be parsed or carried out.

    The message is Go's own, for Go templates. `line` counts from one; `column` is
    Go's: bytes from zero, and -1 where Go does not say it.
    """

    reason = "TemplateError"

    def __init__(self, message: str, name: str = "", line: int = 0, column: int = -1) -> None:
        super().__init__(message)
        self.name = name
        self.line = line
        self.column = column


class TemplateParseError(TemplateError):
    """A text is no template."""

    reason = "TemplateParseError"


class TemplateExecError(TemplateError):
    """A template fails over the data it was given.

    `context` is the part of the template that failed, `why` what failed there
    without the place. Where a name leads nowhere, `missing` is the name, `owner` the
    expression that does not have it, `kind` its type, and `there` what could be read of
    it instead.
    """

    reason = "TemplateExecError"
    missing: str = ""
    kind: str = ""
    owner: str = ""
    there: tuple[str, ...] = ()

    def __init__(
        self, message: str, name: str, line: int, column: int, context: str, why: str
    ) -> None:
        super().__init__(message, name, line, column)
        self.context = context
        self.why = why


class TemplateKeyMissing(TemplateExecError):
    """A template reads a key that a map has not."""

    reason = "TemplateKeyMissing"

    def __init__(
        self, message: str, name: str, line: int, column: int, context: str, key: str
    ) -> None:
        super().__init__(message, name, line, column, context, f'map has no entry for key "{key}"')
        self.key = key


class TemplateLimitExceeded(TemplateError):
    """A template was stopped because it did too much.

    `limit` is what it ran into: steps, size or depth.
    """

    reason = "TemplateLimitExceeded"

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(f"The template was stopped: {why}")
        self.limit = limit
