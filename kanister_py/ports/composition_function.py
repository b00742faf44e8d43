"""Composition function: the class that authors derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel


class CompositionFunction(ABC):
    """A function of a composition. One instance serves one call: keep state in locals.

    `request` and the answer are messages of the protocol as protobuf writes them in
    JSON. An author may change neither the request nor anything inside it.

    A class that offers a further version of another derives from it, and says `version`.
    """

    name: ClassVar[str]
    Input: ClassVar[type[BaseModel] | None] = None
    """What a step may hand in; None for a function that reads its input itself."""

    @classmethod
    def described_input(cls) -> type[BaseModel] | None:
        """Give the model that the documentation of the input is made of.

        A function that reads its input itself may answer with a model that is loaded
        for this alone: describing is rare, and calls are many.
        """
        return cls.Input

    @abstractmethod
    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Answer one request. A coroutine function is awaited."""


class VersionedCompositionFunction(CompositionFunction):
    """A function with several versions. Its own `run`, if it has one, is v0.0.0."""

    stable_version: ClassVar[str]
    """What a step gets that names no version."""
    versions: ClassVar[Mapping[str, type[CompositionFunction] | str]]
    """Each version with its class, or with `module:Class`, which is loaded when needed."""
    lifecycle: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What the record would say of these versions, counted in the author's own releases:
    `{"releases": [{"version": "1.0.0"}], "versions": {"v0.1.0": {"since": "1.0.0"}}}`."""
