"""Templating functions: a template is rendered to manifests, and these to a response."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from kanister_py.functions.composition.answering import AnsweringFunction, Data, Refused
from kanister_py.functions.composition.fields import TTL, Field, Fields, Refusal, head
from kanister_py.functions.composition.templating.composing import Vocabulary, compose, ttl_for
from kanister_py.functions.composition.templating.manifests import read_manifests
from kanister_py.functions.composition.templating.sources import (
    SOURCES,
    template_of,
    written_template_of,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.times import Location, Time, from_datetime, zone_of
from kanister_py.limited_calls import execute_template
from kanister_py.ports.deadlines import check_deadline


def templating_fields(api_version: str, kind: str, **more: Field) -> Fields:
    """Return the fields of a templating function's input, including its language's."""
    return {**head(api_version, kind), **SOURCES, **more, "ttl": TTL}


class Templating(AnsweringFunction):
    """Composition of resources with a template that is given the request."""

    words: ClassVar[Vocabulary]
    is_strict: ClassVar = False
    """Whether mistakes that are otherwise ignored fail the step."""

    def answer(self, request: Mapping[str, Any], function_input: Data, answer: Data) -> None:
        strict = self.is_strict
        answer["meta"]["ttl"] = ttl_for(function_input, request, self.words, is_strict=strict)
        text = template_of(function_input, request.get("context") or {})
        manifests = read_manifests(self.rendered(text, function_input, request))
        compose(request, answer, manifests, self.words, is_strict=strict)

    def refusal_of_decoded(self, function_input: Data) -> Refusal | None:
        try:
            ttl_for(function_input, {}, self.words, is_strict=self.is_strict)
            self.check_template(written_template_of(function_input), function_input)
        except Refused as refused:
            word = function_input.get("source", "") if refused.path == "source" else ""
            choices = tuple(SOURCES["source"].choices.split()) if word else ()
            message = str(refused).removeprefix("invalid function input: ")
            return Refusal(refused.path, message, word, choices)
        return None

    @abstractmethod
    def check_template(self, text: str, function_input: Data) -> None:
        """Raise Refused if a template cannot be parsed."""

    @abstractmethod
    def rendered(self, text: str, function_input: Data, request: Mapping[str, Any]) -> str:
        """Render a template for a request."""


# Side effects available to templates: the time, random numbers and time zones.


def _now() -> Time:
    # A composition function receives a request and no clock, because it may run in a
    # container of its own.
    return from_datetime(datetime.now(UTC))  # noqa: TID251 - there is no injected clock


def _zone(name: str) -> Location:
    try:
        return zone_of(name, ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise GoError(f"unknown time zone {name}") from None


EFFECTS = Effects(
    now=_now,
    load_zone=_zone,
    random_bytes=os.urandom,
    run_in_process=execute_template,
    is_stopped=check_deadline,
)
