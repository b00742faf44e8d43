"""Composition function: the base class for authors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel


class CompositionFunction(ABC):
    """A composition function. One instance serves one call, so state belongs in local variables.

    `request` and the response are messages of the protocol in protobuf's JSON format. An author
    must not change the request or any part of it.

    A class with another version of a function derives from it and sets `version`.
    """

    name: ClassVar[str]
    Input: ClassVar[type[BaseModel] | None] = None
    """Model of a step's input; None if the function reads its input itself."""

    @classmethod
    def described_input(cls) -> type[BaseModel] | None:
        """Return the model that the documentation of the input is generated from.

        A function that reads its input itself may return a model that is loaded only for this
        purpose, because it is rarely called.
        """
        return cls.Input

    @abstractmethod
    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Return the response to a request. Coroutine functions are awaited."""


class VersionedCompositionFunction(CompositionFunction):
    """A function with several versions. Its own `run`, if defined, is v0.0.0."""

    stable_version: ClassVar[str]
    """Version for steps that do not name one."""
    versions: ClassVar[Mapping[str, type[CompositionFunction] | str]]
    """Every version with its class, or with `module:Class`, which is imported when needed."""
    lifecycle: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Lifecycle of these versions, in releases of the author's package: `{"releases": [{"version":
    "1.0.0"}], "versions": {"v0.1.0": {"since": "1.0.0"}}}`.
    """
