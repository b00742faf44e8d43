"""Template engines, and their detection from the templates of a Blueprint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.errors import TemplateParseError
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS
from kanister_py.gotemplate.template import compile_template


class UnknownTemplateEngine(UsageError, reason="UnknownTemplateEngine"):
    """A Blueprint requests an unknown template engine."""

    def __init__(self, engine: str, engines: Sequence[str]) -> None:
        super().__init__(
            f"Template engine {engine!r} is unknown; expected one of {', '.join(engines)}"
        )
        self.engine = engine


ENGINE_ANNOTATION = "kanister-py.io/template-engine"


class Engine(StrEnum):
    """Template engines. The values are those of the annotation."""

    GO = "go"
    JINJA2 = "jinja2"


class EngineChoice(NamedTuple):
    """Chosen engine, and the reason for the author.

    `is_sure` is False if neither engine can parse all texts and the more likely one was chosen.
    """

    engine: Engine
    why: str
    is_sure: bool = True


def choose_engine(annotations: Mapping[str, str], templates: Iterable[str]) -> EngineChoice:
    """Choose the template engine of a Blueprint.

    A Blueprint has one engine. The annotation decides; without it, an expression that only Go has
    means Go. Otherwise Go is chosen if it can parse all texts, and Jinja2 if not.
    """
    name = annotations.get(ENGINE_ANNOTATION)
    if name is not None:
        if name not in tuple(Engine):
            raise UnknownTemplateEngine(name, tuple(Engine))
        return EngineChoice(Engine(name), f"The annotation {ENGINE_ANNOTATION} selects it")
    texts = list(dict.fromkeys(text for text in templates if is_template(text)))
    if not texts:
        return EngineChoice(Engine.GO, "No text is a template")
    for text in texts:
        marker = _go_reading(text)
        if marker:
            return EngineChoice(Engine.GO, f"An expression contains {marker}")
    why = next(filter(None, (syntax_error_in(text, Engine.GO) for text in texts)), None)
    if why is None:
        return EngineChoice(Engine.GO, "Go can parse all templates")
    if any(_GO_WORD.search(text) for text in texts):
        # For Jinja2 these words are ordinary names, which would hide syntax errors next to them.
        return EngineChoice(Engine.GO, "An expression begins with a Go keyword", False)
    if not any(syntax_error_in(text, Engine.JINJA2) for text in texts):
        return EngineChoice(Engine.JINJA2, f"Go cannot parse all templates: {why.message}")
    neither = "Neither engine can parse all templates, and"
    if any(map(_looks_like_jinja, texts)):
        return EngineChoice(Engine.JINJA2, f"{neither} some look like Jinja2", False)
    return EngineChoice(Engine.GO, f"{neither} none looks like Jinja2", False)


def syntax_error_in(text: str, engine: Engine) -> TemplateParseError | None:
    """Return the syntax error of a text, or None if it is a valid template."""
    try:
        if engine is Engine.GO:
            compile_template(text, blueprint_functions())
        elif is_template(text, engine):
            # Imported on demand: importing Jinja2 takes longer than most runs.
            from kanister_py.core.templates.jinja import compile_jinja

            compile_jinja(text)
    except TemplateParseError as error:
        return error
    return None


def is_evident(text: str, engine: Engine) -> bool:
    """Return whether a text with a syntax error is certainly meant for an engine."""
    looks_like_jinja = _looks_like_jinja(text)
    if engine is Engine.JINJA2:
        return looks_like_jinja
    return not looks_like_jinja and _ONLY_GO.search(text) is not None


def is_template(text: str, engine: Engine | None = None) -> bool:
    """Return whether a text contains template syntax, of any engine if none is given."""
    if engine is Engine.GO:
        return "{{" in text
    return "{" in text and ("{{" in text or "{%" in text or "{#" in text)


def blueprint_functions() -> FunctionTable:
    """Return the functions for the Go templates of Blueprints."""
    return BLUEPRINT_FUNCTIONS


# An unclosed quote ends with its line, so that no character is scanned twice.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*+"?|`[^`]*+`?|\'(?:\\.|[^\'\\\n])*+\'?')
# A field of the dot does not follow a value whose field it could be.
_READING = re.compile(r"(?<![\w.)\]}$\"])\.[^\W\d]\w*|\$[^\W\d]\w*")
_GO_WORD = re.compile(r"\{\{-?\s*(?:if|else|end|range|with|define|template|block)\b")
# An expression that cannot be Jinja2: there, a keyword would have to be a variable or function.
_ONLY_GO = re.compile(
    r"\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|define|template|block)\b(?!\s*[(.|\[]))"
)
# A filter with arguments, or a top-level parameter without a dot before it.
_JINJA_READING = re.compile(
    r"\|\s*\w+\(|(?<![\w.$\"'])(?:" + "|".join(sorted(ROOT_NAMES)) + r")[.\[]"
)


def _go_reading(text: str) -> str:
    """Return the first `.Field` or `$variable` that an expression of a text reads."""
    start = text.find("{{")
    while start >= 0:
        inside = start + 2
        comment = text[inside : inside + 3].removeprefix("-").lstrip()
        if comment.startswith("/*"):
            end = text.find("*/", inside)
        else:
            end = text.find("}}", inside)
            if end >= 0:
                # Quoted text is reduced to a quote, so that `"a".b` keeps its meaning.
                match = _READING.search(_QUOTED.sub('"', text[inside:end]))
                if match:
                    return match[0]
        if end < 0:
            return ""
        start = text.find("{{", end)
    return ""


def _looks_like_jinja(text: str) -> bool:
    """Return whether a text has statements, comments or expressions of Jinja2."""
    if "{%" in text or "{#" in text:
        return True
    start = text.find("{{")
    while start >= 0:
        end = text.find("}", start)
        end = len(text) if end < 0 else end
        if _JINJA_READING.search(text, start, end):
            return True
        start = text.find("{{", end)
    return False
