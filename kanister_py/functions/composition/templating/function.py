"""Templating functions: a template becomes manifests, and these an answer."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from kanister_py.functions.composition.answering import AnsweringFunction, Data, Refused
from kanister_py.functions.composition.fields import TTL, Field, Fields, Refusal, head
from kanister_py.functions.composition.templating.composing import Vocabulary, compose, wanted_ttl
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


def templating_fields(api_version: str, kind: str, **more: Field) -> Fields:
    """Give the fields of a template's input, and what one language has more."""
    return {**head(api_version, kind), **SOURCES, **more, "ttl": TTL}


class Templating(AnsweringFunction):
    """Composition of resources with a template that is given the request."""

    words: ClassVar[Vocabulary]
    is_strict: ClassVar = False
    """Whether what would be lost in silence fails the step."""

    def answer(self, request: Mapping[str, Any], given: Data, answer: Data) -> None:
        strict = self.is_strict
        answer["meta"]["ttl"] = wanted_ttl(given, request, self.words, is_strict=strict)
        text = template_of(given, request.get("context") or {})
        manifests = read_manifests(self.rendered(text, given, request))
        compose(request, answer, manifests, self.words, is_strict=strict)

    def refusal_of_shaped(self, given: Data) -> Refusal | None:
        try:
            wanted_ttl(given, {}, self.words, is_strict=self.is_strict)
            self.check_template(written_template_of(given), given)
        except Refused as refused:
            word = given.get("source", "") if refused.path == "source" else ""
            known = tuple(SOURCES["source"].choices.split()) if word else ()
            message = str(refused).removeprefix("invalid function input: ")
            return Refusal(refused.path, message, word, known)
        return None

    @abstractmethod
    def check_template(self, text: str, given: Data) -> None:
        """Refuse a template that cannot be read."""

    @abstractmethod
    def rendered(self, text: str, given: Data, request: Mapping[str, Any]) -> str:
        """Carry a template out over a request."""


# What templates see of the world: the time, chance and time zones, and nothing else.


def _now() -> Time:
    # A function of a composition is handed a request and no clock: it may run in a
    # container of its own.
    return from_datetime(datetime.now(UTC))  # noqa: TID251 - no clock is handed in


def _zone(name: str) -> Location:
    try:
        return zone_of(name, ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise GoError(f"unknown time zone {name}") from None


EFFECTS = Effects(now=_now, load_zone=_zone, random_bytes=os.urandom, elsewhere=execute_template)
