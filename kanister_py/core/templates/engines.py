"""Template languages: Go or Jinja2, whichever the templates of a blueprint are written in."""

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
    """A blueprint asks for its templates to be read in a language we do not have."""

    def __init__(self, engine: str, known: Sequence[str]) -> None:
        super().__init__(f"Template engine {engine!r} is not known; there are {', '.join(known)}")
        self.engine = engine


ENGINE_ANNOTATION = "kanister-py.io/template-engine"


class Engine(StrEnum):
    """The languages we have; the values are what the annotation says."""

    GO = "go"
    JINJA2 = "jinja2"


class EngineChoice(NamedTuple):
    """The language that was taken, and why, in words for the author.

    `is_sure` unless neither language reads all of the texts: then the likelier is taken.
    """

    engine: Engine
    why: str
    is_sure: bool = True


def choose_engine(annotations: Mapping[str, str], templates: Iterable[str]) -> EngineChoice:
    """Say in which language a blueprint's templates are written.

    One blueprint has one language. What the annotation says holds; else a single
    expression that only Go could mean settles it; else Go must be able to read all of
    them.
    """
    asked = annotations.get(ENGINE_ANNOTATION)
    if asked is not None:
        if asked not in tuple(Engine):
            raise UnknownTemplateEngine(asked, tuple(Engine))
        return EngineChoice(Engine(asked), f"The annotation {ENGINE_ANNOTATION} says so")
    texts = list(dict.fromkeys(text for text in templates if is_template(text)))
    if not texts:
        return EngineChoice(Engine.GO, "No text is a template")
    for text in texts:
        marker = _go_reading(text)
        if marker:
            return EngineChoice(Engine.GO, f"An expression reads {marker}")
    why = next(filter(None, (fault_in(text, Engine.GO) for text in texts)), None)
    if why is None:
        return EngineChoice(Engine.GO, "All of them can be read as Go")
    if any(_GO_WORD.search(text) for text in texts):
        # To Jinja2 these are names like others, and it would read a slip beside them.
        return EngineChoice(Engine.GO, "An expression begins with a word of Go's", False)
    if not any(fault_in(text, Engine.JINJA2) for text in texts):
        return EngineChoice(Engine.JINJA2, f"Go cannot read all of them: {why.message}")
    neither = "Neither language reads all of them, and"
    if any(map(_looks_like_jinja, texts)):
        return EngineChoice(Engine.JINJA2, f"{neither} some look like Jinja2", False)
    return EngineChoice(Engine.GO, f"{neither} none looks like Jinja2", False)


def fault_in(text: str, engine: Engine) -> TemplateParseError | None:
    """Say why a text is no template of a language; nothing if it is one."""
    try:
        if engine is Engine.GO:
            compile_template(text, blueprint_functions())
        elif is_template(text, engine):
            # Jinja2 takes longer to import than most runs take; they do without it.
            from kanister_py.core.templates.jinja import compile_jinja

            compile_jinja(text)
    except TemplateParseError as error:
        return error
    return None


def is_template(text: str, engine: Engine | None = None) -> bool:
    """Say whether a text is anything but itself; without an engine, in any language."""
    if engine is Engine.GO:
        return "{{" in text
    return "{" in text and ("{{" in text or "{%" in text or "{#" in text)


def blueprint_functions() -> FunctionTable:
    """Give the functions that the Go templates of a blueprint may call."""
    return BLUEPRINT_FUNCTIONS


# A quote that is never closed ends with its line, so that no character is scanned twice.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*+"?|`[^`]*+`?|\'(?:\\.|[^\'\\\n])*+\'?')
# A field of the dot follows nothing it could be the field of.
_READING = re.compile(r"(?<![\w.)\]}$\"])\.[^\W\d]\w*|\$[^\W\d]\w*")
_GO_WORD = re.compile(r"\{\{-?\s*(?:if|else|end|range|with|define|template|block)\b")
# A filter with arguments, or a name from the top of the tree that is read without a dot.
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
                # Quoted text leaves a quote behind, so that `"a".b` keeps its meaning.
                found = _READING.search(_QUOTED.sub('"', text[inside:end]))
                if found:
                    return found[0]
        if end < 0:
            return ""
        start = text.find("{{", end)
    return ""


def _looks_like_jinja(text: str) -> bool:
    """Return True for statements, comments, and expressions in Jinja2's manner."""
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
