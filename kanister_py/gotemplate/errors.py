"""Errors of Go templates: syntax errors, failures at execution, exceeded limits."""

from __future__ import annotations


class GoTemplateError(Exception):
    """Base class of errors of a template.

    The message is Go's own. `line` counts from one. `column` counts bytes from zero, as
    in Go, and is -1 if Go reports none. `context` is the failed part of the template, and
    `why` is the message without the place. `reason` is machine-readable.
    """

    reason = "TemplateError"

    def __init__(
        self,
        message: str,
        name: str = "",
        line: int = 0,
        column: int = -1,
        context: str = "",
        why: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.line = line
        self.column = column
        self.context = context
        self.why = why


class ParseError(GoTemplateError):
    """The text is not a valid template."""

    reason = "TemplateParseError"


class ExecError(GoTemplateError):
    """The template failed for the given data.

    If a name could not be resolved, `missing` is that name, `owner` the expression that
    lacks it (empty for the dot and for expressions that are not names), `kind` the
    type of the owner, and `available` the names that the owner has.
    """

    reason = "TemplateExecError"
    missing: str = ""
    kind: str = ""
    owner: str = ""
    available: tuple[str, ...] = ()


class KeyMissing(ExecError):
    """A template reads a key that a map does not have."""

    reason = "TemplateKeyMissing"

    @property
    def key(self) -> str:
        return self.missing


class LimitExceeded(GoTemplateError):
    """A template was stopped because it exceeded a limit.

    `limit` is one of: steps, size, depth, time, memory, stopped.
    """

    reason = "TemplateLimitExceeded"

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(f"The template was stopped: {why}", why=why)
        self.limit = limit
