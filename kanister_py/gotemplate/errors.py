"""Errors of Go templates: a text that is none, one that fails, one that does too much."""

from __future__ import annotations


class GoTemplateError(Exception):
    """The root of what goes wrong with a template.

    The message is Go's own. `line` counts from one; `column` is Go's: bytes from
    zero, and -1 where Go does not say it. `context` is the part of the template that
    failed, `why` what failed there without the place. `reason` is for machines.
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
    """A text is no template."""

    reason = "TemplateParseError"


class ExecError(GoTemplateError):
    """A template fails over the data it was given.

    Where a name leads nowhere, `missing` is the name, `owner` the expression that does
    not have it (empty for the dot, and for what is not written as names), `kind` the
    type of that, and `there` what could be read of it instead.
    """

    reason = "TemplateExecError"
    missing: str = ""
    kind: str = ""
    owner: str = ""
    there: tuple[str, ...] = ()


class KeyMissing(ExecError):
    """A template reads a key that a map has not."""

    reason = "TemplateKeyMissing"

    @property
    def key(self) -> str:
        return self.missing


class LimitExceeded(GoTemplateError):
    """A template was stopped because it did too much.

    `limit` is what it ran into: steps, size, depth, time, memory, or stopped.
    """

    reason = "TemplateLimitExceeded"

    def __init__(self, limit: str, why: str) -> None:
        super().__init__(f"The template was stopped: {why}", why=why)
        self.limit = limit
